"""Sources of a model: a path, bytes, a ModelProto or a file object."""

import io
import os
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from ort_lite.errors import Fail, InvalidProtobuf, InvalidType, NoSuchFile, OrtLiteError, OutOfMemory
from ort_lite.load.file_place import read_span
from ort_lite.load.files import OpenFile, open_file, words
from ort_lite.load.proto import OUTLINE_FROM, parse, pb
from ort_lite.load.spans import Backing, ByteSpan
from ort_lite.load.wire import EVERY, LARGE, InFile, InMemory, Malformed, Span, outline
from ort_lite.record import Record

_PIECE = 2**24  # bytes to read from a file object at a time
_LARGEST = 2**31 - 1  # bytes in a message
_WHOLE = 2**20  # bytes of a file below which reading all of it takes less time than reading its tensors one by one

ModelSource = str | os.PathLike[str] | bytes | bytearray | memoryview | pb.ModelProto | BinaryIO


class ParsedSource(Record):
    """A parsed model. `spans` are the positions of its large tensors; `read` returns the bytes of one (`ort_lite.load.wire`).

    `path` is its origin. `file` stays open while tensors are read from it; call `close` afterwards.
    """

    proto: pb.ModelProto
    spans: frozenset[Span] = frozenset()
    read: Callable[[int, int], ByteSpan] | None = None
    path: str | None = None
    file: OpenFile | None = None

    def close(self) -> None:
        """Close the file, if the model came from one."""
        if self.file is not None:
            self.file.close()

    def check(self) -> None:
        """Raise Fail if the file changed while it was read."""
        _check(self.file)


class OutlinedSource(Record):
    """A model that has not been parsed: `data` are its bytes without its large tensors. The other fields are as in ParsedSource."""

    data: bytes
    spans: frozenset[Span]
    read: Callable[[int, int], ByteSpan]
    path: str | None
    file: OpenFile | None

    def close(self) -> None:
        """Close the file, if the model came from one."""
        if self.file is not None:
            self.file.close()

    def check(self) -> None:
        """Raise Fail if the file changed while it was read."""
        _check(self.file)

    def parse(self) -> ParsedSource:
        """Return the parsed source. Raises InvalidProtobuf."""
        proto, _ = parse(InMemory(memoryview(self.data)), self.path or "the model")
        return ParsedSource(proto, self.spans, self.read, self.path, self.file)


def _check(file: OpenFile | None) -> None:
    if file is not None:
        try:
            file.check()
        except OSError as error:
            raise _read_error(file.path, error) from error


def read_source(model: "ModelSource | ParsedSource", in_place: bool = False) -> ParsedSource:
    """Read a model from any source.

    With `in_place`, tensors in a caller's contiguous buffer stay there. Raises NoSuchFile, InvalidProtobuf, Fail for a file that
    cannot be read, and InvalidType for anything else.
    """
    if isinstance(model, ParsedSource):
        return model
    if isinstance(model, pb.ModelProto):
        return ParsedSource(model)
    if isinstance(model, (str, os.PathLike)):
        return _read_path(os.fsdecode(model))
    data = _read_stream(model) if isinstance(model, io.IOBase) else model.read() if hasattr(model, "read") else model
    if not isinstance(data, (bytes, bytearray, memoryview)):
        expected = "a path, bytes, a ModelProto or a file opened in binary mode"
        raise InvalidType(f"a model came as {type(model).__name__} (of {type(data).__name__}); expected {expected}")
    view = memoryview(data)
    return _read_bytes(view, "the model", in_place=in_place and data is model and view.contiguous)


def read_outline(model: "str | os.PathLike[str] | bytes | bytearray | memoryview") -> OutlinedSource | None:
    """Read a model without its large tensors, which can be read afterwards, and without parsing it.

    None for what `read_source` must judge: a model that cannot be read, or that only protobuf understands.
    """
    path, file, given = None, None, cast(Any, model)
    try:
        if isinstance(model, (str, os.PathLike)):
            path = os.fsdecode(model)
            file = open_file(path)
            if file.size < _WHOLE:
                with file:
                    given, file = file.whole(), None
        if file is not None:
            found = outline(InFile(file.size, file.read), LARGE)
            if found is not None:
                return OutlinedSource(*found, _reader(file, file.path), path, file)
            file.close()
            return None
        data = memoryview(given).cast("B")
        found = outline(InMemory(data), LARGE)
    except (OSError, ValueError, TypeError, Malformed):
        if file is not None:
            file.close()
        return None
    if found is None:
        return None
    return OutlinedSource(*found, lambda begin, end: ByteSpan.of_bytes(data[begin:end]), path, None)


def _read_stream(stream: Any) -> Any:
    """Read a file object up to the largest message size, since it may be an endless device."""
    data = stream.read(_PIECE)
    if not isinstance(data, bytes):
        return data
    whole = bytearray(data)
    try:
        while piece := stream.read(_PIECE):
            whole += piece
            if len(whole) > _LARGEST:
                raise InvalidProtobuf(f"the model, a file object, has more than {_LARGEST:,} bytes: it is no ONNX model")
    except MemoryError as error:
        raise OutOfMemory("the bytes of the model, a file object, do not fit into memory") from error
    return whole


def _read_bytes(data: memoryview, origin: str, in_place: bool = False, path: str | None = None) -> ParsedSource:
    data = data.cast("B") if data.contiguous else memoryview(bytes(data))
    least = EVERY if in_place else LARGE if len(data) >= OUTLINE_FROM else None
    proto, spans = parse(InMemory(data), origin, least)
    if not spans:
        return ParsedSource(proto, path=path)
    if in_place:
        lender = Backing(data)
        return ParsedSource(proto, spans, lambda begin, end: lender.lend(begin, end - begin), path)
    return ParsedSource(proto, spans, lambda begin, end: ByteSpan.of_bytes(data[begin:end]), path)


def _read_path(path: str) -> ParsedSource:
    """Read a small file whole; for a large one, read only what surrounds its tensors, which are read later, once each."""
    try:
        file = open_file(path)
    except IsADirectoryError as error:
        raise InvalidProtobuf(f"{path} is no ONNX model: it is a folder") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        said = f"Load model from {path} failed. File doesn't exist"
        raise NoSuchFile(f"{path} cannot be loaded: {error.strerror}").about(words=said) from error
    except (OSError, ValueError) as error:
        raise _read_error(path, error) from error
    try:
        return _read_file(file, path)
    except BaseException as error:
        file.close()
        if isinstance(error, OSError) and not isinstance(error, OrtLiteError):
            raise _read_error(path, error) from error
        raise


def _read_file(file: OpenFile, path: str) -> ParsedSource:
    if file.size < OUTLINE_FROM:
        with file:
            return _read_bytes(memoryview(file.whole()), path, path=path)
    proto, spans = parse(InFile(file.size, file.read), path, LARGE)
    return ParsedSource(proto, spans, _reader(file, path), path, file)


def _reader(file: OpenFile, path: str) -> Callable[[int, int], ByteSpan]:
    def read(begin: int, end: int) -> ByteSpan:
        try:
            return read_span(file, begin, end - begin)
        except OrtLiteError:
            raise
        except OSError as error:
            raise _read_error(path, error) from error

    return read


def _read_error(path: str, error: Exception) -> Fail:
    return Fail(f"{path} cannot be read: {words(error) if isinstance(error, OSError) else error}")
