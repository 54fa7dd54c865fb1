"""Requests and responses of the Open Inference Protocol over HTTP: JSON, with tensors inside it or as bytes after it.

Spec: KServe "Open Inference Protocol (V2)", and its extension for binary tensors.
"""

import json
from collections.abc import Mapping
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite_serve.limits import Limits, Refused
from ort_lite_serve.tensors import datatype_of, dtype_of, from_bytes, from_list, shape_of, to_bytes, to_list


class RequestedOutput(Record):
    """An output that a request asks for. `binary`: as bytes after the JSON."""

    name: str
    binary: bool


class Request(Record):
    """A decoded request. Empty `outputs` ask for all; `binary` holds for outputs that do not say otherwise."""

    id: str
    inputs: Mapping[str, Array]
    outputs: tuple[RequestedOutput, ...]
    binary: bool


def decode(body: bytes, header: str | None, limits: Limits) -> Request:
    """Decode a request.

    `header` is Inference-Header-Content-Length, the length of the JSON; None if there is nothing after it. Raises Refused if
    the request is invalid.
    """
    length = len(body) if header is None else _length(header, len(body))
    told = _json(body[:length], limits)
    rest = memoryview(body)[length:]
    inputs: dict[str, Array] = {}
    for one in _objects(told, "inputs"):
        array, taken = _tensor(one, rest, limits)
        if one["name"] in inputs:
            raise Refused(400, f"input {one['name']!r} is given twice")
        inputs[one["name"]], rest = array, rest[taken:]
    if len(rest):
        raise Refused(400, f"{len(rest)} bytes are left behind the last binary tensor")
    binary = _flag(told, "binary_data_output", False)
    outputs = _objects(told, "outputs") if "outputs" in told else []
    wanted = tuple(RequestedOutput(one["name"], _flag(one, "binary_data", binary)) for one in outputs)
    return Request(str(told.get("id", "")), inputs, wanted, binary)


def _length(header: str, size: int) -> int:
    if not header.isdecimal() or len(header) > len(str(size)) or not 0 < int(header) <= size:
        raise Refused(
            400, f"Inference-Header-Content-Length {header[:20]!r}: expected a number from 1 to {size}, the body's bytes"
        )
    return int(header)


_OBJECTS = {b",": 44, b"[": 80, b"{": 184, b'"': 48}
"""The bytes of Python objects for JSON, by the character that starts or separates them: a number in a list and in an array, a list,
an object with a name, half of a string. Commas inside strings count too.
"""


def memory_of(text: bytes) -> int:
    """Return roughly the most bytes that JSON needs once it is parsed: up to 30 times its length."""
    return len(text) * (1 if text.isascii() else 4) + sum(text.count(mark) * size for mark, size in _OBJECTS.items())


def _json(text: bytes, limits: Limits) -> dict[str, Any]:
    if len(text) > limits.json_bytes:
        raise Refused(
            413,
            f"the request has {len(text)} bytes of JSON; this server takes {limits.json_bytes}: send tensors as bytes behind it",
        )
    if (memory := memory_of(text)) > limits.json_memory:
        raise Refused(
            413,
            f"the request's JSON has so many values that they would take {memory} bytes; this server takes {limits.json_memory}: "
            "send tensors as bytes behind it",
        )
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the request is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise Refused(400, "the request is no JSON object")
    return told


def _objects(told: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    """Return the inputs or outputs of a request: objects with names."""
    found = told.get(side)
    if not isinstance(found, list):
        raise Refused(400, f"the request has no list {side!r}")
    if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in found):
        raise Refused(400, f"one of {side!r} has no name")
    return found


def _tensor(one: Mapping[str, Any], rest: memoryview, limits: Limits) -> tuple[Array, int]:
    """Return an input, and how many of the bytes after the JSON it uses."""
    name = one["name"]
    dtype = dtype_of(name, one.get("datatype"))
    shape = shape_of(name, one.get("shape"), limits.texts if dtype == "string" else limits.elements)
    size = _parameters(one).get("binary_data_size")
    if size is None:
        return from_list(name, one.get("data"), dtype, shape), 0
    if type(size) is not int or not 0 <= size <= len(rest):
        raise Refused(400, f"input {name!r}: binary_data_size {size!r}, but {len(rest)} bytes are there")
    return from_bytes(name, rest[:size], dtype, shape), size


def _parameters(told: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = told.get("parameters", {})
    if not isinstance(parameters, dict):
        raise Refused(400, "'parameters' is no object")
    return parameters


def _flag(told: Mapping[str, Any], name: str, default: bool) -> bool:
    found = _parameters(told).get(name, default)
    if not isinstance(found, bool):
        raise Refused(400, f"parameter {name!r}: expected true or false")
    return found


def encode(model: str, version: str, request: Request, results: Mapping[str, Array]) -> tuple[bytes, int | None]:
    """Return the body of a response, and the length of its JSON if bytes follow it. `results` are the requested outputs."""
    binary = {one.name: one.binary for one in request.outputs}
    outputs = [_encode_output(name, array, binary.get(name, request.binary)) for name, array in results.items()]
    answer = {"model_name": model, "model_version": version, "outputs": [told for told, _ in outputs]}
    text = json.dumps({**answer, "id": request.id} if request.id else answer).encode()
    behind = any("parameters" in told for told, _ in outputs)
    return b"".join([text, *(data for _, data in outputs)]), len(text) if behind else None


def _encode_output(name: str, array: Array, binary: bool) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of an output, and the bytes that follow it."""
    head = {"name": name, "datatype": datatype_of(array), "shape": [*array.shape]}
    if not binary:
        return {**head, "data": to_list(array)}, b""
    data = to_bytes(array)
    return {**head, "parameters": {"binary_data_size": len(data)}}, data
