"""Whether two arrays hold the same bytes."""

import numpy as np

from ort_lite.dtypes import Array

_CHUNK = 1 << 20


def equal(a: Array, b: Array) -> bool:
    """Of bytes, in pieces: NumPy makes a mask as large as what it compares."""
    return all(np.array_equal(a[at : at + _CHUNK], b[at : at + _CHUNK]) for at in range(0, len(a), _CHUNK))
