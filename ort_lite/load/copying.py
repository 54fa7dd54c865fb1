"""Deep copies and pickles of a Model. Their tensors own their bytes, even if the model borrows some."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy
from ort_lite.graph.model import Model, restore_model
from ort_lite.load.spans import ByteSpan

if TYPE_CHECKING:
    from ort_lite.graph.flat import GraphTables


def reduce_model(model: Model) -> tuple[Any, ...]:
    """Reduce a model for `copyreg` like `Model.__reduce__`, but restore its tensors in spans."""
    _, parts = model.__reduce__()
    return _owning, parts


def _owning(tables: "GraphTables", *parts: Any) -> Model:
    return restore_model(tables.replace(arrays=[_in_span(array) for array in tables.arrays]), *parts)


def _in_span(array: Array) -> Array:
    """Move a new array, which nothing else refers to, into a read-only span. Strings have no span and only become read-only."""
    dtype = from_numpy(array.dtype)
    if dtype != "string":
        return ByteSpan.of_array(np.ascontiguousarray(array)).array(dtype, array.shape)
    array.setflags(write=False)
    return array
