"""The provider framework, row by row: what docs/specification.md promises of it. Rows 5.3, 5.6 and 5.7: tests/partition."""

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from ort_lite_sample import SampleExecutionProvider

import ort_lite
from ort_lite.errors import ProviderError
from ort_lite.graph import Graph, Node
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.plugins import Registry, plugins, selection
from ort_lite.provider import (
    API_VERSION,
    CPU,
    Capability,
    CompiledPartition,
    DataTransfer,
    Device,
    GraphView,
    Overhead,
    Partition,
    Rejection,
)
from ort_lite.session.composite import CompositeProvider
from ort_lite.transform import Done, Rewriter, Skip, graph_pass, op, rule
from ort_lite_cpu.operators import FAMILIES, STRING_FAMILIES
from tests.load.models import interpret
from tests.provider import numpy_provider
from tests.provider.numpy_provider import BoxTransfer, CpuStandIn, NumpyProvider, OtherDevice, evaluate
from tests.provider.texts import named, owners, plain, proto, session
from tests.session.test_session import NoHalf
from tests.threads import join, run_together

X = np.array([1, -2, 3], np.float32)
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"
RESULT = np.maximum(np.tanh(-np.abs(X)), 0)


# 5.1


def test_spec_5_1_an_installed_accelerator_is_used_by_every_session_once_the_program_enables_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from tests.provider.numpy_provider import NumpyProvider\n"
    for name, priority, operators in (("Slow", 1, "'Abs', 'Neg'"), ("Fast", 5, "'Abs', 'Tanh'"), ("Alike", 5, "'Tanh'")):
        source += f"class {name}(NumpyProvider):\n    name, priority = '{name}ExecutionProvider', {priority}\n"
        source += f"    def __init__(self): super().__init__(operators=[{operators}])\n"
    (tmp_path / "accelerators.py").write_text(source)
    (tmp_path / "accelerators-1.0.dist-info").mkdir()
    lines = "".join(f"{name}ExecutionProvider = accelerators:{name}\n" for name in ("Slow", "Fast", "Alike"))
    (tmp_path / "accelerators-1.0.dist-info" / "entry_points.txt").write_text(f"[ort_lite.providers]\n{lines}")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed = Registry(paths=[str(tmp_path)])
    for method in ("provider", "available_providers", "installed_providers"):
        monkeypatch.setattr(plugins, method, getattr(installed, method))
    assert ort_lite.InferenceSession(proto(CHAIN), plain()).get_providers() == ["CPUExecutionProvider"]
    monkeypatch.setattr(selection, "_PROCESS", selection._ProcessDefaults())
    ort_lite.set_default_providers("all")
    made = ort_lite.InferenceSession(proto(CHAIN), plain())
    assert made.get_providers() == [
        "AlikeExecutionProvider",
        "FastExecutionProvider",
        "SlowExecutionProvider",
        "CPUExecutionProvider",
    ]
    assert owners(made) == "Fast Slow Alike CPU"
    np.testing.assert_allclose(made.run(None, {"x": X})[0], RESULT, rtol=1e-6)


# 5.2


@pytest.mark.parametrize(
    ("claims", "partitions"),
    [([["a"], ["c"]], 2), ([["a", "b"]], 1), ([["a", "b", "c", "y"]], 1)],
    ids=["single nodes", "a fused pair", "the whole graph"],
)
def test_spec_5_2_a_provider_claims_single_or_fused_nodes_and_brings_its_allocator(claims: Any, partitions: int) -> None:
    class Claiming(NumpyProvider):
        def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
            nodes = {node.output.name: node for node in graph}
            yield from (Capability([nodes[name] for name in unit]) for unit in claims)

    made = session(CHAIN, Claiming(), CpuStandIn())
    found = made.explain().assignment
    mine = [p for p in found.partitions if p.provider.name == "NumpyExecutionProvider"]
    assert len(mine) == partitions
    assert [node.output.name for p in mine for node in p.nodes] == [name for unit in claims for name in unit]
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], RESULT)
    allocator = SampleExecutionProvider().allocator()
    handle = allocator.allocate(100)
    assert (allocator.device, allocator.bytes_in_use, handle.nbytes) == (Device("sample"), 100, 100)


# 5.4


@rule(op("Neg", op("Neg", name="inner"), name="outer"), level="basic")
def drop_double_negation(rewriter: Rewriter, inner: Node, outer: Node) -> Done | Skip:
    """The local kind."""
    value = inner.inputs[0]
    assert value is not None
    return rewriter.replace(outer, value)


@graph_pass(level="basic")
def abs_of_abs(graph: Graph, rewriter: Rewriter) -> int:
    """The global kind: Abs of Abs is Abs, wherever it is."""
    count = 0
    for node in list(graph):
        value = node.inputs[0] if node.op_type == "Abs" else None
        if value is not None and value.producer is not None and value.producer.op_type == "Abs":
            rewriter.replace(node, value)
            count += 1
    return count


def test_spec_5_4_third_parties_add_local_rules_and_global_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plugin:
        @staticmethod
        def ort_lite_transforms() -> list[Any]:
            return [drop_double_negation, abs_of_abs]

    registry = Registry(paths=[])
    registry.register_plugin(Plugin)
    monkeypatch.setattr(plugins, "transforms", registry.transforms)
    text = (
        "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Neg(b)  d = Abs(c)  e = Neg(d)  f = Neg(e)  y = Tanh(f) }"
    )
    made = ort_lite.InferenceSession(proto(text), providers=[CpuStandIn()])
    operators = [place.node.op_type for place in made.explain().assignment.placements.values()]
    assert operators == ["Abs", "Tanh"], "to the fixed point: dropping negations brings two Abs together"
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.standard_normal(3).astype(np.float32)
        np.testing.assert_allclose(made.run(None, {"x": x})[0], interpret(proto(text), x)[0], rtol=1e-6)


# 5.5


def test_spec_5_5_stages_come_in_order_and_casts_where_a_provider_lacks_float16(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.setattr(numpy_provider, "FUNCTIONS", {**numpy_provider.FUNCTIONS, "Cast": np.array})
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
    made = ort_lite.InferenceSession(proto("(float16[3] x) => (float16[3] y) { y = Abs(x) }"), options, providers=[NoHalf()])
    np.testing.assert_array_equal(made.run(None, {"x": X.astype(np.float16)})[0], np.abs(X))
    events = sorted(
        json.loads(Path(made.end_profiling()).read_text()), key=lambda event: (event["ts"] + event["dur"], -event["ts"])
    )
    names = dict.fromkeys(event["name"] for event in events if event["cat"] == "Session")  # nodes are assigned twice
    assert [*names] == ["model_loading_array", "transform", "partition", "compile", "session_initialization", "model_run"]
    assert [place.node.op_type for place in made.explain().assignment.placements.values()] == ["Cast", "Abs", "Cast"]


# 5.8


def test_spec_5_8_the_default_provider_comes_last_and_completes_every_model() -> None:
    made = ort_lite.InferenceSession(proto(CHAIN), providers=[])
    assert made.get_providers() == ["CPUExecutionProvider"]
    np.testing.assert_allclose(made.run(None, {"x": X})[0], RESULT, rtol=1e-6)
    partly = session(CHAIN, NumpyProvider(named("b")))
    assert owners(partly) == "CPU Numpy CPU CPU"
    newest = {schema.name: schema for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    current = {name for name, schema in newest.items() if not schema.deprecated}
    assert {name for name in current if not {("", name)} & {*FAMILIES, *STRING_FAMILIES}} == set(), "operators without a kernel"


# 5.9


def test_spec_5_9_each_partition_is_one_fused_operator_with_its_boundary() -> None:
    numpy, cpu = NumpyProvider(named("a", "b")), CpuStandIn()
    text = "(float[3] x) => (float[3] y, float[3] z) { a = Add(x, x)  b = Mul(a, x)  c = Sub(b, a)  y = Abs(c)  z = Neg(b) }"
    made = session(text, numpy, cpu)
    fused, rest = made.explain().assignment.partitions
    assert [p.name for call in (*numpy.compiled, *cpu.compiled) for p in call] == [fused.name, rest.name]
    assert [v.name for v in fused.inputs] == ["x"]
    assert [v.name for v in fused.outputs] == ["a", "b"]
    assert [v.name for v in rest.inputs] == ["b", "a"], "as the nodes name them"
    assert [v.name for v in rest.outputs] == ["y", "z"]
    assert len(made._stage_results.compiled.executable.steps) == 2


# 5.10


def test_spec_5_10_a_run_returns_when_everything_is_done() -> None:
    class Late(CpuStandIn):
        """Fills its outputs behind the caller's back, until it is told to `sync`."""

        def __init__(self) -> None:
            super().__init__()
            self.pending: list[threading.Thread] = []

        def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
            return [partial(self._begin, p) for p in partitions]

        def _begin(self, part: Partition, inputs: Sequence[Any]) -> list[Any]:
            outputs = [np.full_like(inputs[0], np.nan) for _ in part.outputs]
            self.pending.append(threading.Thread(target=self._fill, args=(part, list(inputs), outputs)))
            self.pending[-1].start()
            return outputs

        @staticmethod
        def _fill(part: Partition, inputs: list[Any], outputs: list[Any]) -> None:
            for output, result in zip(outputs, evaluate(part, inputs), strict=True):
                output[...] = result

        def sync(self) -> None:
            while self.pending:
                join(self.pending.pop())

    provider = Late()
    result = session(CHAIN, provider).run(None, {"x": X})
    assert type(result) is list
    assert type(result[0]) is np.ndarray
    np.testing.assert_array_equal(result[0], RESULT)
    assert provider.pending == []


# 5.11


def test_spec_5_11_inputs_of_a_provider_are_in_its_memory_and_crossings_are_the_fewest() -> None:
    sample = SampleExecutionProvider(minimum=1)
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Add(b, x)  d = Softmax(c)  y = Add(d, a) }"
    made = session(text, sample)
    copies = [str(copy) for copy in made.explain().assignment.levels[0].copies]
    assert copies == [
        "copy 'x' cpu:0 -> sample:0 for SampleExecutionProvider_0",
        "copy 'c' sample:0 -> cpu:0 for CPUExecutionProvider_0",
        "copy 'd' cpu:0 -> sample:0 for SampleExecutionProvider_1",
        "copy 'y' sample:0 -> cpu:0 for output",
    ]  # 'a' stays where it is: both of its readers are there
    assert made.run(None, {"x": X})[0].shape == (3,)
    assert (sample.transfer.bytes_in, sample.transfer.bytes_out) == (24, 24)
    assert sample.memory.peak > 0
    assert sample.memory.bytes_in_use == 0, "all that was allocated in a run is free after it"


# 5.12


def test_spec_5_12_a_composite_provider_shares_nodes_out_among_its_children_by_cost() -> None:
    one, two = NumpyProvider(), NumpyProvider(operators=("Neg", "Tanh"))
    seconds = {
        one.name: {"Abs_0": 1.0, "Neg_0": 3.0, "Tanh_0": 2.0, "Relu_0": 1.0},
        f"{one.name}#2": {"Neg_0": 1.0, "Tanh_0": 1.0},
    }
    costs = CostStrategy(CostModel(seconds, {one.name: Overhead(launch=0.1)}))
    made = session(CHAIN, CompositeProvider([one, two], costs), CpuStandIn())
    assert owners(made) == "Composite Composite Composite Composite"
    assert [node.op_type for p in two.compiled[0] for node in p.nodes] == ["Neg", "Tanh"]
    assert [node.op_type for p in one.compiled[0] for node in p.nodes] == ["Abs", "Relu"]
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], RESULT)


# 5.13


def test_spec_5_13_many_threads_run_one_session_with_shapes_of_their_own() -> None:
    text = "(float[N,4] x) => (float[N,4] y) <float[4,4] w = {1,2,3,4,4,3,2,1,0,1,0,1,2,2,2,2}> { a = MatMul(x, w)  y = Softmax(a) }"
    made = ort_lite.InferenceSession(proto(text), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    cases = [rng.standard_normal((n, 4)).astype(np.float32) for n in rng.integers(1, 40, 12)]
    expected = [made.run(None, {"x": x})[0] for x in cases]
    wrong: list[int] = []

    def work(seed: int) -> None:
        order = np.random.default_rng(seed).integers(0, len(cases), 60)
        wrong.extend(int(k) for k in order if not np.array_equal(made.run(None, {"x": cases[k]})[0], expected[k]))

    run_together(work, 8)
    assert wrong == []


# 5.14


def test_spec_5_14_compiled_partitions_are_stateless() -> None:
    class Frozen:
        """Nothing can be set on it once it is made."""

        part: Partition

        def __init__(self, part: Partition) -> None:
            object.__setattr__(self, "part", part)

        def __setattr__(self, name: str, value: Any) -> None:
            raise AttributeError(f"{name} of a compiled partition is set in a run")

        def __call__(self, inputs: Sequence[Any]) -> list[Any]:
            return evaluate(self.part, inputs)

    class Freezing(CpuStandIn):
        def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
            return [Frozen(p) for p in partitions]

    made = session(CHAIN, Freezing())
    for k in (1, 2, 1):
        np.testing.assert_array_equal(made.run(None, {"x": k * X})[0], np.maximum(np.tanh(-np.abs(k * X)), 0))
    frozen: Any = made._stage_results.compiled.partitions["CPUExecutionProvider_0"]
    with pytest.raises(AttributeError, match="last of a compiled partition is set in a run"):
        frozen.last = 1


# 5.15


class Blocked:
    """(N, 8) floats as two planes of (N, 4): a layout that nobody else understands."""

    def __init__(self, array: Any) -> None:
        self.planes = [np.ascontiguousarray(array[:, k : k + 4]) for k in (0, 4)]

    def plain(self) -> Any:
        return np.concatenate(self.planes, axis=1)


class BlockedTransfer(BoxTransfer):
    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        return Blocked(value) if source == CPU else value.plain()


class BlockedProvider(NumpyProvider):
    name, device = "BlockedExecutionProvider", Device("blocked")

    def data_transfer(self) -> DataTransfer:
        return BlockedTransfer(self.device)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [partial(self._planes, p) for p in partitions]

    @staticmethod
    def _planes(part: Partition, inputs: Sequence[Blocked]) -> list[Any]:
        halves = [evaluate(part, [x.planes[k] for x in inputs]) for k in (0, 1)]
        return [Blocked(np.concatenate(pair, axis=1)) for pair in zip(*halves, strict=True)]


def test_spec_5_15_a_provider_with_a_layout_of_its_own_converts_at_its_border() -> None:
    text = "(float[N,8] x) => (float[N,8] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"
    made = session(text, BlockedProvider(named("b", "c")), CpuStandIn())
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    result = made.run(None, {"x": x})[0]
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, np.maximum(np.tanh(-np.abs(x)), 0))


# 5.16


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.7", "was written for provider API 1.7; this ort-lite has 1.1: update ort-lite"),
        ("0.9", "was written for provider API 0.9; this ort-lite has 1.1: install a newer release of the provider"),
        ("one", "api_version is 'one'; expected one such as '1.1'"),
        (API_VERSION, ""),
    ],
)
def test_spec_5_16_a_provider_for_another_api_version_is_refused_with_what_to_do(version: str, message: str) -> None:
    class Versioned(NumpyProvider):
        api_version = version

    for entry in (Versioned, Versioned()):
        if message:
            with pytest.raises(ProviderError, match=message):
                session(CHAIN, entry, CpuStandIn())
        else:
            assert owners(session(CHAIN, entry, CpuStandIn())) == "Numpy Numpy Numpy Numpy"


# Beside the rows


def test_two_instances_of_one_provider_in_one_session() -> None:
    class Card(OtherDevice):
        name = "CardExecutionProvider"

        def __init__(self, device_id: int) -> None:
            super().__init__(named("a", "b") if device_id == 0 else named("c"))
            self.device = Device("card", device_id)
            self.device_id = device_id

        def get_options(self) -> dict[str, Any]:
            return {"device_id": self.device_id}

    made = session(CHAIN, (Card, {"device_id": 0}), (Card, {"device_id": 1}), CpuStandIn())
    assert owners(made) == "Card Card CardExecutionProvider#2 CPU"
    assert [str(copy) for copy in made.explain().assignment.levels[0].copies] == [
        "copy 'x' cpu:0 -> card:0 for CardExecutionProvider_0",
        "copy 'b' card:0 -> cpu:0 -> card:1 for CardExecutionProvider#2_0",
        "copy 'c' card:1 -> cpu:0 for CPUExecutionProvider_0",
    ]
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], RESULT)


def test_a_direct_way_between_two_devices_is_taken() -> None:
    moves: list[str] = []

    class Linked(BoxTransfer):
        def can_copy(self, source: Device, destination: Device) -> bool:
            return super().can_copy(source, destination) or (source.kind, destination.kind) == ("box", "crate")

        def copy(self, value: Any, source: Device, destination: Device) -> Any:
            moves.append(f"{source} -> {destination}")
            if destination.kind == "crate":
                return numpy_provider.Box(destination, value.open(source).copy())
            return super().copy(value, source, destination)

    class Sender(OtherDevice):
        def data_transfer(self) -> DataTransfer:
            return Linked(self.device)

    class Receiver(OtherDevice):
        name, device = "CrateExecutionProvider", Device("crate")

    made = session(CHAIN, Sender(named("a", "b")), Receiver(named("c", "y")), CpuStandIn())
    assert "copy 'b' box:0 -> crate:0 for CrateExecutionProvider_0" in str(made.explain())
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], RESULT)
    assert moves == ["cpu:0 -> box:0", "box:0 -> crate:0"]


def test_the_minimal_provider_takes_at_most_25_lines() -> None:
    from tests.provider import minimal_provider

    source = Path(minimal_provider.__file__).read_text(encoding="utf-8")
    lines = [line for line in source.splitlines()[1:] if line.strip()]
    assert len(lines) <= 25
    made = session(CHAIN, minimal_provider.MinimalExecutionProvider, CpuStandIn())
    assert owners(made) == "Minimal Minimal Minimal CPU"
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], RESULT)
