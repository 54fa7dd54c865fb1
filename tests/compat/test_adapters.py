"""Adapter files, and runs that take them."""

import random
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.compat.adapter_file import AdapterFile, adapter_bytes, read_adapter_bytes
from ort_lite.dtypes import Array
from ort_lite.errors import Fail, InvalidArgument, InvalidParams, NoSuchFile

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21]> g (float[N] x, float[N] a) => (float[N] y) { y = Add(x, a) }'
).SerializeToString()
ARRAYS: dict[str, Array] = {
    "a": np.arange(3, dtype=np.float32),
    "empty": np.zeros((0, 4), np.int64),
    "double": np.array([2.5]),
    "half": np.arange(6, dtype=np.float16).reshape(2, 3),
    "": np.array([1, 0], np.uint8),
}


def test_onnxruntime_reads_what_is_written(tmp_path: Path) -> None:
    made = ort_lite.AdapterFormat()
    made.set_adapter_version(3)
    made.set_model_version(7)
    made.set_parameters({name: ort_lite.OrtValue(array) for name, array in ARRAYS.items()})
    made.export_adapter(tmp_path / "ours.onnx_adapter")
    theirs = onnxruntime.AdapterFormat.read_adapter(str(tmp_path / "ours.onnx_adapter"))
    assert (theirs.get_format_version(), theirs.get_adapter_version(), theirs.get_model_version()) == (1, 3, 7)
    assert {name: value.numpy().tolist() for name, value in theirs.get_parameters().items()} == {
        name: array.tolist() for name, array in ARRAYS.items()
    }


def test_what_onnxruntime_writes_is_read(tmp_path: Path) -> None:
    theirs = onnxruntime.AdapterFormat()
    theirs.set_adapter_version(3)
    theirs.set_model_version(7)
    theirs.set_parameters({name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in ARRAYS.items()})
    theirs.export_adapter(str(tmp_path / "theirs.onnx_adapter"))
    ours = ort_lite.AdapterFormat.read_adapter(tmp_path / "theirs.onnx_adapter")
    assert (ours.get_format_version(), ours.get_adapter_version(), ours.get_model_version()) == (1, 3, 7)
    for name, value in ours.get_parameters().items():
        np.testing.assert_array_equal(value.numpy(), ARRAYS[name])
        assert value.numpy().dtype == ARRAYS[name].dtype


def test_a_run_is_fed_an_adapter(tmp_path: Path) -> None:
    adapter = ort_lite.LoraAdapter()
    options = ort_lite.RunOptions()
    with pytest.raises(Fail, match="call its Load"):
        options.add_active_adapter(adapter)
    with pytest.raises(NoSuchFile, match="cannot be read: No such file"):
        adapter.Load(tmp_path / "no such file")
    path = tmp_path / "a.onnx_adapter"
    path.write_bytes(adapter_bytes(AdapterFile(0, 0, {"a": ARRAYS["a"]})))
    adapter.Load(str(path))
    options.add_active_adapter(adapter)
    session = ort_lite.InferenceSession(MODEL)
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x}, options)[0], [1, 2, 3])
    np.testing.assert_array_equal(session.run(None, {"x": x}, options, timeout=60)[0], [1, 2, 3])
    bound = session.io_binding()
    bound.bind_cpu_input("x", x)
    bound.bind_output("y")
    session.run_with_iobinding(bound, options)
    np.testing.assert_array_equal(bound.copy_outputs_to_cpu()[0], [1, 2, 3])
    with pytest.raises(InvalidArgument, match="fed already"):
        session.run(None, {"x": x, "a": x}, options)


def test_damaged_files_are_errors() -> None:
    """Cut anywhere, or with a byte changed, a file is read or refused; no other error comes out of it."""
    whole = adapter_bytes(AdapterFile(1, 2, {"a": ARRAYS["a"], "half": ARRAYS["half"]}))
    refused = 0
    draw = random.Random(0)
    broken = [whole[:k] for k in range(len(whole) - 16)]
    for k in range(len(whole)):
        changed = bytearray(whole)
        changed[k] = draw.randrange(256)
        broken.append(bytes(changed))
    for data in broken:
        try:
            read_adapter_bytes(data)
        except InvalidParams:
            refused += 1
    assert refused > len(whole)
    with pytest.raises(InvalidParams, match="expected b'TORT'"):
        read_adapter_bytes(bytes(64))
    for array in (np.array(["a"], object), np.array([True]), np.array(1.0)):
        with pytest.raises(InvalidArgument, match="cannot hold"):
            adapter_bytes(AdapterFile(0, 0, {"words": array}))


def test_an_adapter_replaces_empty_defaults_of_an_open_size() -> None:
    """As exported models with LoRA have them: initialisers of rank 0 that a feed of rank 1 replaces."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2,2] x, float[2,r] a, float[r,2] b) => (float[2,2] y)
    <float[2,0] a = {}, float[0,2] b = {}> { s = MatMul(x, a) t = MatMul(s, b) y = Add(x, t) }"""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    x = np.eye(2, dtype=np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)
    fed = {"x": x, "a": np.ones((2, 1), np.float32), "b": np.ones((1, 2), np.float32)}
    np.testing.assert_array_equal(session.run(None, fed)[0], x + 1)
