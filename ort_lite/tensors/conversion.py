"""Conversion of tensor arguments (arrays, NDArrays, OrtValues, numbers) to arrays."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy
from ort_lite.errors import InvalidArgument


def array_of(value: Any) -> Array:
    """Return the value as an array, without a copy if it is one or wraps one. Raises InvalidArgument if impossible."""
    array: Array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    element_type_of(array)
    return array


def element_type_of(array: Array) -> DType:
    """Return the element type of an array. Raises InvalidArgument if ONNX lacks it."""
    try:
        return from_numpy(array.dtype)
    except KeyError:
        raise InvalidArgument(f"an array has element type {array.dtype}, which ONNX lacks") from None
