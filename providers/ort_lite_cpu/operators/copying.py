"""Copies of arrays in Python steps: in slices, between which a cancelled run ends."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node
from ort_lite.memory import sliced_copy
from ort_lite.memory.sliced_copy import SLICE
from ort_lite_cpu.run.pace import check

FEW = 1 << 12
"""Arrays that NumPy joins in a millisecond."""


def assign(node: Node, target: Array, source: Array) -> None:
    """target[...] = source, of the same shape."""
    sliced_copy.assign(target, source, partial(check, node))


def contiguous(node: Node, x: Array) -> Array:
    """Return the array, or a copy whose elements are in order."""
    return x if x.flags.c_contiguous else sliced_copy.copy(x, partial(check, node))


def duplicate(node: Node, value: Any) -> Any:
    """Return a copy of an array or of a list of them, in C order; None for None."""
    if isinstance(value, list):
        return [duplicate(node, item) for item in value]
    return sliced_copy.copy(value, partial(check, node)) if isinstance(value, np.ndarray) else value


def concatenate(node: Node, arrays: Sequence[Array], axis: int) -> Array:
    """Return the arrays concatenated along an axis. Raises ValueError if their shapes do not match."""
    if _are_few(arrays):
        return np.concatenate(arrays, axis=axis)
    first = arrays[0]
    before, rest = _split(first.shape, axis, first.ndim)
    after, length = rest[1:], 0
    for array in arrays:
        check(node)
        if array.ndim != first.ndim or array.shape[: len(before)] != before or array.shape[len(before) + 1 :] != after:
            raise ValueError(f"arrays of the shapes {first.shape} and {array.shape} cannot be joined along axis {axis}")
        length += array.shape[len(before)]
    y = np.empty((*before, length, *after), first.dtype)
    start = 0
    for array in arrays:
        end = start + array.shape[len(before)]
        assign(node, _between(y, len(before), start, end), array)
        start = end
    return y


def stack(node: Node, arrays: Sequence[Array], axis: int) -> Array:
    """Return the arrays stacked along a new axis. Raises ValueError if their shapes differ."""
    if _are_few(arrays):
        return np.stack(arrays, axis=axis)
    first = arrays[0]
    before, after = _split(first.shape, axis, first.ndim + 1)
    y = np.empty((*before, len(arrays), *after), first.dtype)
    for k, array in enumerate(arrays):
        if array.shape != first.shape:
            raise ValueError(f"arrays of the shapes {first.shape} and {array.shape} cannot be stacked")
        assign(node, _between(y, len(before), k, k + 1), np.expand_dims(array, len(before)))
    return y


def _between(x: Array, axis: int, start: int, end: int) -> Array:
    """Return a view of entries start to end - 1 along the axis."""
    at: tuple[Any, ...] = (*(slice(None),) * axis, slice(start, end))
    part: Array = x[at]
    return part


def _are_few(arrays: Sequence[Array]) -> bool:
    return len(arrays) <= FEW and sum(array.nbytes for array in arrays) <= SLICE


def _split(shape: tuple[int, ...], axis: int, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the dimensions before an axis of so many, and those from it on."""
    if not -axes <= axis < axes:
        raise ValueError(f"axis {axis} is none of {axes}")
    axis %= axes
    return shape[:axis], shape[axis:]
