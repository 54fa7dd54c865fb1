"""Mapped files: on request, tensors lie in the pages of the file, which processes share.

Truncating a mapped file kills the processes that read it with SIGBUS, and writing to it changes the weights. `check` detects this
between runs by the file's size and modification time; changes within a run cannot be caught.
"""

import errno
import mmap
import os
import weakref
from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

from ort_lite.errors import Fail
from ort_lite.load.files import Changed, OpenFile
from ort_lite.load.spans import Backing


class MappedFile(Backing):
    """A whole file mapped into memory. The file stays open, so that changes can be detected."""

    __slots__ = ("_descriptor", "_modified")

    def __init__(self, file: OpenFile) -> None:
        """Map the file. Raises OSError if that fails."""
        descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, descriptor)
        self._descriptor, self._modified = descriptor, file.state.st_mtime_ns
        super().__init__(mmap.mmap(descriptor, file.size, access=mmap.ACCESS_READ), file.path)

    def check(self) -> None:
        """Raise Fail if the size or modification time has changed since the file was mapped. One system call."""
        state = os.fstat(self._descriptor)
        if state.st_size != self.nbytes or state.st_mtime_ns != self._modified:
            now = f"it has {state.st_size:,} bytes" if state.st_size != self.nbytes else "it was written to"
            raise Fail(
                f"{self.name} is mapped (mmap=True) and has changed since the session was made, with {self.nbytes:,} bytes: now {now}. "
                "Make the session again; replace files by renaming others to their names, or make sessions without mmap"
            )


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


def checks(owners: Iterable[object]) -> Callable[[], None] | None:
    """Return a function that checks the mapped files among the owners of spans; None if there are none."""
    files = list({id(owner): owner for owner in owners if isinstance(owner, MappedFile)}.values())
    if not files:
        return None

    def check() -> None:
        for file in files:
            file.check()

    return check
