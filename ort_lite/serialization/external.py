"""External data: tensors in files beside the model, each file mapped into memory once.

A location is read only where it ends up, links resolved, in the folder that the model was opened from, the one that its own
file really is in (a download cache links both from elsewhere), or a folder that the caller allows. A mapped file must not
shrink while tensors lie in it.
"""

import mmap
import os
import stat
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ort_lite.errors import InvalidArgument, InvalidGraph, NoExternalData
from ort_lite.serialization.spans import Backing, ByteSpan

if TYPE_CHECKING:
    from ort_lite.serialization.supplied import Supplied

Folder = str | os.PathLike[str]


class ExternalData:
    """The files of one model. `read` serves `TensorReader`."""

    def __init__(
        self,
        folder: Folder | None,
        file: str | None = None,
        roots: Sequence[Folder] = (),
        no_copy: bool = False,
        supplied: "Supplied | None" = None,
    ) -> None:
        """`roots` are allowed besides. With `no_copy`, tensors lie in the mapped file, which is the owner of their spans.
        Files that are `supplied` in memory stand for all.
        """
        self._supplied = supplied
        self.folder, self._file, self._roots, self._no_copy = folder, file, roots, no_copy
        self._maps: dict[str, Backing] = {}

    @cached_property
    def _allowed(self) -> list[str]:
        """The folders, links resolved, that files may be in."""
        beside = None if self._file is None else os.path.dirname(os.path.realpath(self._file))
        return [os.path.realpath(folder) for folder in (self.folder, beside, *self._roots) if folder is not None]

    def read(self, entries: dict[str, str], nbytes: int, who: str) -> ByteSpan:
        """The `nbytes` wanted. Raises InvalidGraph, InvalidArgument or NoExternalData."""
        location = entries.get("location", "")
        held = None if self._supplied is None else self._supplied.backing(location, who)
        path = location if held is not None else self._path(location, who)
        offset, length = self._number(entries, "offset", 0, who), self._number(entries, "length", nbytes, who)
        if length != nbytes:
            raise InvalidGraph(f"{who}: external data of {length} bytes, its dimensions and element type need {nbytes}")
        if path not in self._maps:
            self._maps[path] = _mapped(path, location, who) if held is None else held
        backing = self._maps[path]
        if offset + nbytes > backing.nbytes:
            raise InvalidGraph(
                f"{who}: bytes {offset} to {offset + nbytes} of {os.path.basename(path)!r}, which has {backing.nbytes}: cut short?"
            )
        span = backing.span(offset, nbytes)
        return span if self._no_copy and nbytes else ByteSpan.owned(span.array())

    def whole(self, location: str, who: str) -> bytes:
        """A copy of all bytes of a file. Raises what `read` raises."""
        backing = _mapped(self._path(location, who), location, who)
        return backing.span(0, backing.nbytes).array().tobytes() if backing.nbytes else b""

    def _path(self, location: str, who: str) -> str:
        if self.folder is None:
            raise InvalidArgument(f"{who}: its data is in the file {location!r}; load the model by its path, or pass folder=")
        if not location or "\0" in location:
            raise InvalidGraph(f"{who}: external data without a usable location: {location!r}")
        path = os.path.realpath(os.path.join(self.folder, location))
        if not any(os.path.commonpath((folder, path)) == folder for folder in self._allowed):
            raise InvalidGraph(
                f"{who}: external data {location!r} is outside of the model's folder {self.folder}; "
                "ParseOptions.external_data_roots allows others"
            )
        return path

    @staticmethod
    def _number(entries: dict[str, str], key: str, default: int, who: str) -> int:
        text = entries.get(key, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise InvalidGraph(f"{who}: external data has {key} {text!r}, expected a number of bytes")
        return int(text)


_alive: WeakValueDictionary[tuple[int, ...], Backing] = WeakValueDictionary()
"""Maps that tensors lie in, by what their files were when they were mapped: models over one file share the map."""


def _mapped(path: str, location: str, who: str) -> Backing:
    """The whole file. What is mapped is what sizes are compared with, whatever happens to the file meanwhile."""
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)  # before it is opened: a pipe would wait for its writer
        if regular:
            with open(path, "rb") as file:
                found = os.fstat(file.fileno())
                if not found.st_size:
                    return Backing(b"", path)  # nothing cannot be mapped
                same = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
                known = _alive.get(same)
                if known is None:
                    known = _alive.setdefault(same, Backing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path))
                return known
    except OSError as error:
        raise NoExternalData(f"{who}: external data file {path} cannot be opened: {error.strerror}") from error
    raise InvalidGraph(f"{who}: external data {location!r} is not a regular file")
