"""Providers with device memory inside onnxruntime: values that stay on the device, copies, saved partitions, profiles.

The devices are the two cards of ort-lite-accelerator, and a vault whose handles are objects without an address.
"""

import gc
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import ort_lite_ep
import pytest
from onnx import TensorProto
from onnxruntime.capi import _pybind_state
from ort_lite_accelerator import memory, program, provider
from ort_lite_ep.profiling import Profiles

import ort_lite
from ort_lite.provider import CPU, Capability, Device, ExecutionProvider, GraphView, Partition, Rejection, run_options

CARD = "AcceleratorExecutionProvider"
DEFAULT = onnxruntime.OrtDeviceMemoryType.DEFAULT
X = np.array([[1, -1, 2, 0], [3, 0, -0.5, 1]], np.float32)
CHAIN = "(float[N, 4] x) => (float[N, 4] y) { a = Relu(x)  b = Add(a, x)  c = Abs(b)  d = Mul(c, b)  y = Relu(d) }"
"""Two partitions of a card around a node that the card does not run."""
EXPECTED = (2 * np.maximum(X, 0)) ** 2
BODIES = """(float[N, 4] x, bool c) => (float[N, 4] y) { a = Add(x, x)  b = If(c) <
    then_branch = then () => (float[N, 4] u) { u = Relu(a) }, else_branch = other () => (float[N, 4] v) { v = Add(a, x) }
>  y = Mul(b, a) }"""
RELEASE = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
VERSIONS = ("1.24.4", "1.27.0", "1.31.1")


FUNCTIONS: dict[str, Any] = {"Identity": np.array, "Add": np.add, "Neg": np.negative}


class Handle:
    """A value in the vault: nothing can be read from it."""

    def __init__(self, array: Any) -> None:
        self._array = np.array(array)
        self.shape = self._array.shape


class VaultTransfer:
    copies: ClassVar[Counter[str]] = Counter()

    def can_copy(self, source: Device, destination: Device) -> bool:
        return {source, destination} == {CPU, VaultExecutionProvider.device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        self.copies["in" if source == CPU else "out"] += 1
        return Handle(value) if source == CPU else value._array.copy()


class VaultExecutionProvider(ExecutionProvider):
    """Runs three operators on numbers in a vault."""

    name: ClassVar[str] = "VaultExecutionProvider"
    device = Device("vault", 0)
    seen: ClassVar[list[Any]] = []
    synced: ClassVar[list[str]] = []
    config_keys = ("vault.level",)

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for node in graph:
            known = node.op_type in FUNCTIONS
            yield Capability(node) if known else Rejection(node, "operator", f"{node.op_type} is not in the vault")

    def compile(self, partitions: Sequence[Partition]) -> list[Any]:
        return [lambda inputs, partition=partition: self.run(partition, inputs) for partition in partitions]

    def run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        values = {value: Handle(value.constant) for value in partition.constants}
        values |= dict(zip(partition.inputs, inputs, strict=True))
        self.seen.extend(type(x) for x in inputs)
        if (options := run_options()) is not None:
            self.synced.append(f"in run {options.logid} {options.config('vault.level', '')}")
        for node in partition.nodes:
            given = [values[value]._array for value in node.inputs if value is not None]
            values[node.output] = Handle(FUNCTIONS[node.op_type](*given))
        return [values[value] for value in partition.outputs]

    def data_transfer(self) -> VaultTransfer:
        return VaultTransfer()

    def on_session_initialization_end(self) -> None:
        self.synced.append("created")

    def on_run_start(self, options: Any) -> None:
        self.synced.append(f"run {options.logid} {options.config('vault.level', '')}")

    def sync(self) -> None:
        self.synced.append("sync")


@pytest.fixture(scope="module", autouse=True)
def register() -> Iterator[None]:
    """Register both providers for the tests of this file."""
    ort_lite.register_provider(VaultExecutionProvider.name, VaultExecutionProvider)
    for name in (CARD, VaultExecutionProvider.name):
        onnxruntime.register_execution_provider_library(name, ort_lite_ep.get_library_path())
    yield
    gc.collect()
    for name in (CARD, VaultExecutionProvider.name):
        onnxruntime.unregister_execution_provider_library(name)
    ort_lite.unregister_provider(VaultExecutionProvider.name)


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


def devices(name: str = CARD) -> list[Any]:
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]


def options(*chosen: Any, **entries: str) -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level, made.intra_op_num_threads = 3, 1
    for device in chosen or devices()[:1]:
        made.add_provider_for_devices([device], {})
    for key, value in entries.items():
        made.add_session_config_entry(f"ep.{key}", value)
    return made


def model(text: str, opset: int = 17) -> bytes:
    parsed = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> main {text}')
    return bytes(parsed.SerializeToString())


def chain(*chosen: Any) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model(CHAIN), options(*chosen))


def place(device: Any) -> tuple[str, int]:
    """Return how onnxruntime names the memory of a device."""
    return "gpu", device.memory_info(DEFAULT).device_id


def taken() -> list[str]:
    return [node.operator for node in ort_lite_ep.reports()[-1].nodes if node.partition]


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
    held = ort_lite_ep._library()._devices  # the values on devices, by address
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


# Hooks


def test_hooks_get_the_options_of_the_run() -> None:
    VaultExecutionProvider.synced.clear()
    text = "(float[N] x) => (float[N] y) { y = Neg(x) }"
    session = onnxruntime.InferenceSession(model(text), options(devices(VaultExecutionProvider.name)[0]))
    run = onnxruntime.RunOptions()
    run.logid = "first"
    run.add_run_config_entry("vault.level", "3")
    session.run(None, {"x": X[0]}, run)
    created = ["created"] if RELEASE >= (1, 27) else []
    assert VaultExecutionProvider.synced == [*created, "run first 3", "in run first 3", "sync"]
    assert run_options() is None


@pytest.mark.parametrize("profiled", [False, True])
def test_kernels_are_on_the_profile(profiled: bool, tmp_path: Path) -> None:
    chosen = options()
    chosen.enable_profiling, chosen.profile_file_prefix = profiled, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(model(CHAIN), chosen)
    session.run(None, {"x": X})
    if profiled:
        events = json.loads(Path(session.end_profiling()).read_text())
        kernels = [event for event in events if event.get("cat") == "Kernel"]
        assert [event["args"]["kernel"] for event in kernels] == (["Relu", "Add", "Mul", "Relu"] if RELEASE >= (1, 25) else [])
        nodes = [event for event in events if event.get("cat") == "Node"]
        first = next(event for event in nodes if event["name"].startswith(CARD))
        apart = 1000  # microseconds: onnxruntime has a clock of its own
        assert all(-apart <= event["ts"] - first["ts"] <= first["dur"] + apart for event in kernels[:2])
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)


class EventApi:
    """Notes the names of the events that would be added to a profile."""

    def __init__(self) -> None:
        self.names = list[str]()

    def call(self, function: str, *arguments: Any) -> None:
        if function == "CreateProfilingEvent":
            self.names.append(arguments[3].decode())

    def other(self, function: str, *arguments: Any) -> None:
        assert function == "ReleaseProfilingEvent"


def test_profiles_of_runs_overlap_with_that_of_their_session() -> None:
    profiles, apis = Profiles(VaultExecutionProvider()), [EventApi(), EventApi()]
    profiles.start(1, 0)
    profiles.record([("first", 0, 1, {}, "", 0)])
    profiles.start(2, 0)
    profiles.record([("second", 0, 1, {}, "", 0)])
    for profiler in (2, 1):
        assert profiles
        profiles.end(cast(Any, apis[profiler - 1]), profiler, 0)
    assert not profiles
    assert [api.names for api in apis] == [["first", "second"], ["second"]]


# Saved partitions


@pytest.fixture
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the partitions that the card's compiler compiles."""
    found = list[str]()
    original = program.compile_program

    def noted(partition: Partition) -> Any:
        found.append(partition.name)
        return original(partition)

    monkeypatch.setattr(provider, "compile_program", noted)
    return found


def saved(folder: Path, embed: bool) -> Path:
    """Save the chain with its compiled partitions and return the file."""
    source, target = folder / "chain.onnx", folder / f"compiled_{int(embed)}.onnx"
    source.write_bytes(model(CHAIN))
    entries = {"context_enable": "1", "context_embed_mode": str(int(embed)), "context_file_path": str(target)}
    session = onnxruntime.InferenceSession(source, options(**entries))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    return target


@pytest.mark.parametrize("embed", [False, True])
def test_a_saved_model_runs_without_compiling(embed: bool, tmp_path: Path, compiled_once: list[str]) -> None:
    path = saved(tmp_path, embed)
    assert len(compiled_once) == 2
    compiled_once.clear()
    nodes = onnx.load(path).graph.node
    assert [node.op_type for node in nodes] == ["EPContext", "Abs", "EPContext"]
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in nodes[0].attribute}
    assert attributes["source"] == CARD.encode() and attributes["embed_mode"] == int(embed)
    assert attributes["ep_sdk_version"] == b"npu-program 1.0"
    files = [file.name for file in tmp_path.glob("*.bin")]
    assert len(files) == (0 if embed else 2)
    assert (b"\0" in attributes["ep_cache_context"]) == embed, "the program itself, or the name of its file"
    session = onnxruntime.InferenceSession(path, options())
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    own = ort_lite.InferenceSession(path, providers=[CARD, "CPUExecutionProvider"])
    np.testing.assert_array_equal(own.run(None, {"x": X})[0], EXPECTED)
    assert not compiled_once


def test_the_model_compiler_saves_partitions(tmp_path: Path, compiled_once: list[str]) -> None:
    (tmp_path / "chain.onnx").write_bytes(model(CHAIN))
    compiler = onnxruntime.ModelCompiler(options(), tmp_path / "chain.onnx", embed_compiled_data_into_model=True)
    data = compiler.compile_to_bytes()
    compiled_once.clear()
    np.testing.assert_array_equal(onnxruntime.InferenceSession(data, options()).run(None, {"x": X})[0], EXPECTED)
    assert not compiled_once


def test_a_model_that_ort_lite_saved_runs_inside(tmp_path: Path, compiled_once: list[str]) -> None:
    own = ort_lite.InferenceSession(model(CHAIN), providers=[CARD, "CPUExecutionProvider"])
    own.save_compiled(tmp_path / "compiled.onnx")
    compiled_once.clear()
    session = onnxruntime.InferenceSession(tmp_path / "compiled.onnx", options(devices()[1]))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    assert not compiled_once


@pytest.mark.parametrize("attribute", ["ep_sdk_version", "ep_cache_context"])
def test_a_saved_partition_that_does_not_fit_is_refused(attribute: str, tmp_path: Path) -> None:
    proto = onnx.load(saved(tmp_path, embed=True))
    for found in proto.graph.node[0].attribute:
        if found.name == attribute:
            found.s = b"npu-program 9.0" if attribute == "ep_sdk_version" else found.s[:-40]
    with pytest.raises(Exception, match="compiled for 'npu-program 9.0'" if "sdk" in attribute else "deserialize"):
        onnxruntime.InferenceSession(proto.SerializeToString(), options())


def test_onnxruntime_asks_if_a_compiled_model_fits() -> None:
    ask, found = _pybind_state.get_model_compatibility_for_ep_devices, _pybind_state.OrtCompiledModelCompatibility
    assert ask(devices()[:1], "npu-program 1.0") == found.EP_SUPPORTED_OPTIMAL
    assert ask(devices()[:1], "npu-program 9.0") == found.EP_UNSUPPORTED


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, embed=False)
    first = next(iter(tmp_path.glob("*.bin")))
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(Exception, match="cut short, or of another model"):
        onnxruntime.InferenceSession(path, options())


def test_a_provider_that_saves_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "neg.onnx").write_bytes(model("(float[N] x) => (float[N] y) { y = Neg(x) }"))
    chosen = options(devices(VaultExecutionProvider.name)[0], context_enable="1")
    with pytest.raises(Exception, match="cannot be saved: VaultExecutionProvider has no serialize"):
        onnxruntime.InferenceSession(tmp_path / "neg.onnx", chosen)


def test_bodies_are_not_saved(tmp_path: Path) -> None:
    (tmp_path / "if.onnx").write_bytes(model(BODIES))
    onnxruntime.InferenceSession(tmp_path / "if.onnx", options(context_enable="1", context_embed_mode="1"))
    reasons = [node.reason for node in ort_lite_ep.reports()[-1].nodes if "compiled" in node.reason]
    assert len(reasons) == 2 and "onnxruntime saves no compiled nodes of bodies" in reasons[0]
    session = onnxruntime.InferenceSession(tmp_path / "if_ctx.onnx", options())
    np.testing.assert_array_equal(session.run(None, {"x": X, "c": np.array(False)})[0], (3 * X) * (2 * X))


# Other releases, and the end of a process

RUN = """
import sys, numpy as np, onnxruntime, ort_lite_ep
name, version, path, saved = sys.argv[1:]
assert onnxruntime.__version__ == version, onnxruntime.__version__
onnxruntime.register_execution_provider_library(name, ort_lite_ep.get_library_path())
options = onnxruntime.SessionOptions()
options.add_provider_for_devices([d for d in onnxruntime.get_ep_devices() if d.ep_name == name][:1], {})
if saved:
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", saved)
session = onnxruntime.InferenceSession(path, options)
print(session.run(None, {"x": np.float32([[1, -1, 2, 0], [3, 0, -0.5, 1]])})[0].tolist())
print(ort_lite_ep.reports()[-1])
"""


def run_in(version: str, path: Path, saved: str) -> str:
    """Run a model with another release, which may save it, and return what the provider said about its nodes."""
    folder = Path(sys.prefix) / f"onnxruntime-{version}"
    assert folder.is_dir(), f"{folder} is missing: pip install --no-deps --target it onnxruntime=={version}"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", RUN, CARD, version, str(path), saved]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    values, _, report = done.stdout.partition("\n")
    np.testing.assert_array_equal(np.float32(json.loads(values)), EXPECTED)
    return report


@pytest.mark.parametrize("version", VERSIONS)
def test_earlier_releases_load_what_this_one_saved(version: str, tmp_path: Path) -> None:
    path = saved(tmp_path, embed=False)
    proto = onnx.load(path)
    proto.ir_version = 9  # this release writes its own, which earlier ones refuse in any model
    onnx.save(proto, path)
    assert f"{CARD} runs 2 of 3 nodes" in run_in(version, path, "")


@pytest.mark.parametrize("version", VERSIONS)
def test_this_release_loads_what_earlier_ones_saved(version: str, tmp_path: Path, compiled_once: list[str]) -> None:
    (tmp_path / "chain.onnx").write_bytes(model(CHAIN))
    assert f"{CARD} runs 4 of 5 nodes" in run_in(version, tmp_path / "chain.onnx", str(tmp_path / "saved.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "saved.onnx", options())
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    assert not compiled_once


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
