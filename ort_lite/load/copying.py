"""Deep copies and pickles of a Model have their tensors' bytes in spans of their own, whatever the model borrows."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy
from ort_lite.graph.model import Model, restored
from ort_lite.load.spans import ByteSpan

if TYPE_CHECKING:
    from ort_lite.graph.flat import Tables


def reduce_model(model: Model) -> tuple[Any, ...]:
    """Reduce a model for `copyreg` as `Model.__reduce__` does, with tensors that lead to spans once restored."""
    _, parts = model.__reduce__()
    return _owning, parts


def _owning(tables: "Tables", *parts: Any) -> Model:
    return restored(tables.replace(arrays=[_in_span(array) for array in tables.arrays]), *parts)


def _in_span(array: Array) -> Array:
    """The array, which was just made and which nobody else has, read-only; of strings, which have no span, itself."""
    dtype = from_numpy(array.dtype)
    if dtype != "string":
        return ByteSpan.of_array(np.ascontiguousarray(array)).array(dtype, array.shape)
    array.setflags(write=False)
    return array
