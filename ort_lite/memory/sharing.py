"""Equal arrays are one array: constants and packed weights of sessions over one model, or over models with layers in common.

Arrays are compared byte by byte, so it does not matter where they come from, and nobody can be given wrong ones. They are held
weakly: an array goes with the last program that reads it. Processes of one host share large ones too, once they are told a folder.
"""

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ort_lite.memory import locks
from ort_lite.memory.arenas import equal

Array = np.ndarray[Any, np.dtype[Any]]
Key = tuple[str, tuple[int, ...], bytes]

SMALLEST = 4096
"""Bytes below which sharing saves less than it costs."""
LARGE = 1 << 20
"""Bytes from which an array is worth a file."""
_SAMPLE = 32


class Shared:
    """Arrays that are alive, by type, shape and a sample of their bytes. Thread-safe."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[Key, Array] = WeakValueDictionary()
        self._lock = locks.lock()
        self._folder: str | None = None

    def keep_in(self, folder: str | None) -> None:
        """Arrays of LARGE bytes and more that come from now on are mapped from files of this folder, which exists and which nobody
        else may write to; None: they are in this process's memory. Whoever names the folder deletes it: what is mapped stays.
        """
        self._folder = folder

    def __call__(self, array: Array) -> Array:
        """The array that was given first among those alive with these elements; this one if there is none.

        Nobody may write to it from now on. Microseconds, and a comparison at the speed of memory where it may be known. Arrays
        that are small, not contiguous or of objects come back as they are.
        """
        if array.nbytes < SMALLEST or not array.flags.c_contiguous or array.dtype.hasobject:
            return array
        data = array.reshape(-1).view(np.uint8)
        key = (str(array.dtype), array.shape, _sample(data))
        found = self._known.get(key)
        if found is None:
            made = self._in_folder(array)
            with self._lock:
                found = self._known.setdefault(key, made)
            if found is made:
                return made
        return found if found is array or equal(found.reshape(-1).view(np.uint8), data) else array

    def _in_folder(self, array: Array) -> Array:
        if self._folder is None or array.nbytes < LARGE:
            return array
        from ort_lite.memory.sharing_files import mapped

        return mapped(array, self._folder)

    def __len__(self) -> int:
        return len(self._known)


def _sample(data: Array) -> bytes:
    middle = len(data) // 2
    return data[:_SAMPLE].tobytes() + data[middle : middle + _SAMPLE].tobytes() + data[-_SAMPLE:].tobytes()


shared = Shared()
"""Of this process."""
