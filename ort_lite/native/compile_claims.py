"""Locks that decide which process compiles a kernel: the one that locks its byte of a file in the cache folder.

A key stands for a byte far behind the end of the file, so that there is one file for all, nothing to clean up, and what a process
held is free when it ends, however it ends. Further bytes are places: so many may compile at once, of all processes together. Where
there are no locks (no fcntl, some network file systems, a folder that cannot be written), and where who holds one shows no sign of
life, each process compiles for itself: that costs time, and the objects are the same.
"""

import os
from contextlib import suppress
from time import monotonic, time

from ort_lite.native import cache, private

FILE = ".claims"
PATIENCE = 10.0
"""Seconds without a sign of life from those who compile (a process that was stopped), after which nobody waits for them."""
_A_MOMENT = 1.0
_PLACES = 1 << 62


class CompileClaims:
    """The claims of one call of `compile_all`, in one thread of a process at a time: locks belong to the process, and end
    with the first close.
    """

    def __init__(self, folder: str) -> None:
        self._file: int | None = None
        self._held: set[int] = set()
        self._sign, self._silence = 0, 0.0
        self._looked = monotonic()
        if cache.make_folder(folder):
            with suppress(OSError):
                self._file = private.opener(os.path.join(folder, FILE), os.O_RDWR | os.O_CREAT)
                self._sign = os.fstat(self._file).st_mtime_ns
                self._silence = max(0.0, min(time() - self._sign / 1e9, PATIENCE - _A_MOMENT))

    def take(self, key: str) -> bool:
        """True if this process shall compile the kernel: nobody else does, as far as can be known."""
        taken = self._lock(_byte(key))
        if taken and self._file is not None:
            with suppress(OSError):
                os.utime(self._file)
        return taken

    def give(self, key: str) -> None:
        """The kernel is compiled, or nobody will."""
        self._unlock(_byte(key))

    def take_place(self, most: int) -> int | None:
        """A place among `most`; None if all are taken."""
        return next((place for place in range(most) if _PLACES + place not in self._held and self._lock(_PLACES + place)), None)

    def give_place(self, place: int) -> None:
        """Others may compile."""
        self._unlock(_PLACES + place)

    def wait(self, compiling: bool) -> None:
        """Some time has passed. Who compiles says so by the file's time; who waits, and sees nobody, claims nothing any more.

        However long this process was stopped counts as a moment: the others were perhaps stopped with it.
        """
        if self._file is None:
            return
        now = monotonic()
        self._silence += min(now - self._looked, _A_MOMENT)
        self._looked = now
        try:
            if compiling:
                os.utime(self._file)
            sign = os.fstat(self._file).st_mtime_ns
        except OSError:
            self.close()
            return
        if sign != self._sign:
            self._sign, self._silence = sign, 0.0
        elif self._silence > PATIENCE:
            self.close()

    def close(self) -> None:
        """Gives all; from now on everything may be taken."""
        file, self._file = self._file, None
        self._held.clear()
        if file is not None:
            os.close(file)

    def _lock(self, byte: int) -> bool:
        if self._file is None:
            return True
        try:
            import fcntl

            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        except (ImportError, OSError):
            self.close()
            return True
        self._held.add(byte)
        return True

    def _unlock(self, byte: int) -> None:
        if self._file is not None and byte in self._held:
            import fcntl

            self._held.discard(byte)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


def _byte(key: str) -> int:
    """Return the byte of a key: a number of 60 bits, from its end, which no other key shares."""
    return int(key[-15:], 16)
