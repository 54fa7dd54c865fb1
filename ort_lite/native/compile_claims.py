"""Locks that decide which process compiles a kernel: the one that locks the kernel's byte of a file in the cache folder.

Each key maps to a byte far past the end of the file. A single file therefore suffices, nothing needs cleanup, and the locks of a
process are released however it ends. Other bytes are places, which limit how many kernels all processes together compile at once.
Without locks (no fcntl, some network file systems, an unwritable folder), or if a lock's holder shows no sign of life, each process
compiles for itself. That costs time, and the objects are the same.
"""

import os
from contextlib import suppress
from time import monotonic, time

from ort_lite.native import cache, private

FILE = ".claims"
PATIENCE = 10.0
"""The seconds without a sign of life from compiling processes, which may be stopped, after which no process waits for them."""
_A_MOMENT = 1.0
_PLACES = 1 << 62


class CompileClaims:
    """The claims of one call of `compile_all`, used by one thread of a process at a time.

    Locks belong to the process, and closing any descriptor of the file releases them.
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
        """Return True if this process should compile the kernel, because as far as it can tell no other does."""
        taken = self._lock(_byte(key))
        if taken and self._file is not None:
            with suppress(OSError):
                os.utime(self._file)
        return taken

    def give(self, key: str) -> None:
        """Release the claim on a kernel."""
        self._unlock(_byte(key))

    def take_place(self, most: int) -> int | None:
        """Take one of `most` places and return it; None if all are taken."""
        return next((place for place in range(most) if _PLACES + place not in self._held and self._lock(_PLACES + place)), None)

    def give_place(self, place: int) -> None:
        """Release a place."""
        self._unlock(_PLACES + place)

    def wait(self, compiling: bool) -> None:
        """Update the state after some time has passed.

        A compiling process signals life by the file's modification time. A waiting process that sees no such sign stops using
        claims. However long this process was stopped counts as a moment, since the others may have been stopped too.
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
        """Release all claims; from now on, every `take` succeeds."""
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
    """Return the byte of a key: a 60-bit number from its end, unique in practice."""
    return int(key[-15:], 16)
