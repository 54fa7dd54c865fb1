"""Requests and answers of the Open Inference Protocol, version 2, as HTTP has them: JSON, with tensors inside or in bytes behind it.

Spec: KServe "Open Inference Protocol (V2)", and its extension for binary tensors.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.record import Record
from ort_lite_serve.limits import Limits, Refused

DATATYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8", "INT16": "int16",
    "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64", "BF16": "bfloat16", "BYTES": "string",
}  # fmt: skip
"""The protocol's names of element types, and ort_lite's."""
NAMES = {dtype: name for name, dtype in DATATYPES.items()}
MOST_RANK = 16


class Wanted(Record):
    """An output that a request asks for; `binary`: behind the JSON."""

    name: str
    binary: bool


class Request(Record):
    """`outputs` is empty where all are wanted; `binary` holds for outputs that say nothing of it."""

    id: str
    inputs: Mapping[str, Array]
    outputs: tuple[Wanted, ...]
    binary: bool


def decode(body: bytes, header: str | None, limits: Limits) -> Request:
    """`header` is Inference-Header-Content-Length: how long the JSON is, None where it is all. Raises Refused for what is wrong."""
    length = len(body) if header is None else _length(header, len(body))
    try:
        told = json.loads(body[:length])
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the request is no JSON: {error}") from None
    if not isinstance(told, dict) or not isinstance(told.get("inputs"), list):
        raise Refused(400, "the request has no list 'inputs'")
    rest = memoryview(body)[length:]
    inputs: dict[str, Array] = {}
    for one in told["inputs"]:
        name, array, taken = _input(one, rest, limits)
        if name in inputs:
            raise Refused(400, f"input {name!r} is given twice")
        inputs[name], rest = array, rest[taken:]
    if len(rest):
        raise Refused(400, f"{len(rest)} bytes are left behind the last binary tensor")
    binary = _flag(told, "binary_data_output")
    return Request(str(told.get("id", "")), inputs, tuple(_wanted(told.get("outputs", []), binary)), binary)


def _length(header: str, size: int) -> int:
    if not header.isdecimal() or not 0 < int(header) <= size:
        raise Refused(400, f"Inference-Header-Content-Length {header!r}: expected a number from 1 to {size}, the body's bytes")
    return int(header)


def _input(one: Any, rest: memoryview, limits: Limits) -> tuple[str, Array, int]:
    """Name, array, and how many of the bytes behind the JSON it takes."""
    if not isinstance(one, dict) or not isinstance(one.get("name"), str):
        raise Refused(400, "an input has no name")
    name, datatype = one["name"], one.get("datatype")
    shape = shape_of(name, one.get("shape"), limits)
    dtype = dtype_of(name, datatype)
    size = (one.get("parameters") or {}).get("binary_data_size")
    if size is None:
        return name, _listed(name, one.get("data"), dtype, shape), 0
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(rest):
        raise Refused(400, f"input {name!r}: binary_data_size {size!r}, but {len(rest)} bytes are there")
    return name, from_bytes(name, rest[:size], dtype, shape), size


def dtype_of(name: str, datatype: Any) -> str:
    if datatype not in DATATYPES:
        raise Refused(400, f"input {name!r}: datatype {datatype!r} is none of {', '.join(DATATYPES)}")
    return DATATYPES[datatype]


def shape_of(name: str, given: Any, limits: Limits) -> tuple[int, ...]:
    """Raises Refused for what is no shape, or too large to be looked at."""
    numbers = isinstance(given, Sequence) and all(isinstance(d, int) and not isinstance(d, bool) and d >= 0 for d in given)
    if not numbers or len(given) > MOST_RANK:
        raise Refused(400, f"input {name!r}: shape {given!r}, expected at most {MOST_RANK} numbers from 0 on")
    if prod(given) > limits.elements:
        raise Refused(400, f"input {name!r} has {prod(given)} elements; this server takes {limits.elements}")
    return tuple(given)


def _listed(name: str, data: Any, dtype: str, shape: tuple[int, ...]) -> Array:
    """Elements in JSON, nested or in a row."""
    if not isinstance(data, list):
        raise Refused(400, f"input {name!r} has neither 'data' nor 'binary_data_size'")
    kind: Any = object if dtype == "string" else to_numpy(dtype)
    try:
        array = np.array(data, kind) if data else np.empty(0, kind)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused(400, f"input {name!r}: its data is no {dtype}: {error}") from None
    if dtype == "string" and not all(isinstance(text, str) for text in array.flat):
        raise Refused(400, f"input {name!r}: its data holds what is no text")
    return _shaped(name, array, shape)


def from_bytes(name: str, data: bytes | memoryview, dtype: str, shape: tuple[int, ...]) -> Array:
    """Little-endian elements; a text is its length in four bytes, and as many. Raises Refused where there are more or fewer."""
    if dtype == "string":
        return _shaped(name, np.array([*_texts(name, bytes(data), prod(shape))], object), shape)
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
        try:
            yield data[at + 4 : at + 4 + size].decode()
        except UnicodeDecodeError:
            raise Refused(400, f"input {name!r}: a text is no UTF-8") from None
        at, most = at + 4 + size, most - 1


def _shaped(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    if array.size != prod(shape):
        raise Refused(400, f"input {name!r}: {array.size} elements came for the shape {list(shape)}, expected {prod(shape)}")
    return array.reshape(shape)


def _wanted(given: Any, binary: bool) -> Iterator[Wanted]:
    if not isinstance(given, list):
        raise Refused(400, "'outputs' is no list")
    for one in given:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise Refused(400, "an output has no name")
        parameters = one.get("parameters") or {}
        yield Wanted(one["name"], bool(parameters.get("binary_data", binary)))


def _flag(told: Mapping[str, Any], name: str) -> bool:
    parameters = told.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise Refused(400, "'parameters' is no object")
    return bool(parameters.get(name, False))


def encode(model: str, version: str, request: Request, results: Mapping[str, Array]) -> tuple[bytes, int | None]:
    """The body of an answer, and how long its JSON is where bytes stand behind it. `results` are the outputs that are wanted."""
    binary = {one.name: one.binary for one in request.outputs}
    outputs, behind = [], []
    for name, array in results.items():
        told: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if binary.get(name, request.binary):
            data = to_bytes(array)
            told["parameters"] = {"binary_data_size": len(data)}
            behind.append(data)
        else:
            told["data"] = _plain(array)
        outputs.append(told)
    answer = {"model_name": model, "model_version": version, "outputs": outputs}
    text = json.dumps({**answer, "id": request.id} if request.id else answer).encode()
    return b"".join([text, *behind]), len(text) if behind else None


def datatype_of(array: Array) -> str:
    return "BYTES" if array.dtype == object else NAMES[array.dtype.name]


def to_bytes(array: Array) -> bytes:
    if array.dtype == object:
        texts = [str(text).encode() for text in array.flat]
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    return np.ascontiguousarray(array).tobytes()


def _plain(array: Array) -> list[Any]:
    """Elements in a row. JSON has no NaN and no infinity: they are written as Python's and NumPy's readers take them."""
    if array.dtype.name in ("float16", "bfloat16"):
        array = array.astype(np.float32)
    found: list[Any] = array.reshape(-1).tolist()
    return found
