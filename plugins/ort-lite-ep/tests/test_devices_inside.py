"""Providers with device memory inside onnxruntime: values that stay on the device, and copies."""

import gc
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import numpy as np
import onnxruntime
import ort_lite_ep
import pytest
from onnx import TensorProto
from ort_lite_accelerator import memory, program
from ort_lite_ep.library import library

from ort_lite.provider import CPU, Device
from tests.devices_inside_onnxruntime import (
    BODIES,
    CARD,
    CHAIN,
    DEFAULT,
    EXPECTED,
    Handle,
    VaultExecutionProvider,
    X,
    chain,
    devices,
    model,
    options,
    place,
    register_both,
    taken,
)
from tests.inside_onnxruntime import RELEASE


@pytest.fixture(scope="module", autouse=True)
def register() -> None:
    register_both()


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the copies to and from the cards."""
    found = Counter[str]()

    def count(name: str, direction: str) -> None:
        original = getattr(memory.CardTransfer, name)

        def counted(self: Any, value: Any, source: Device, destination: Device, *rest: Any) -> Any:
            found[direction or ("in" if source == CPU else "out")] += 1
            return original(self, value, source, destination, *rest)

        monkeypatch.setattr(memory.CardTransfer, name, counted)

    count("copy", "")
    count("copy_into", "in")
    return found


# Devices


def test_each_device_is_offered_with_its_options_and_memory() -> None:
    first, second = devices()
    assert [device.ep_metadata["device"] for device in (first, second)] == ["npu:0", "npu:1"]
    assert [device.ep_options for device in (first, second)] == [{"device_id": "0"}, {"device_id": "1"}]
    assert [device.memory_info(DEFAULT).name for device in (first, second)] == ["npu:0", "npu:1"]
    (vault,) = devices(VaultExecutionProvider.name)
    assert vault.ep_metadata["device"] == "vault:0"
    ids = [device.memory_info(DEFAULT).device_id for device in (first, second, vault)]
    assert ids[:2] == [0, 1] and ids[2] not in (0, 1)


def test_a_session_runs_on_the_chosen_device(monkeypatch: pytest.MonkeyPatch) -> None:
    used = list[Device]()
    original = program.CardExecutable.__init__

    def note(self: Any, program: Any, arena: Any, *rest: Any) -> None:
        used.append(arena.device)
        original(self, program, arena, *rest)

    monkeypatch.setattr(program.CardExecutable, "__init__", note)
    chain(devices()[1])
    assert set(used) == {Device("npu", 1)}


def test_options_that_contradict_the_chosen_device_are_an_error() -> None:
    chosen = onnxruntime.SessionOptions()
    chosen.add_provider_for_devices(devices()[:1], {"device_id": "1"})
    with pytest.raises(Exception, match=r"chosen for npu:0, and its options are of npu:1; choose one of"):
        onnxruntime.InferenceSession(model(CHAIN), chosen, enable_fallback=0)


def test_the_first_of_several_chosen_devices_counts() -> None:
    chosen = onnxruntime.SessionOptions()
    chosen.add_provider_for_devices(devices()[::-1], {"mem_limit": "4096"})
    if RELEASE < (1, 27):
        with pytest.raises(Exception, match="same device_memory_info"):
            onnxruntime.InferenceSession(model(CHAIN), chosen, enable_fallback=0)
        return
    session, second = onnxruntime.InferenceSession(model(CHAIN), chosen), place(devices()[1])
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", *second)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), EXPECTED)


# Values that stay


def test_values_cross_once_between_partitions_and_a_foreign_node(copies: Counter[str]) -> None:
    session = chain()
    copies.clear()
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    assert taken() == ["Relu", "Add", "Mul", "Relu"]
    assert copies == {"in": 2, "out": 2}, "x and c in, b and y out; b stays for the second partition"


def test_host_values_cross_the_borders_of_a_partition(copies: Counter[str]) -> None:
    text = """(float[N, 4] x, int64[K] at) => (float[N, K] y, int64[2] sizes) {
        y = Gather<axis = 1>(x, at)
        sizes = Shape(y)
    }"""
    session, at = onnxruntime.InferenceSession(model(text), options()), np.array([3, -4, 1])
    assert taken() == ["Gather", "Shape"]
    copies.clear()
    y, sizes = session.run(None, {"x": X, "at": at})
    np.testing.assert_array_equal(y, X[:, at])
    assert sizes.tolist() == [2, 3]
    assert copies == {"in": 3, "out": 3}, "x, at and sizes in; at, y and sizes out"


def test_an_input_that_is_on_the_device_is_not_copied(copies: Counter[str]) -> None:
    session, kind = chain(), place(devices()[0])
    x = onnxruntime.OrtValue.ortvalue_from_numpy(X, *kind)
    copies.clear()
    session.run_with_ort_values(None, {"x": x})
    assert copies == {"in": 2, "out": 2}, "bytes from Python get their type in the first run"
    copies.clear()
    session.run_with_ort_values(None, {"x": x})
    assert copies == {"in": 1, "out": 2}
    np.testing.assert_array_equal(x.numpy(), X)


def test_a_bound_output_stays_on_the_device_and_feeds_the_next_run(copies: Counter[str]) -> None:
    session, (kind, number) = chain(), place(devices()[0])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(X, kind, number))
    binding.bind_output("y", kind, number)
    session.run_with_iobinding(binding)
    (y,) = binding.get_outputs()
    assert y.device_name() != "cpu" and y.shape() == [2, 4]
    copies.clear()
    again = session.io_binding()
    again.bind_ortvalue_input("x", y)
    again.bind_output("y", kind, number)
    session.run_with_iobinding(again)
    assert copies == {"in": 1, "out": 1}, "only around Abs"
    np.testing.assert_array_equal(again.get_outputs()[0].numpy(), (2 * EXPECTED) ** 2)
    np.testing.assert_array_equal(y.numpy(), EXPECTED, "the input is untouched")


def test_a_bound_tensor_gets_the_output() -> None:
    session, (kind, number) = chain(), place(devices()[0])
    y = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32, kind, number)
    with pytest.raises(Exception, match=r"a tensor on npu:0 at 0x1\w+ is read, where nothing was written"):
        y.numpy()
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_ortvalue_output("y", y)
    for _ in range(2):
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(y.numpy(), EXPECTED)


def test_an_address_can_be_bound_with_another_shape() -> None:
    text = "(float[N, M] x) => (float[N, M] y) { y = Relu(x) }"
    session, (kind, number) = onnxruntime.InferenceSession(model(text), options()), place(devices()[0])
    x = onnxruntime.OrtValue.ortvalue_from_numpy(X, kind, number)
    for shape in ((2, 4), (4, 2), (1, 8), (2, 4)):
        binding = session.io_binding()
        binding.bind_input("x", kind, number, np.float32, shape, x.data_ptr())
        binding.bind_output("y", kind, number)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.maximum(X, 0).reshape(shape))


def test_an_ortvalue_on_a_device_is_updated_in_place() -> None:
    session, (kind, number) = chain(), place(devices()[0])
    x = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(X), kind, number)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert not binding.copy_outputs_to_cpu()[0].any()
    x.update_inplace(X)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], EXPECTED)


def test_values_cross_between_two_cards() -> None:
    first, second = devices()
    x = onnxruntime.OrtValue.ortvalue_from_numpy(X, *place(first))
    y = chain(second).run_with_ort_values(None, {"x": x})[0]
    np.testing.assert_array_equal(y.numpy(), EXPECTED)
    there = onnxruntime.OrtValue.ortvalue_from_shape_and_type(X.shape, np.float32, *place(second))
    onnxruntime.copy_tensors([x], [there])
    np.testing.assert_array_equal(there.numpy(), X)


@pytest.mark.parametrize("shape", [(0, 4), (1, 4)])
def test_tensors_without_elements(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    session, kind = chain(), place(devices()[0])
    assert session.run(None, {"x": x})[0].shape == shape
    there = onnxruntime.OrtValue.ortvalue_from_numpy(x, *kind)
    assert session.run_with_ort_values(None, {"x": there})[0].shape() == list(shape)


DTYPES = [np.float16, np.float64, np.int8, np.uint8, np.int64, np.bool_]


@pytest.mark.parametrize("dtype", DTYPES)
def test_handles_are_any_objects(dtype: Any) -> None:
    name = {"bool_": "bool", "bool": "bool", "float64": "double"}.get(np.dtype(dtype).name, np.dtype(dtype).name)
    text = f"({name}[N] x, {name} s) => ({name}[N] y, {name} t) {{ y = Identity(x)  t = Identity(s) }}"
    vault = devices(VaultExecutionProvider.name)[0]
    session = onnxruntime.InferenceSession(model(text), options(vault))
    VaultExecutionProvider.seen.clear()
    x, s = np.arange(7).astype(dtype), np.array(1, dtype)
    for _ in range(2):
        y, t = session.run(None, {"x": x, "s": s})
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(t, s)
    assert set(VaultExecutionProvider.seen) == {Handle}
    there = onnxruntime.OrtValue.ortvalue_from_numpy(x, *place(vault))
    np.testing.assert_array_equal(there.numpy(), x)
    again = session.run_with_ort_values(["y"], {"x": there, "s": onnxruntime.OrtValue.ortvalue_from_numpy(s)})
    np.testing.assert_array_equal(again[0].numpy(), x)


@pytest.mark.parametrize("code", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN])
def test_types_without_a_numpy_name(code: int) -> None:
    text = f"(float[N] x) => (float[N] z) {{ a = Cast<to = {code}>(x)  b = Identity(a)  z = Cast<to = 1>(b) }}"
    chosen = options(devices(VaultExecutionProvider.name)[0])
    chosen.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model(text, 21), chosen)
    x = np.array([1, 2, 3, 0, 5], np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)
    assert taken() == ["Identity"]


def test_strings_stay_with_onnxruntime() -> None:
    text = "(string[N] x) => (string[N] y) { y = Identity(x) }"
    session = onnxruntime.InferenceSession(model(text), options(devices(VaultExecutionProvider.name)[0]))
    assert session.run(None, {"x": np.array(["a", "b"], object)})[0].tolist() == ["a", "b"]
    (node,) = ort_lite_ep.reports()[-1].nodes
    assert "'x' is string, which onnxruntime does not move to vault:0" in node.reason


def test_bodies_have_partitions_on_the_device() -> None:
    session = onnxruntime.InferenceSession(model(BODIES), options())
    for c in (True, False):
        a = X + X
        expected = (np.maximum(a, 0) if c else a + X) * a
        np.testing.assert_array_equal(session.run(None, {"x": X, "c": np.array(c)})[0], expected)
    assert sorted(taken()) == ["Add", "Add", "Mul", "Relu"]


def test_an_initializer_that_can_be_overridden() -> None:
    text = "(float[4] x, float[4] w) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }"
    session = onnxruntime.InferenceSession(model(text), options())
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], [2, 3, 4, 5])
    np.testing.assert_array_equal(session.run(None, {"x": x, "w": 2 * x})[0], [3, 3, 3, 3])


def test_two_devices_in_one_session() -> None:
    text = "(float[N, 4] x) => (float[N, 4] z) { a = Relu(x)  b = Neg(a)  c = Mul(b, a)  d = Neg(c)  e = Abs(d)  z = Relu(e) }"
    chosen = options(devices()[0], devices(VaultExecutionProvider.name)[0])
    session = onnxruntime.InferenceSession(model(text), chosen)
    a = np.maximum(X, 0)
    for _ in range(3):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], a * a)


def test_threads_share_a_session() -> None:
    session = chain()
    wrong = list[int]()

    def run(number: int) -> None:
        for k in range(50):
            x = X * (1 + number) / (1 + k)
            if not np.array_equal(session.run(None, {"x": x})[0], (2 * np.maximum(x, 0)) ** 2):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_a_thousand_runs_leave_nothing_behind() -> None:
    session, (kind, number) = chain(), place(devices()[0])
    held = library()._devices  # the values on devices, by address
    arenas = list[int]()
    for k in range(1000):
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(X, kind, number))
        binding.bind_output("y", kind, number)
        session.run_with_iobinding(binding)
        session.run(None, {"x": X})
        del binding
        if k in (9, 999):
            gc.collect()
            arenas.append(sum(len(block) for block in held._blocks.values()))
    assert arenas == [0, 0]


def test_a_provider_error_names_the_provider_and_the_session_works_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    session = chain()

    def broken(self: Any, *arguments: Any) -> Any:
        raise ValueError("the card is out of order")

    with monkeypatch.context() as patch:
        patch.setattr(program.CardExecutable, "into_memory", broken)
        with pytest.raises(Exception, match=r"AcceleratorExecutionProvider.* failed: ValueError: the card is out of order"):
            session.run(None, {"x": X})
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)


def test_the_card_s_memory_is_limited() -> None:
    chosen = onnxruntime.SessionOptions()
    chosen.add_provider_for_devices(devices()[:1], {"mem_limit": "64"})
    with pytest.raises(Exception, match=r"npu:0"):
        onnxruntime.InferenceSession(model(CHAIN), chosen).run(None, {"x": np.ones((64, 4), np.float32)})


# The end of a process

EXIT = """
import sys, numpy as np, onnxruntime, ort_lite_ep
name = sys.argv[1]
onnxruntime.register_execution_provider_library(name, ort_lite_ep.get_library_path())
x = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(4, np.float32), "gpu", 0)
sys.modules["kept"] = x
"""


def test_a_process_ends_with_a_value_on_a_device() -> None:
    done = subprocess.run([sys.executable, "-c", EXIT, CARD], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
