"""Arrays that begin at a cache line: a vector of 64 bytes that lies across two lines takes two reads."""

import math

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import CACHE_LINE, aligned_bytes
from ort_lite_cpu.run.address import address_of


def empty(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """As `np.empty`, whose memory begins anywhere. Raises OutOfMemory."""
    return aligned_bytes(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def aligned(array: Array) -> Array:
    """The array if it is C-contiguous and begins at a cache line, else a copy that is and does. O(size)."""
    if array.flags.c_contiguous and address_of(array) % CACHE_LINE == 0:
        return array
    made = empty(array.shape, array.dtype)
    made[...] = array
    return made
