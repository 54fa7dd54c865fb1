"""Conversion of arguments that are tensors: arrays, NDArrays, OrtValues, numbers."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy
from ort_lite.errors import InvalidArgument


def array_of(value: Any) -> Array:
    """The value as an array, without a copy where it is one or lies over one. Raises InvalidArgument where it is none."""
    array: Array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    element_type_of(array)
    return array


def element_type_of(array: Array) -> DType:
    """Raises InvalidArgument for one that ONNX lacks."""
    try:
        return from_numpy(array.dtype)
    except KeyError:
        raise InvalidArgument(f"an array has element type {array.dtype}, which ONNX lacks") from None
