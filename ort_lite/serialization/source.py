"""Where a model comes from: a path, bytes, a ModelProto or a file object."""

import os
from typing import BinaryIO

from ort_lite.errors import Fail, InvalidProtobuf, InvalidType, NoSuchFile
from ort_lite.record import Record
from ort_lite.serialization.proto import OUTLINE_FROM, parse, pb
from ort_lite.serialization.wire import Span

ModelSource = str | os.PathLike[str] | bytes | bytearray | memoryview | pb.ModelProto | BinaryIO


class ParsedSource(Record):
    """A parsed model; `data` and `spans` hold its large tensors (`ort_lite.serialization.wire`), `file` is where it came from.

    `in_place`: `data` is the caller's, and tensors may stay in it.
    """

    proto: pb.ModelProto
    data: memoryview | None = None
    spans: frozenset[Span] = frozenset()
    file: str | None = None
    in_place: bool = False


def read_source(model: ModelSource, in_place: bool = False) -> ParsedSource:
    """`in_place` leaves the tensors of a caller's buffer where they are, if its bytes are contiguous.

    Raises NoSuchFile, InvalidProtobuf, Fail for a file that cannot be read, InvalidType for anything else.
    """
    if isinstance(model, pb.ModelProto):
        return ParsedSource(model)
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        return _parsed(_contents(path), path, path)
    data = model.read() if hasattr(model, "read") else model
    if not isinstance(data, (bytes, bytearray, memoryview)):
        expected = "a path, bytes, a ModelProto or a file opened in binary mode"
        raise InvalidType(f"a model came as {type(model).__name__} (of {type(data).__name__}); expected {expected}")
    view = memoryview(data)
    return _parsed(view, "the model", in_place=in_place and data is model and view.contiguous)


def _parsed(data: memoryview, origin: str, file: str | None = None, in_place: bool = False) -> ParsedSource:
    data = data.cast("B") if data.contiguous else memoryview(bytes(data))
    proto, spans = parse(data, origin, in_place)
    return ParsedSource(proto, data, spans, file, in_place)


def _contents(path: str) -> memoryview:
    """The bytes of the file, mapped while it is being loaded when it is large."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < OUTLINE_FROM:
                return memoryview(file.read())
            import mmap

            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except IsADirectoryError as error:
        raise InvalidProtobuf(f"{path} is no ONNX model: it is a folder") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        words = f"Load model from {path} failed. File doesn't exist"
        raise NoSuchFile(f"{path} cannot be loaded: {error.strerror}").about(words=words) from error
    except (OSError, ValueError) as error:
        raise Fail(f"{path} cannot be read: {error}") from error
