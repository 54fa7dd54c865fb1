"""Smaller and simpler contents of inputs and initializers."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.testing.generator.reduction.graphs import Candidate, Feeds, copy
from ort_lite.testing.generator.reduction.protos import array_of, initializer

FEW = 4
"""A tensor with fewer elements is small enough."""


def smaller_operands(model: Any, feeds: Feeds) -> Iterator[Candidate]:
    """Yield variants with fewer elements: each size in all operands at once, and each axis of each operand alone."""
    arrays = _arrays(model, feeds)
    sizes = sorted({size for array in arrays.values() for size in array.shape if size > 1}, reverse=True)
    for size in sizes:
        for smaller in dict.fromkeys((1, (size + 1) // 2, size - 1)):
            yield _with(model, feeds, {name: _limit(array, size, smaller) for name, array in arrays.items()})
    for name, array in arrays.items():
        for axis, size in enumerate(array.shape):
            if size > 1 and array.size >= FEW:
                for smaller in dict.fromkeys((1, (size + 1) // 2)):
                    yield _with(model, feeds, {name: np.take(array, range(smaller), axis)})


def _arrays(model: Any, feeds: Feeds) -> dict[str, Array]:
    arrays = {one.name: array_of(one) for one in model.graph.initializer}
    arrays.update((name, value) for name, value in feeds.items() if isinstance(value, np.ndarray))
    return {name: array for name, array in arrays.items() if array.ndim}


def _limit(array: Array, size: int, smaller: int) -> Array:
    """Truncate each axis of this size."""
    return array[tuple(slice(smaller if one == size else None) for one in array.shape)]


def _with(model: Any, feeds: Feeds, arrays: dict[str, Array]) -> Candidate:
    """Return the model with some operands replaced. The declared sizes of inputs follow."""
    other = copy(model)
    for index, one in enumerate(other.graph.initializer):
        if one.name in arrays:
            other.graph.initializer[index].CopyFrom(initializer(arrays[one.name].copy(), one.name))
    added = dict(feeds)
    for value in other.graph.input:
        if value.name in arrays and value.name in feeds:
            added[value.name] = np.ascontiguousarray(arrays[value.name]).reshape(arrays[value.name].shape)
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, arrays[value.name].shape, strict=False):
                if dim.HasField("dim_value"):
                    dim.dim_value = size
    return other, added
