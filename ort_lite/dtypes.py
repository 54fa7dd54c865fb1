"""Element types: plain strings, spelled as in NumPy and ml_dtypes: "float32", "bool", "string".

Only this module converts `TensorProto.DataType` numbers and onnxruntime's "tensor(float)" spelling. In memory, each element of a
type narrower than a byte takes a byte, as in ml_dtypes.
"""

from functools import cache
from typing import Any

import numpy as np

DType = str
Array = np.ndarray[Any, np.dtype[Any]]

# name -> (TensorProto.DataType, name inside onnxruntime's "tensor(...)", bytes an element; 0: not in linear memory)
_TABLE: dict[DType, tuple[int, str, int]] = {
    "float32": (1, "float", 4),
    "uint8": (2, "uint8", 1),
    "int8": (3, "int8", 1),
    "uint16": (4, "uint16", 2),
    "int16": (5, "int16", 2),
    "int32": (6, "int32", 4),
    "int64": (7, "int64", 8),
    "string": (8, "string", 0),
    "bool": (9, "bool", 1),
    "float16": (10, "float16", 2),
    "float64": (11, "double", 8),
    "uint32": (12, "uint32", 4),
    "uint64": (13, "uint64", 8),
    "complex64": (14, "complex64", 8),
    "complex128": (15, "complex128", 16),
    "bfloat16": (16, "bfloat16", 2),
    "float8_e4m3fn": (17, "float8e4m3fn", 1),
    "float8_e4m3fnuz": (18, "float8e4m3fnuz", 1),
    "float8_e5m2": (19, "float8e5m2", 1),
    "float8_e5m2fnuz": (20, "float8e5m2fnuz", 1),
    "uint4": (21, "uint4", 1),
    "int4": (22, "int4", 1),
    "float4_e2m1fn": (23, "float4e2m1", 1),
    "float8_e8m0fnu": (24, "float8e8m0", 1),
    "uint2": (25, "uint2", 1),
    "int2": (26, "int2", 1),
    "float6_e2m3fn": (27, "float6e2m3", 1),
    "float6_e3m2fn": (28, "float6e3m2", 1),
}
_BY_CODE = {code: name for name, (code, _, _) in _TABLE.items()}
_BY_ORT_NAME = {ort: name for name, (_, ort, _) in _TABLE.items()}
_NUMPY_KNOWS = frozenset(np.dtype(name).name for name in _TABLE if name != "string" and hasattr(np, name))

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = SIGNED | UNSIGNED
COMPLEX = frozenset({"complex64", "complex128"})
BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2, "float6_e2m3fn": 6, "float6_e3m2fn": 6}


def is_dtype(name: str) -> bool:
    """Return True if `name` is the name of an element type."""
    return name in _TABLE


def itemsize(dtype: DType) -> int:
    """Return the bytes per element in memory; 0 for "string"."""
    return _TABLE[dtype][2]


def from_onnx(code: int) -> DType:
    """Convert a TensorProto.DataType to an element type. Raises KeyError for unknown numbers."""
    return _BY_CODE[code]


def to_onnx(dtype: DType) -> int:
    """Return the TensorProto.DataType of an element type."""
    return _TABLE[dtype][0]


def ort_name(dtype: DType) -> str:
    """Return the name as in `NodeArg.type`: "float32" -> "tensor(float)"."""
    return f"tensor({_TABLE[dtype][1]})"


def from_ort_name(name: str) -> DType:
    """Return the element type for onnxruntime's name: "tensor(float)" or "float" -> "float32"."""
    return _BY_ORT_NAME[name.removeprefix("tensor(").removesuffix(")")]


@cache
def to_numpy(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy dtype; object for strings. Imports ml_dtypes only for types that NumPy lacks."""
    if dtype in _NUMPY_KNOWS:
        return np.dtype(dtype)
    if dtype == "string":
        return np.dtype(object)
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
    return found


def from_numpy(dtype: np.dtype[Any]) -> DType:
    """Return the element type of a dtype; "string" for object, str and bytes. Raises KeyError for others."""
    return "string" if dtype.kind in "OUST" else _name(dtype)


@cache
def _name(dtype: np.dtype[Any]) -> DType:
    if dtype.name not in _TABLE:  # NumPy takes microseconds to compute the name
        raise KeyError(dtype.name)
    return dtype.name
