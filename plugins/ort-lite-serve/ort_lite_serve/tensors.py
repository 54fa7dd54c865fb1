"""Tensors as the protocol represents them: element types, shapes, elements in JSON lists and in bytes."""

from collections.abc import Iterator
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite_serve.limits import Refused

DATATYPES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BF16": "bfloat16",
    "BYTES": "string",
}
"""The protocol's names of element types -> ort_lite's."""
NAMES = {dtype: name for name, dtype in DATATYPES.items()}
MOST_RANK = 16


def dtype_of(name: str, datatype: Any) -> str:
    """Return the element type of a datatype of the protocol. Raises Refused for an unknown one."""
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise Refused(400, f"input {name!r}: datatype {datatype!r} is none of {', '.join(DATATYPES)}")
    return DATATYPES[datatype]


def shape_of(name: str, given: Any, most: int) -> tuple[int, ...]:
    """Check a shape. Raises Refused if it is not one, or has more than `most` elements, counting dimensions of 0 as 1."""
    if not isinstance(given, list) or len(given) > MOST_RANK or not all(type(d) is int and d >= 0 for d in given):
        raise Refused(400, f"input {name!r}: its shape is no list of at most {MOST_RANK} numbers from 0 on")
    if prod(max(d, 1) for d in given) > most:
        raise Refused(400, f"input {name!r}: a tensor of shape {given} is too large; this server takes {most} elements")
    return tuple(given)


def from_list(name: str, data: Any, dtype: str, shape: tuple[int, ...]) -> Array:
    """Convert JSON elements, flat or nested as the shape is. Raises Refused for elements of another type."""
    if not isinstance(data, list):
        raise Refused(400, f"input {name!r} has neither a list 'data' nor 'binary_data_size'")
    row = _row(name, data, shape)
    _check_kinds(name, row, dtype)
    if dtype == "string":
        return reshape_exact(name, np.array(row, object), shape)
    try:
        array = np.array(row, np.float64 if dtype in _FLOATS else to_numpy(dtype))
    except OverflowError:
        raise Refused(400, f"input {name!r}: an element of its data is beyond {dtype}") from None
    return reshape_exact(name, array if dtype not in _FLOATS else _narrow(name, array, dtype), shape)


_FLOATS = {"float16", "bfloat16", "float32", "float64"}


def _row(name: str, data: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Flatten a list, which must be flat, or nested at every level as the shape says."""
    for length in shape[1:]:
        if list not in map(type, data):
            break
        if not all(type(part) is list and len(part) == length for part in data):
            raise Refused(400, f"input {name!r}: its data is not nested as its shape {list(shape)} is")
        data = [*chain.from_iterable(data)]
    return data


def _check_kinds(name: str, row: list[Any], dtype: str) -> None:
    kinds = {str} if dtype == "string" else {bool} if dtype == "bool" else {int, float} if dtype in _FLOATS else {int}
    if wrong := {*map(type, row)} - kinds:
        found = ", ".join(sorted(kind.__name__ for kind in wrong))
        raise Refused(400, f"input {name!r}: its data has elements of type {found}, expected those of {dtype}")


def _narrow(name: str, wide: Array, dtype: str) -> Array:
    with np.errstate(over="ignore"):
        array = wide.astype(to_numpy(dtype))
    if (np.isinf(array) & np.isfinite(wide)).any():
        raise Refused(400, f"input {name!r}: an element of its data is beyond {dtype}")
    return array


def from_bytes(name: str, data: bytes | memoryview, dtype: str, shape: tuple[int, ...]) -> Array:
    """Convert little-endian elements; a string is its length in four bytes, then its bytes.

    Raises Refused if the bytes are too many or too few.
    """
    if dtype == "string":
        return reshape_exact(name, np.array([*_texts(name, bytes(data), prod(shape))], object), shape)
    kind = to_numpy(dtype)
    if len(data) != prod(shape) * kind.itemsize:
        expected = prod(shape) * kind.itemsize
        raise Refused(400, f"input {name!r}: {len(data)} bytes came for {dtype}{list(shape)}, expected {expected}")
    if dtype == "bool" and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise Refused(400, f"input {name!r}: a byte of it is neither 0 nor 1")
    return np.frombuffer(data, kind).reshape(shape)


def _texts(name: str, data: bytes, most: int) -> Iterator[str]:
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        if at + 4 + size > len(data) or most == 0:
            raise Refused(400, f"input {name!r}: its texts do not end where its bytes do")
        yield text_of(name, data[at + 4 : at + 4 + size])
        at, most = at + 4 + size, most - 1


def text_of(name: str, data: bytes) -> str:
    """Decode UTF-8. Raises Refused for other bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Refused(400, f"input {name!r}: a text is no UTF-8") from None


def reshape_exact(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """Reshape an array. Raises Refused if it has another number of elements."""
    if array.size != prod(shape):
        raise Refused(400, f"input {name!r}: {array.size} elements came for the shape {list(shape)}, expected {prod(shape)}")
    return array.reshape(shape)


def datatype_of(array: Array) -> str:
    """Return the protocol's datatype of an array."""
    return "BYTES" if array.dtype == object else NAMES[array.dtype.name]


def to_bytes(array: Array) -> bytes:
    """Encode values as `from_bytes` reads them."""
    if array.dtype == object:
        texts = [str(text).encode() for text in array.flat]
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    return np.ascontiguousarray(array).tobytes()


def to_list(array: Array) -> list[Any]:
    """Return the elements as a flat list for JSON. Python's json writes and reads NaN and infinities."""
    if array.dtype.name in ("float16", "bfloat16"):
        array = array.astype(np.float32)
    found: list[Any] = array.reshape(-1).tolist()
    return found
