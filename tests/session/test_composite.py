"""A composite provider: one to the session, several children inside."""

from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.compile.compile import compile_assignment
from ort_lite.errors import ProviderError
from ort_lite.graph import Node
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.partition.partition import partition
from ort_lite.plugins import shape_rules
from ort_lite.provider import CPU, Capability, Overhead, ProfileEvent
from ort_lite.session.composite import CompositeProvider
from tests.partition.random_graphs import feeds, random_graph
from tests.partition.test_random_partitions import check_level, cpu, providers_for, size_of
from tests.provider import texts
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice, reference

CHAIN = "(float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  d = Relu(a)  y = Add(c, d) }"
BRANCHES = """(float[3] x, bool c) => (float[3] y) { a = Neg(x)  y = If (c) <
    then_branch = t () => (float[3] u) { u = Abs(a) }, else_branch = e () => (float[3] v) { w = Neg(a)  v = Tanh(w) }> }"""
X = np.array([[0.5, -1.5, 2]], np.float32)
BOX, PART = "BoxExecutionProvider", "NumpyExecutionProvider"


def session(text: str, *providers: Any) -> ort_lite.InferenceSession:
    return texts.session(text, *providers, CpuStandIn())


def operators(*names: str) -> Any:
    return lambda node: node.op_type in names


def inside(made: ort_lite.InferenceSession, name: str = "CompositeExecutionProvider_0") -> list[str]:
    compiled: Any = made._stage_results.compiled.partitions[name]
    return [place.provider for _, place in compiled.assignment.rows()]


def result(x: Any) -> Any:
    return np.tanh(-np.abs(x)) + np.maximum(np.abs(x), 0)


def test_two_children_make_one_partition() -> None:
    box, rest = OtherDevice(operators("Neg", "Tanh")), NumpyProvider(operators("Abs", "Relu", "Add"))
    made = session(CHAIN, CompositeProvider([box, rest]))
    (part,) = made.explain().assignment.partitions
    assert (part.name, len(part.nodes), part.provider.device) == ("CompositeExecutionProvider_0", 5, CPU)
    assert inside(made) == [PART, BOX, BOX, PART, PART]
    np.testing.assert_allclose(made.run(None, {"x": X})[0], result(X))
    assert made.explain().facts["CompositeExecutionProvider_0"]["partitions"] == 3


def test_children_share_by_cost() -> None:
    seconds = {"Abs": (9, 1), "Neg": (1, 5), "Tanh": (1, 5), "Relu": (9, 1), "Add": (1, 1.5)}
    names = {operator: f"{operator}_0" for operator in seconds}
    nodes: dict[str, dict[str, float]] = {
        BOX: {names[operator]: pair[0] for operator, pair in seconds.items()},
        PART: {names[operator]: pair[1] for operator, pair in seconds.items()},
    }
    model = CostModel(nodes, {BOX: Overhead(0.1, 0.2), PART: Overhead(0.1)})
    made = session(CHAIN, CompositeProvider([OtherDevice(), NumpyProvider()], CostStrategy(model)))
    assert inside(made) == [PART, BOX, BOX, PART, BOX]
    dear = model.replace(overheads={BOX: Overhead(9, 9), PART: Overhead(0.1)})
    assert inside(session(CHAIN, CompositeProvider([OtherDevice(), NumpyProvider()], CostStrategy(dear)))) == [PART] * 5
    greedy = session(CHAIN, CompositeProvider([OtherDevice(), NumpyProvider()]))
    assert inside(greedy) == [BOX] * 5
    for one in (made, greedy):
        np.testing.assert_allclose(one.run(None, {"x": X})[0], result(X))


def test_it_is_named_with_options_and_by_words() -> None:
    options = {"children": [(NumpyProvider, {}), OtherDevice()], "strategy": "cost"}
    made = session(CHAIN, (CompositeProvider, options))
    assert made.get_provider_options()["CompositeExecutionProvider"] == {"children": [PART, BOX]}
    np.testing.assert_allclose(made.run(None, {"x": X})[0], result(X))
    with pytest.raises(ProviderError, match="needs children"):
        CompositeProvider([])
    with pytest.raises(ProviderError, match="knows no option speed"):
        CompositeProvider([NumpyProvider()], speed=1)


def test_what_no_child_takes_goes_on_with_every_childs_reason() -> None:
    made = session(CHAIN, CompositeProvider([OtherDevice(operators("Neg")), NumpyProvider(operators("Add"))]))
    reason = made.explain().verdicts()["Tanh_0"]["CompositeExecutionProvider"]
    assert reason.code == "choice"
    assert reason.detail == f"{BOX} declined choice: not wanted; {PART} declined choice: not wanted"
    assert made.explain().assignment.partitions[-1].provider.name == "CompositeExecutionProvider"
    np.testing.assert_allclose(made.run(None, {"x": X})[0], result(X))


@pytest.mark.parametrize("flag", [True, False])
def test_control_flow_is_taken_whole_where_children_take_all_of_it(flag: bool) -> None:
    feed = {"x": X[0], "c": np.array(flag)}
    expected = np.abs(X[0]) if flag else np.tanh(X[0])
    children = [OtherDevice(operators("Tanh", "Abs")), NumpyProvider(operators("Neg", "If"))]
    made = session(BRANCHES, CompositeProvider(children))
    assert len(made.explain().assignment.partitions) == 1
    np.testing.assert_allclose(made.run(None, feed)[0], expected)
    part = session(BRANCHES, CompositeProvider([OtherDevice(operators("Tanh")), NumpyProvider(operators("Neg", "If"))]))
    reason = part.explain().verdicts()["If_0"]["CompositeExecutionProvider"]
    assert (reason.code, reason.detail) == ("body", "no child takes all that is inside")
    np.testing.assert_allclose(part.run(None, feed)[0], expected)


def test_a_verified_run_names_the_bad_node_of_a_child() -> None:
    def wrong(node: Node) -> bool:
        return node.op_type == "Tanh"

    class Off(NumpyProvider):
        name = "OffExecutionProvider"

        def compile(self, partitions: Any) -> Any:
            return [lambda inputs: [np.sin(x) for x in inputs] for _ in partitions]

    made = session(CHAIN, CompositeProvider([Off(wrong), NumpyProvider()]))
    with pytest.raises(ort_lite.errors.VerificationError) as caught:
        made.run(None, {"x": X}, verify="partition")
    assert caught.value.node == "Tanh_0"


class Stateful(NumpyProvider):
    """Counts the states that live."""

    name = "StatefulExecutionProvider"
    alive = 0

    def compile(self, partitions: Any) -> Any:
        return [_Counted(self, function) for function in super().compile(partitions)]


class _Counted:
    def __init__(self, provider: Stateful, function: Any) -> None:
        self.provider, self.function = provider, function

    def create_state(self) -> str:
        self.provider.alive += 1
        return "state"

    def release_state(self, state: str) -> None:
        self.provider.alive -= 1

    def __call__(self, inputs: Any, state: str) -> Any:
        assert state == "state"
        return self.function(inputs)


def test_states_of_children_live_as_long_as_the_session() -> None:
    child = Stateful(operators("Tanh"))
    with session(CHAIN, CompositeProvider([child, NumpyProvider()])) as made:
        np.testing.assert_allclose(made.run(None, {"x": X})[0], result(X))
        assert child.alive == 1
    assert child.alive == 0


def test_hooks_reach_the_children() -> None:
    told: list[str] = []

    class Told(NumpyProvider):
        def on_session_initialization_end(self) -> None:
            told.append("made")

        def on_run_start(self, options: Any) -> None:
            told.append("start")

        def on_run_end(self, options: Any) -> None:
            told.append("end")

        def sync(self) -> None:
            told.append("sync")

        def set_dynamic_options(self, options: Any) -> None:
            told.append(str(options))

        def start_profiling(self) -> None:
            told.append("profile")

        def end_profiling(self) -> Any:
            return [ProfileEvent("kernel", 1, 2)]

    composite = CompositeProvider([Told(), NumpyProvider()])
    made = session(CHAIN, composite)
    made.run(None, {"x": X})
    made.set_ep_dynamic_options({"a": "b"})
    composite.start_profiling()
    assert told == ["made", "start", "sync", "end", "{'a': 'b'}", "profile"]
    assert [event.name for event in composite.end_profiling()] == ["kernel"]


def test_a_partition_that_no_child_compiles_goes_to_the_next_provider() -> None:
    class Fails(NumpyProvider):
        def compile(self, partitions: Any) -> Any:
            raise ValueError("no")

    made = session(CHAIN, CompositeProvider([Fails()]))
    assert {place.provider for place in made.explain().assignment.placements.values()} == {"CPUExecutionProvider"}
    np.testing.assert_allclose(made.run(None, {"x": X})[0], result(X))


def test_pairs_of_a_child_stay_together() -> None:
    pair = NumpyProvider(
        operators("Neg", "Tanh"),
        group=lambda node: Capability([node, *(r for r in node.output.readers if r.op_type == "Tanh")]),
    )
    made = session(CHAIN, CompositeProvider([pair]))
    assert [len(p.nodes) for p in made.explain().assignment.partitions if p.provider.name == CompositeProvider.name] == [2]


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(3))
def test_random_graphs_through_a_composite(batch: int) -> None:
    for seed in range(batch * 20, (batch + 1) * 20):
        graph = random_graph(seed, size_of(seed + 1), depth=2, dtype="int32")
        children = providers_for(seed, graph, fusion=False)[:-1]
        found = partition(graph, [CompositeProvider(children, "cost" if seed % 2 else "greedy"), cpu(False)], shape_rules())
        for level in found.levels:
            check_level(level)
        expected = reference(graph, feeds(seed, "int32"))
        for got, want in zip(compile_assignment(found).executable.run(feeds(seed, "int32")), expected, strict=True):
            np.testing.assert_array_equal(got, want)
