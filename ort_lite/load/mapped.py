"""Mapped files: on request, tensors lie in the pages of the file, which processes share.

Truncating a mapped file kills the processes that read it with SIGBUS, and writing to it changes the weights. `check` detects this
between runs by the file's size and modification time; changes within a run cannot be caught.
"""

import errno
import mmap
import os
import weakref
from collections.abc import Iterable
from weakref import WeakValueDictionary

from ort_lite.errors import Fail
from ort_lite.load.files import Changed, OpenFile
from ort_lite.load.spans import Backing


class MappedFile(Backing):
    """A whole file mapped into memory. The file stays open, so that changes can be detected."""

    __slots__ = ("_descriptor", "_map", "_modified")

    def __init__(self, file: OpenFile) -> None:
        """Map the file. Raises OSError if that fails."""
        descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, descriptor)
        self._descriptor, self._modified = descriptor, file.state.st_mtime_ns
        self._map = mmap.mmap(descriptor, file.size, access=mmap.ACCESS_READ)
        super().__init__(self._map, file.path)

    def check(self) -> None:
        """Raise Fail if the size or modification time has changed since the file was mapped. One system call."""
        state = os.fstat(self._descriptor)
        if state.st_size != self.nbytes or state.st_mtime_ns != self._modified:
            now = f"it has {state.st_size:,} bytes" if state.st_size != self.nbytes else "it was written to"
            raise Fail(
                f"{self.name} is mapped (mmap=True) and has changed since the session was made, with {self.nbytes:,} bytes: now {now}. "
                "Make the session again; replace files by renaming others to their names, or make sessions without mmap"
            )

    def give_back(self) -> None:
        """Take the pages out of the process, which packing has read. Those that runs read come back from the system's page cache."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


_alive: WeakValueDictionary[tuple[int, ...], MappedFile] = WeakValueDictionary()
"""The mapped files that tensors use, by file identity. Models that share a file share its mapping."""


def map_file(file: OpenFile) -> MappedFile:
    """Return the mapping of a file that is not empty. Raises OSError, Changed if the file has changed since it was opened."""
    known = _alive.get(file.identity)
    if known is None:
        try:
            known = _alive.setdefault(file.identity, MappedFile(file))
        except ValueError as error:  # the file is now shorter than this
            raise Changed(errno.EIO, "it became shorter while it was read", file.path) from error
    return known


def mapped_files(owners: Iterable[object]) -> list[MappedFile]:
    """Return the mapped files among the owners of spans, each once."""
    return list({id(owner): owner for owner in owners if isinstance(owner, MappedFile)}.values())


def check_files(files: Iterable[MappedFile]) -> None:
    """Raise Fail if one of the files has changed."""
    for file in files:
        file.check()
