"""Mapped files: tensors lie in the file's own pages, which processes share, for callers who ask for that.

Who shortens a mapped file ends the process that reads it with SIGBUS, and who writes to it changes the weights. `check` sees that
between runs by the file's size and time of change; nothing can be done about what happens within a run.
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
    """A whole file in memory, which stays open so that it can be asked whether it is the same still."""

    __slots__ = ("_descriptor", "_modified")

    def __init__(self, file: OpenFile) -> None:
        """Raises OSError where it cannot be mapped."""
        descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, descriptor)
        self._descriptor, self._modified = descriptor, file.state.st_mtime_ns
        super().__init__(mmap.mmap(descriptor, file.size, access=mmap.ACCESS_READ), file.path)

    def check(self) -> None:
        """Raises Fail where the file has another size or time of change than when it was mapped. One system call."""
        state = os.fstat(self._descriptor)
        if state.st_size != self.nbytes or state.st_mtime_ns != self._modified:
            now = f"it has {state.st_size:,} bytes" if state.st_size != self.nbytes else "it was written to"
            raise Fail(
                f"{self.name} is mapped (mmap=True) and has changed since the session was made, with {self.nbytes:,} bytes: now {now}. "
                "Make the session again; replace files by renaming others to their names, or make sessions without mmap"
            )


_alive: WeakValueDictionary[tuple[int, ...], MappedFile] = WeakValueDictionary()
"""Maps that tensors lie in, by what their files were when they were mapped: models over one file share the map."""


def map_file(file: OpenFile) -> MappedFile:
    """The map of a file that is not empty. Raises OSError; Changed where it is not as it was when it was opened."""
    known = _alive.get(file.identity)
    if known is None:
        try:
            known = _alive.setdefault(file.identity, MappedFile(file))
        except ValueError as error:  # of a length that the file does not have any more
            raise Changed(errno.EIO, "it became shorter while it was read", file.path) from error
    return known


def checks(owners: Iterable[object]) -> Callable[[], None] | None:
    """Return the checks of mapped files among the owners of spans; None if there are none."""
    files = list({id(owner): owner for owner in owners if isinstance(owner, MappedFile)}.values())
    if not files:
        return None

    def check() -> None:
        for file in files:
            file.check()

    return check
