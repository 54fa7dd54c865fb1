"""Arrays that end where memory ends: a read or write beyond one is a fault, and a write before it is found."""

import ctypes
import mmap

import numpy as np

from ort_lite.dtypes import Array

BEFORE, BYTE = 64, 0xA5


class Guarded:
    """Memory for one array at a time, before a page that cannot be touched."""

    def __init__(self, nbytes: int) -> None:
        self.size = -(-(nbytes + 2 * BEFORE) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, self.size + mmap.PAGESIZE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.address + self.size), mmap.PAGESIZE, 0) == 0
        self.bytes = np.frombuffer(self._map, np.uint8, self.size)

    def put(self, array: Array, gap: int = 0) -> Array:
        """Return a copy of the array that ends `gap` bytes, 64 at most, before the memory does."""
        start = self.size - gap - array.nbytes
        self.bytes[start - BEFORE : start] = BYTE
        place = self.bytes[start : start + array.nbytes]
        place[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return place.view(array.dtype).reshape(array.shape)

    def is_whole(self, array: Array) -> bool:
        """Return True if nothing wrote before an array that `put` returned."""
        start = array.ctypes.data - self.address
        return bool((self.bytes[start - BEFORE : start] == BYTE).all())
