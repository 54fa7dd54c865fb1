"""External data: tensors in files next to the model.

After links are resolved, a location must be in the folder from which the model was opened, in the folder of the model's real file
(a download cache links to both from elsewhere), or in a folder that the caller allows. The file is opened without following further
links; all checks are made on the open file. It must be a regular file with one name, and offsets are compared with its size.
Tensors are read into new memory, or into the mapped file if the caller requests that.
"""

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ort_lite.errors import Fail, InvalidArgument, InvalidGraph, NoExternalData, OrtLiteError, shorten
from ort_lite.load.file_place import read_span
from ort_lite.load.files import Changed, NotRegular, OpenFile, is_below, open_below, words
from ort_lite.load.spans import ByteSpan

if TYPE_CHECKING:
    from ort_lite.load.supplied import Supplied

Folder = str | os.PathLike[str]

_KEYS = ("location", "offset", "length", "checksum", "basepath")
"""ONNX's keys, plus `basepath`, which ONNX's tools write and which is ignored."""
_PREPACKED = "prepacked_"
"""The prefix of onnxruntime's keys for weights that it packed. There may be any number of them."""
_LONGEST = 4096
"""The most characters of a location. No system has longer paths, and resolving one takes quadratic time."""
_MOST_TIMES, _FREE_BYTES = 4, 2**20
"""The limit on the total size of tensors relative to their file. Models share a few tensors, but do not repeat the file."""


class ExternalData:
    """The external files of one model. `read` serves `TensorReader`; call `close` after the last tensor."""

    def __init__(
        self,
        folder: Folder | None,
        file: str | None = None,
        roots: Sequence[Folder] = (),
        mapped: bool = False,
        supplied: "Supplied | None" = None,
    ) -> None:
        """`roots` are additional folders to allow.

        With `mapped`, tensors lie in the mapped file, which owns their spans. Files `supplied` in memory replace all files on disk.
        """
        self.folder, self._file, self._roots, self._mapped, self._supplied = folder, file, roots, mapped, supplied
        self._open: OpenFile | None = None  # only the last one: a model may have thousands
        self._paths: dict[str, tuple[str, str]] = {}  # by location
        self._sums: dict[tuple[int, ...], str] = {}  # digests by file
        self._asked: dict[tuple[Any, ...], int] = {}  # bytes by file
        self._spans = WeakValueDictionary[tuple[tuple[Any, ...], int, int], ByteSpan]()  # by file, offset and size

    @cached_property
    def _folders(self) -> list[str]:
        """The folders that may contain files, with links resolved."""
        beside = None if self._file is None else os.path.dirname(os.path.realpath(self._file))
        return [os.path.realpath(folder) for folder in (self.folder, beside, *self._roots) if folder is not None]

    def read(self, entries: Sequence[tuple[str, str]], nbytes: int, who: str) -> ByteSpan:
        """Return the bytes, `nbytes` in number, that the entries of a tensor refer to.

        Raises InvalidGraph, InvalidArgument, NoExternalData, and Fail for a file that changes meanwhile.
        """
        fields = _fields(entries, who)
        location = fields.get("location", "")
        offset, length = _number(fields, "offset", 0, who), _number(fields, "length", nbytes, who)
        if length != nbytes:
            raise InvalidGraph(f"{who}: external data of {length} bytes, its dimensions and element type need {nbytes}")
        held = None if self._supplied is None else self._supplied.backing(location, who)
        if held is not None:
            _check_range(offset, nbytes, location, held.nbytes, who)
            span = held.span(offset, nbytes)
            if self._mapped and nbytes:
                return span
            return self._once((location,), held.nbytes, offset, nbytes, who, lambda: ByteSpan.of_bytes(span.array()))
        file = self._open_file(location, who)
        _check_range(offset, nbytes, location, file.size, who)
        try:
            if checksum := fields.get("checksum", ""):
                self._check_sum(file, checksum, who)
            if self._mapped and nbytes:
                from ort_lite.load.mapped import map_file

                return map_file(file).span(offset, nbytes)
            return self._once(file.identity, file.size, offset, nbytes, who, lambda: read_span(file, offset, nbytes))
        except OrtLiteError:
            raise
        except OSError as error:
            raise _read_error(file.path, error, who) from error

    def _once(
        self, file: tuple[Any, ...], size: int, offset: int, nbytes: int, who: str, copy: Callable[[], ByteSpan]
    ) -> ByteSpan:
        """Call `copy` once for all tensors in the same place. Raises InvalidGraph if tensors repeat the file too often."""
        asked = self._asked[file] = self._asked.get(file, 0) + nbytes
        if asked > _MOST_TIMES * size + _FREE_BYTES:
            raise InvalidGraph(
                f"{who}: the tensors of its file have {asked:,} bytes and more, the file has {size:,}: they overlap; "
                "expected a place for each"
            )
        span = self._spans.get((file, offset, nbytes))
        if span is None:
            span = self._spans[file, offset, nbytes] = copy()
        return span

    def place(self, entries: Sequence[tuple[str, str]], nbytes: int, who: str) -> tuple[str, int, int]:
        """Return (file, offset, length) of the bytes that `read` returns. Raises InvalidGraph and InvalidArgument."""
        fields = _fields(entries, who)
        path, _ = self._path(fields.get("location", ""), who)
        return path, _number(fields, "offset", 0, who), _number(fields, "length", nbytes, who)

    def whole(self, location: str, who: str) -> bytes:
        """Return all bytes of a file. Raises the errors of `read`."""
        file = self._open_file(location, who)
        try:
            return file.whole()
        except OrtLiteError:
            raise
        except OSError as error:
            raise _read_error(file.path, error, who) from error

    def check(self) -> None:
        """Raise Fail if the open file has changed since it was opened, since tensors may then be of two versions."""
        if self._open is not None:
            try:
                self._open.check()
            except OSError as error:
                raise _read_error(self._open.path, error, "external data") from error

    def close(self) -> None:
        """Close the open file."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _open_file(self, location: str, who: str) -> OpenFile:
        path, root = self._path(location, who)
        if self._open is not None and self._open.path == path:
            return self._open
        self.check()
        self.close()
        try:
            file = self._open = open_below(root, path)
        except (OSError, ValueError) as error:
            raise _open_error(path, location, error, who) from error
        if file.state.st_nlink > 1:
            raise InvalidGraph(
                f"{who}: external data {location!r} has {file.state.st_nlink} names (hard links), and may be a file from elsewhere; "
                "expected a file with one name: copy it"
            )
        return file

    def _path(self, location: str, who: str) -> tuple[str, str]:
        """Return the file, with links resolved, and the folder that permits it."""
        if not location or "\0" in location or len(location) > _LONGEST:
            raise InvalidGraph(f"{who}: external data without a usable location: {shorten(repr(location), 80)}")
        if self.folder is None:
            raise InvalidArgument(f"{who}: its data is in the file {location!r}; load the model by its path, or pass folder=")
        known = self._paths.get(location)
        if known is None:
            path = os.path.realpath(os.path.join(self.folder, location))
            root = next((folder for folder in self._folders if is_below(folder, path)), None)
            if root is None:
                raise InvalidGraph(
                    f"{who}: external data {location!r} is outside of the model's folder {self.folder}; "
                    "ParseOptions.external_data_roots allows others"
                ).about(words="External data path validation failed")
            known = self._paths[location] = path, root
        return known

    def _check_sum(self, file: OpenFile, checksum: str, who: str) -> None:
        """Compare the SHA-1 digest of the whole file, once per file. Raises InvalidGraph."""
        if file.identity not in self._sums:
            self._sums[file.identity] = file.sha1()
        if checksum.lower() != (found := self._sums[file.identity]):
            name = os.path.basename(file.path)
            raise InvalidGraph(
                f"{who}: the SHA-1 digest of {name!r} is {found}, the model says {checksum[:80]!r}: "
                "damaged, or of another model?"
            )


def _fields(entries: Sequence[tuple[str, str]], who: str) -> dict[str, str]:
    """Return the entries by key. Raises InvalidGraph for unknown and repeated keys, since other readers may use the other one."""
    fields = dict(entries)
    if unknown := [key for key in fields if key not in _KEYS and not key.startswith(_PREPACKED)]:
        raise InvalidGraph(f"{who}: external data has the key {unknown[0][:80]!r}; expected {', '.join(_KEYS)}")
    if len(fields) < len(entries):
        raise InvalidGraph(f"{who}: external data has a key twice; it has {', '.join(key[:80] for key, _ in entries[:16])}")
    return fields


def _number(fields: dict[str, str], key: str, default: int, who: str) -> int:
    text = fields.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidGraph(f"{who}: external data has {key} {text[:80]!r}, expected a number of bytes")
    return int(text)


def _check_range(offset: int, nbytes: int, location: str, size: int, who: str) -> None:
    if offset + nbytes > size:
        name = os.path.basename(location)
        raise InvalidGraph(f"{who}: bytes {offset} to {offset + nbytes} of {name!r}, which has {size}: cut short?")


def _open_error(path: str, location: str, error: Exception, who: str) -> Exception:
    if isinstance(error, (NotRegular, IsADirectoryError)):
        return InvalidGraph(f"{who}: external data {location!r} is not a regular file: {words(error)}")
    said = words(error) if isinstance(error, OSError) else str(error)
    return NoExternalData(f"{who}: external data file {path} cannot be opened: {said}")


def _read_error(path: str, error: OSError, who: str) -> Fail:
    kind = Fail if isinstance(error, Changed) else NoExternalData
    return kind(f"{who}: external data file {path} cannot be read: {words(error)}")
