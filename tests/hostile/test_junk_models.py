"""Bytes that are no model, or hardly one, of which a reader that walks field by field makes minutes.

Each case raises where a megabyte costs more than `SECONDS` of processor time, which is many times what it costs.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.errors import InvalidProtobuf, OrtLiteError
from tests.case_server import Outcome
from tests.fuzz.wire import varint

SECONDS = 4.0
"""Of processor time, which a megabyte of junk may take on a slow and busy machine: 0.2 on an idle one."""
MEGABYTE = 2**20
FLOOD = 2**17


def _field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def _load(source: Any, most: float, error: type[Exception] = OrtLiteError, **keywords: Any) -> None:
    """Refused or loaded, in so many seconds of processor time."""
    begin = time.process_time()
    with contextlib.suppress(error):
        ort_lite.load(source, **keywords)
    took = time.process_time() - begin
    assert took < most, f"took {took:.2f} s, expected {most:.2f} s at most"


def _refuse(data: bytes, **keywords: Any) -> None:
    """As bytes and as a file."""
    try:
        ort_lite.load(data, **keywords)
    except InvalidProtobuf:
        pass
    else:
        raise AssertionError("loaded")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        for source in (path, data):
            _load(source, SECONDS, InvalidProtobuf, **keywords)


def _repeated(unit: bytes, megabytes: int = 5) -> bytes:
    return unit * (megabytes * MEGABYTE // len(unit))


# Floods of one field, wherever a model can have it

_TEXT = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Abs(x) }'
_BASE = onnx.parser.parse_model(_TEXT).SerializeToString()
_NODE = helper.make_node("Abs", ["x"], ["z"]).SerializeToString()
_ATTRIBUTE = onnx.AttributeProto(name="a", type=onnx.AttributeProto.GRAPHS).SerializeToString()
_FUNCTION = helper.make_function("f", "f", ["a"], ["b"], [helper.make_node("Abs", ["a"], ["b"])], []).SerializeToString()
_TENSOR = numpy_helper.from_array(np.zeros(2, np.float32), "w").SerializeToString()
_INFO = helper.make_tensor_value_info("y", 1, [2]).SerializeToString()
_PLACES: dict[str, tuple[tuple[int, bytes], ...]] = {
    "ModelProto": (),
    "GraphProto": ((7, b""),),
    "NodeProto": ((7, b""), (1, _NODE)),
    "AttributeProto": ((7, b""), (1, _NODE), (5, _ATTRIBUTE)),
    "TensorProto": ((7, b""), (5, _TENSOR)),
    "SparseTensorProto": ((7, b""), (15, b"")),
    "FunctionProto": ((25, _FUNCTION),),
    "ValueInfoProto": ((7, b""), (13, _INFO)),
    "TypeProto": ((7, b""), (13, _INFO), (2, b"")),
    "TypeProto.Tensor": ((7, b""), (13, _INFO), (2, b""), (1, b"")),
    "TensorShapeProto": ((7, b""), (13, _INFO), (2, b""), (1, b"\x08\x01"), (2, b"")),
    "a body": (
        (7, b""),
        (1, _NODE),
        (5, onnx.AttributeProto(name="a", type=onnx.AttributeProto.GRAPH).SerializeToString()),
        (6, b""),
    ),
}
"""By message: the fields that lead to one, each with what the message has before the flood."""
_TYPES = {FieldDescriptor.TYPE_FLOAT: (5, bytes(4)), FieldDescriptor.TYPE_DOUBLE: (1, bytes(8))}


def _units(message: Descriptor) -> Iterator[tuple[str, bytes]]:
    """The shortest bytes of each field, with and without something in it; an unknown field and a group."""
    for field in message.fields:
        if field.type in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            yield field.name, _field(field.number, b"")
            yield f"{field.name} of one byte", _field(field.number, b"x")
        else:
            wire, value = _TYPES.get(field.type, (0, b"\x01"))
            yield field.name, varint(field.number << 3 | wire) + value
    yield "an unknown field", varint(999 << 3) + b"\1"
    yield "a group", varint(999 << 3 | 3) + varint(999 << 3 | 4)


def _floods(name: str) -> None:
    place = _PLACES[name]
    found: Any = onnx
    for part in ("GraphProto" if name == "a body" else name).split("."):
        found = getattr(found, part)
    slow = []
    for field, unit in _units(found.DESCRIPTOR):
        payload = unit * (FLOOD // len(unit))
        for number, base in reversed(place):
            payload = _field(number, base + payload)
        try:
            _load(_BASE + payload, SECONDS * FLOOD / MEGABYTE)
        except AssertionError as error:
            slow.append(f"{field}: {error}")
    assert not slow, "; ".join(slow)


def a_million_empty_nodes() -> None:
    data = _field(7, _repeated(b"\x0a\0", 2))
    _load(data, SECONDS)
    _load(b"\x08\x08" + data, SECONDS)


def _many(unit: bytes) -> None:
    """A model with a megabyte of these in the graph."""
    _load(_BASE + _field(7, _repeated(unit, 1)), SECONDS)


def graphs_in_graphs() -> None:
    data = b""
    for _ in range(200):
        data = _field(1, _NODE + _field(5, _ATTRIBUTE + _field(6, data)))
    _load(_BASE + _field(7, data), SECONDS / 4, InvalidProtobuf)


def sessions_are_refused_too() -> None:
    begin = time.process_time()
    for data in (bytes(MEGABYTE), _field(7, _repeated(b"\x0a\0", 1)), _BASE + _field(7, _repeated(b"\x2a\0", 1))):
        try:
            ort_lite.InferenceSession(data, providers=["CPUExecutionProvider"])
        except OrtLiteError:
            continue
        raise AssertionError("a session of junk")
    assert time.process_time() - begin < 2 * SECONDS


def segments_of_the_file_do_not_repeat_its_tensors() -> None:
    """Small tensors that say that their bytes are those of a large one, each of which would be read."""
    large = numpy_helper.from_array(np.zeros(2**21, np.float32), "w").SerializeToString()
    head = b"\x3a" + varint(len(_field(5, large)) + 10_000)
    begin = len(head) + len(_field(5, large)) - 2**23
    for start in (begin, begin - 1, begin + 5):  # whatever precedes the bytes
        small = onnx.TensorProto(name="v", data_type=1, dims=[2**21])
        small.segment.begin, small.segment.end = start, start + 2**23
        data = b""
        for k in range(2000):
            small.name = f"v{k}"
            data += _field(5, small.SerializeToString())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(b"\x3a" + varint(len(_field(5, large) + data)) + _field(5, large) + data + _BASE)
            try:
                ort_lite.load(path)
            except OrtLiteError as error:
                said = str(error)
            else:
                raise AssertionError("read 2,000 times")
        assert "v0" in said, said


def a_large_model_of_small_fields_is_loaded() -> None:
    """Protobuf takes over where Python would walk too many fields; tensors are the same."""
    model = onnx.ModelProto.FromString(_BASE)
    model.graph.initializer.append(numpy_helper.from_array(np.arange(2**20, dtype=np.float32), "w"))
    for k in range(200_000):
        model.metadata_props.add(key=str(k), value="")
    data = model.SerializeToString()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        for source in (path, data):
            found = ort_lite.load(source).graph.initializers["w"].constant
            assert found is not None and found[-1] == 2**20 - 1


CASES: dict[str, Callable[[], None]] = {
    "zeros": lambda: _refuse(bytes(16 * MEGABYTE)),
    "zeros, borrowed": lambda: _refuse(bytes(16 * MEGABYTE), no_copy=True),
    "zeros behind a version": lambda: _refuse(b"\x08\x08" + bytes(16 * MEGABYTE)),
    "zeros in a graph": lambda: _refuse(_field(7, bytes(16 * MEGABYTE))),
    "versions": lambda: _refuse(_repeated(b"\x08\x01")),
    "versions, borrowed": lambda: _refuse(_repeated(b"\x08\x01"), no_copy=True),
    "unknown numbers": lambda: _refuse(_repeated(b"\xf8\x7f\x01")),
    "unknown bytes": lambda: _refuse(_repeated(b"\xfa\x7f\x00")),
    "groups": lambda: _refuse(_repeated(b"\xfb\x7f\xfc\x7f")),
    "open groups": lambda: _refuse(_repeated(b"\xfb\x7f")),
    "varints without end": lambda: _refuse(b"\x08" + _repeated(b"\xff")),
    "ones": lambda: _refuse(_repeated(b"\x01")),
    "a pattern": lambda: _refuse(_repeated(bytes(range(256)))),
    "noise": lambda: _refuse(np.random.default_rng(0).bytes(16 * MEGABYTE)),
    "text": lambda: _refuse(_repeated(b"model ")),
    "half a model": lambda: _refuse(_BASE + _field(7, bytes(16 * MEGABYTE))[: 8 * MEGABYTE]),
    "a million empty nodes": a_million_empty_nodes,
    "empty nodes behind a good one": partial(_many, b"\x0a\0"),
    "empty initializers": partial(_many, b"\x2a\0"),
    "empty inputs": partial(_many, b"\x5a\0"),
    "empty outputs": partial(_many, b"\x62\0"),
    "empty functions": lambda: _load(_BASE + _repeated(_field(25, b""), 1), SECONDS),
    "opsets that differ": lambda: _load(_BASE + _repeated(_field(8, b"\x10\x01") + _field(8, b"\x10\x02"), 1), SECONDS),
    "nodes without an operator": partial(_many, _field(1, _field(1, b"x") + _field(2, b"z"))),
    "nodes without inputs and outputs": partial(_many, _field(1, _field(4, b"Abs"))),
    "graphs in graphs": graphs_in_graphs,
    "64 MiB of nodes": lambda: _load(_field(7, _repeated(b"\x0a\0", 64)), 4 * SECONDS, InvalidProtobuf),
    "sessions": sessions_are_refused_too,
    "small fields": a_large_model_of_small_fields_is_loaded,
    "segments": segments_of_the_file_do_not_repeat_its_tensors,
    **{f"floods in {name}": partial(_floods, name) for name in _PLACES},
}


@pytest.mark.parametrize("name", CASES)
def test_the_case_takes_little_time(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name, seconds=20, megabytes=2048) == ""
