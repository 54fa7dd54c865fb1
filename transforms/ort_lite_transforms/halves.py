"""Conversion of float16 to float32 in half of NumPy's time."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import allocate_in_huge_pages

_PART = 1 << 15
"""Elements at a time, so that they stay in the cache."""
_REBIAS = np.float32(2.0**112)
"""The bits of a float16 as the upper bits of a float32 are a number that is smaller by this factor, subnormal ones included."""
_SUBNORMAL = np.float32(1e-40)
_INFINITE = 65536.0
"""The bits of infinities and NaNs come out as numbers from here on; float16 has no such numbers."""


def widen(array: Array) -> Array:
    """Return a float16 array as float32: the numbers that `astype` gives, NaN for NaN. O(size)."""
    if np.multiply(_SUBNORMAL, _REBIAS) == 0:  # this thread counts subnormal numbers as 0, which `astype` does not
        return array.astype(np.float32)
    halves = np.ascontiguousarray(array).reshape(-1).view(np.uint16)
    made = allocate_in_huge_pages(array.shape, np.dtype(np.float32))
    floats = made.reshape(-1)
    bits, signs = floats.view(np.uint32), np.empty(min(_PART, array.size), np.uint32)
    for start in range(0, array.size, _PART):
        part = slice(start, start + _PART)
        u, f = bits[part], floats[part]
        sign = signs[: len(u)]
        np.copyto(u, halves[part])
        np.left_shift(np.bitwise_and(u, 0x8000, out=sign), 16, out=sign)
        np.left_shift(np.bitwise_and(u, 0x7FFF, out=u), 13, out=u)
        np.multiply(f, _REBIAS, out=f)
        if f.max() >= _INFINITE:
            u[f >= _INFINITE] |= 0x7F800000
        np.bitwise_or(u, sign, out=u)
    return made
