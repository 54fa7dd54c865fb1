"""Deduplication of equal arrays: constants and packed weights of sessions that share a model or some of its layers.

Arrays are compared byte by byte, so their origin does not matter and results are never wrong. References are weak: an array is
freed with the last program that reads it. Processes on one host share large arrays too if they are given a common folder.
"""

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ort_lite.memory import locks
from ort_lite.memory.arenas import equal

Array = np.ndarray[Any, np.dtype[Any]]
Key = tuple[np.dtype[Any], tuple[int, ...], bytes]

SMALLEST = 4096
"""The size in bytes below which sharing costs more than it saves."""
LARGE = 1 << 20
"""The size in bytes from which an array gets a file."""
_SAMPLE = 32


class Shared:
    """The live arrays, by type, shape and a sample of their bytes. Thread-safe."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[Key, Array] = WeakValueDictionary()
        self._lock = locks.lock()
        self._folder: str | None = None

    def keep_in(self, folder: str | None) -> None:
        """Map later arrays of LARGE bytes or more from files in this folder; None keeps them in the memory of this process.

        The folder must exist and be writable for trusted users only. The caller deletes it; mapped arrays stay valid.
        """
        self._folder = folder

    def __call__(self, array: Array) -> Array:
        """Return the live array with the same elements that came first, or `array` itself if it is new.

        The result must not be written to. Takes microseconds, plus a comparison at memory speed if the sample matches. Small,
        non-contiguous and object arrays are returned unchanged.
        """
        if array.nbytes < SMALLEST or not array.flags.c_contiguous or array.dtype.hasobject:
            return array
        data = array.reshape(-1).view(np.uint8)
        key = (array.dtype, array.shape, _sample(data))
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
        from ort_lite.memory.sharing_files import map_array

        return map_array(array, self._folder)

    def __len__(self) -> int:
        return len(self._known)


def _sample(data: Array) -> bytes:
    middle = len(data) // 2
    return data[:_SAMPLE].tobytes() + data[middle : middle + _SAMPLE].tobytes() + data[-_SAMPLE:].tobytes()


shared = Shared()
"""The arrays of this process."""
