"""Copies of large arrays in slices, so that a cancelled run ends between two of them."""

from collections.abc import Callable

import numpy as np

from ort_lite.dtypes import Array

SLICE = 1 << 22
"""Bytes of one assignment: 3 ms where the memory is new, up to 100 ms where a virtual machine has to get it from its host."""


def assign(target: Array, source: Array, check: Callable[[], object]) -> None:
    """Write `source` into `target`, an array of the same shape. Call `check` before each slice; it may raise."""
    check()
    if source.nbytes <= SLICE or source.size == 1:
        target[...] = source
        return
    axis = int(np.argmax(source.shape))
    count = source.shape[axis]
    step = max(count * SLICE // source.nbytes, 1)
    for start in range(0, count, step):
        part = (*(slice(None),) * axis, slice(start, start + step))
        assign(target[part], source[part], check)


def copy(source: Array, check: Callable[[], object]) -> Array:
    """Return a copy in C order. Call `check` before each slice; it may raise."""
    if source.nbytes <= SLICE:
        check()
        return source.copy()
    target = np.empty(source.shape, source.dtype)
    assign(target, source, check)
    return target
