"""External data: tensors in files beside the model, each file mapped into memory once.

A location is read only where it ends up, links resolved, in the folder that the model was opened from or the one that its
own file really is in (a download cache links both from elsewhere). The file must not shrink while the arrays live.
"""

import mmap
import os
import stat
from functools import cached_property

from ort_lite.errors import InvalidArgument, InvalidGraph, NoSuchFile


class ExternalData:
    """The files of one model. `read` serves `TensorReader`."""

    def __init__(self, folder: str | os.PathLike[str] | None, file: str | None = None) -> None:
        self.folder, self._file = folder, file
        self._maps: dict[str, mmap.mmap] = {}

    @cached_property
    def _allowed(self) -> list[str]:
        """The folders, links resolved, that files may be in."""
        beside = None if self._file is None else os.path.dirname(os.path.realpath(self._file))
        return [os.path.realpath(folder) for folder in (self.folder, beside) if folder is not None]

    def read(self, entries: dict[str, str], nbytes: int, who: str) -> tuple[mmap.mmap | bytes, int]:
        """(buffer, offset of the first of the `nbytes` wanted). Raises InvalidGraph, InvalidArgument or NoSuchFile."""
        path = self._path(entries.get("location", ""), who)
        offset, length = self._number(entries, "offset", 0, who), self._number(entries, "length", nbytes, who)
        if length != nbytes:
            raise InvalidGraph(f"{who}: external data of {length} bytes, its dimensions and element type need {nbytes}")
        size = os.stat(path).st_size
        if offset + nbytes > size:
            raise InvalidGraph(
                f"{who}: bytes {offset} to {offset + nbytes} of {os.path.basename(path)!r}, which has {size}: cut short?"
            )
        if not nbytes:
            return b"", 0
        if path not in self._maps:
            with open(path, "rb") as file:
                self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._maps[path], offset

    def _path(self, location: str, who: str) -> str:
        if self.folder is None:
            raise InvalidArgument(f"{who}: its data is in the file {location!r}; load the model by its path, or pass folder=")
        if not location or "\0" in location:
            raise InvalidGraph(f"{who}: external data without a usable location: {location!r}")
        path = os.path.realpath(os.path.join(self.folder, location))
        if not any(os.path.commonpath((folder, path)) == folder for folder in self._allowed):
            raise InvalidGraph(f"{who}: external data {location!r} is outside of the model's folder {self.folder}")
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise NoSuchFile(f"{who}: external data file {path} cannot be opened: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            raise InvalidGraph(f"{who}: external data {location!r} is not a regular file")
        return path

    @staticmethod
    def _number(entries: dict[str, str], key: str, default: int, who: str) -> int:
        text = entries.get(key, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise InvalidGraph(f"{who}: external data has {key} {text!r}, expected a number of bytes")
        return int(text)
