"""Arrays that end where memory ends: a read or write beyond one is a fault, and a write before it is found."""

import ctypes
import math
import mmap
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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

    def room(self, shape: Sequence[int], dtype: npt.DTypeLike, gap: int = 0) -> Array:
        """Return an array with any values that ends `gap` bytes, 64 at most, before the memory does."""
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        self.start = self.size - gap - nbytes
        self.bytes[self.start - BEFORE : self.start] = BYTE
        return self.bytes[self.start : self.start + nbytes].view(kind).reshape(shape)

    def put(self, array: Array, gap: int = 0) -> Array:
        """Return a copy of the array in such room."""
        place = self.room(array.shape, array.dtype, gap)
        place[...] = array
        return place

    def is_whole(self) -> bool:
        """Return True if nothing wrote before the array that was returned last."""
        return bool((self.bytes[self.start - BEFORE : self.start] == BYTE).all())
