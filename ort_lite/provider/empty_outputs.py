"""Skip runs whose outputs are all empty because an input has no elements.

Accelerators are rarely tested with empty tensors, and fail or return another shape.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph.graph import Value
from ort_lite.graph.types import TensorType
from ort_lite.provider.provider import Partition
from ort_lite.shapes.dims import as_symbol, substitute
from ort_lite.shapes.expr import Dim

EmptyOutputs = Callable[[Sequence[Any]], list[Array] | None]
"""A function of the partition's inputs that returns its outputs if all of them are empty, else None."""


def empty_outputs(partition: Partition) -> EmptyOutputs:
    """Return a function to call before each run; see `EmptyOutputs`.

    O(inputs) if no input is empty. Partitions with string outputs are left to the accelerator.
    """
    types = [value.type for value in partition.outputs]
    open_inputs = [k for k, value in enumerate(partition.inputs) if _is_open(value)]
    shapes = [t.shape for t in types if isinstance(t, TensorType) and t.shape is not None and t.dtype != "string"]
    if not open_inputs or len(shapes) < len(types):
        return lambda inputs: None
    dtypes = [to_numpy(t.dtype) for t in types if isinstance(t, TensorType)]
    where = _where(partition.inputs)

    def answer(inputs: Sequence[Any]) -> list[Array] | None:
        if all(inputs[k].size for k in open_inputs):
            return None
        sizes: dict[str, Dim] = {name: inputs[k].shape[axis] for name, (k, axis) in where.items()}
        found = [tuple(substitute(dim, sizes) for dim in shape) for shape in shapes]
        if all(0 in shape and all(isinstance(dim, int) for dim in shape) for shape in found):
            return [np.empty(shape, dtype) for shape, dtype in zip(found, dtypes, strict=True)]
        return None

    return answer


def _is_open(value: Value) -> bool:
    return value.shape is not None and any(not isinstance(dim, int) for dim in value.shape)


def _where(inputs: Sequence[Value]) -> dict[str, tuple[int, int]]:
    """Map each symbol to an input and the axis that has its length."""
    found: dict[str, tuple[int, int]] = {}
    for k, value in enumerate(inputs):
        for axis, dim in enumerate(value.shape or ()):
            known = as_symbol(dim)
            if known is not None:
                found.setdefault(known.name, (k, axis))
    return found
