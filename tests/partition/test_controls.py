"""Options of partitioning: what each takes from a provider, why, what it cost; quantized units whole with all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument
from ort_lite.graph import Model, Node
from ort_lite.partition.controls import pieces
from ort_lite.partition.cost import CostModel
from ort_lite.provider import Capability, Device
from ort_lite.session.explanation import ControlCost, Explanation
from tests.partition.random_graphs import feeds, random_graph
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice, reference
from tests.provider.texts import named, plain, proto

X = np.array([1, -2, 3], np.float32)
MINE = "NumpyExecutionProvider"
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  d = Neg(c)  e = Abs(d)  y = Relu(e) }"


def plan(text: str, provider: Any, cpu: Any = None, config: Any = None, **given: Any) -> Explanation:
    options = plain()
    for key, value in (config or {}).items():
        options.add_session_config_entry(key, value)
    providers = [provider, cpu or CpuStandIn()]
    return ort_lite.plan(proto(text), providers, options, provider_options=[given, {}])


def taken(found: Explanation, label: str = MINE) -> list[str]:
    return [p.node.output.name for p in found.assignment.placements.values() if p.provider == label]


def parts(found: Explanation, label: str = MINE) -> list[list[str]]:
    own = [p for p in found.assignment.partitions if found.assignment.label(p) == label]
    return [[node.output.name for node in p.nodes] for p in own]


def why(found: Explanation, output: str, label: str = MINE) -> tuple[str, str]:
    (place,) = [p for p in found.assignment.placements.values() if p.node.output.name == output]
    (reason,) = [r for r in place.reasons if r.provider == label]
    assert reason.verdict == "lost"
    return reason.code, reason.detail


# Sizes and numbers


def test_partitions_that_are_too_small_go_to_the_next_provider() -> None:
    found = plan(CHAIN, NumpyProvider(named("a", "b", "d")), min_subgraph_size=2)
    assert parts(found) == [["a", "b"]]
    assert why(found, "d") == ("small", "group too small: 1 node, min_subgraph_size is 2")


def test_what_a_capability_asks_for_holds_too() -> None:
    mine = NumpyProvider(named("a", "b", "d"), group=lambda node: Capability([node], minimum=2))
    found = plan(CHAIN, mine, min_subgraph_size=1)
    assert parts(found) == [["a", "b"]]
    assert why(found, "d") == ("size", "group too small: 1 node, takes 2 or more")


def test_large_partitions_become_several() -> None:
    found = plan(CHAIN, NumpyProvider(), max_subgraph_size=4)
    assert parts(found) == [["a", "b", "c", "d"], ["e", "y"]]
    assert found.assignment.remarks == (f"{MINE}: 6 nodes that could be one partition are 2: max_subgraph_size is 4",)
    assert len(plan(CHAIN, NumpyProvider(), max_subgraph_size=6).assignment.partitions) == 1


def test_a_unit_that_is_too_large_is_lost() -> None:
    class Pairs(NumpyProvider):
        def get_capability(self, graph: Any) -> Any:
            a, b, *others = graph
            return [Capability([a, b]), *(Capability([node]) for node in others)]

    found = plan(CHAIN, Pairs(), max_subgraph_size=1)
    assert parts(found) == [["c"], ["d"], ["e"], ["y"]]
    assert why(found, "a") == why(found, "b") == ("large", "2 nodes stay together, max_subgraph_size is 1")


def test_the_largest_partitions_are_kept() -> None:
    found = plan(CHAIN, NumpyProvider(named("a", "c", "d", "y")), max_partitions=2)
    assert parts(found) == [["a"], ["c", "d"]]
    assert why(found, "y") == ("many", "3 partitions, max_partitions is 2: larger ones come first")


def test_a_graph_and_a_body_count_for_themselves() -> None:
    text = """(float[3] x, bool f) => (float[3] y) {
        a = Abs(x)
        b = If (f) <then_branch = p () => (float[3] t) { t = Neg(a) }, else_branch = n () => (float[3] e) { e = Relu(a) }>
        y = Tanh(b)
    }"""
    assert taken(plan(text, NumpyProvider(named("a", "t", "e")), max_partitions=1)) == ["a", "t", "e"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_keep_to_the_limits_and_compute_the_same(seed: int) -> None:
    limits = {"min_subgraph_size": seed % 3, "max_subgraph_size": 3 + seed % 4, "max_partitions": 1 + seed % 5}
    chosen = {node.name for k, node in enumerate(random_graph(seed, 40).all_nodes()) if (k * 7 + seed) % 3}
    providers = [OtherDevice(lambda node: node.name in chosen and node.op_type != "If"), CpuStandIn()]
    model, inputs = Model(random_graph(seed, 40), {"": 17}), feeds(seed)
    made = ort_lite.InferenceSession(model, plain(), providers=providers, provider_options=[limits, {}])
    for level in made.explain().assignment.levels:
        own = [p for p in level.partitions if p.provider is providers[0]]
        assert len(own) <= limits["max_partitions"]
        assert all(limits["min_subgraph_size"] <= len(p.nodes) <= limits["max_subgraph_size"] for p in own)
    results = made.run(None, dict(zip(("x0", "x1", "flag"), inputs, strict=True)))
    for mine, right in zip(results, reference(random_graph(seed, 40), inputs), strict=True):
        np.testing.assert_array_equal(mine, right)


def test_pieces_keep_together_what_belongs_together() -> None:
    after = {0: {2}, 1: {3}, 2: {4}, 3: {4}, 4: set()}
    sizes = dict.fromkeys(after, 1)
    assert pieces(after, sizes, [], 2) == ([[0, 1], [2, 3], [4]], [])
    cut, large = pieces(after, sizes, [[0, 2]], 2)
    assert large == []
    assert [0, 2] in cut
    assert sorted(unit for part in cut for unit in part) == [0, 1, 2, 3, 4]
    assert pieces(after, sizes, [[0, 2, 4]], 2)[1] == [0, 2, 4]


# Stops


def test_nodes_behind_a_stop_go_to_the_next_provider() -> None:
    text = "(float[3] x) => (float[3] y, float[3] z) { a = Abs(x)  t = Tanh(a)  b = Neg(t)  y = Relu(b)  z = Neg(a) }"
    found = plan(text, NumpyProvider(), partitioning_stop_ops="Tanh")
    assert taken(found) == ["a", "z"]
    assert why(found, "t") == ("stop", "its partitions stop at Tanh 'Tanh_0'")
    assert why(found, "y") == ("stop", "its partitions stop before, at Tanh 'Tanh_0'")


def test_a_stop_in_a_body_stops_what_reads_its_results() -> None:
    text = """(float[3] x, bool f) => (float[3] y) {
        a = Abs(x)
        b = If (f) <then_branch = p () => (float[3] t) { n = Neg(a) t = Tanh(n) }, else_branch = q () => (float[3] e) { e = Relu(a) }>
        y = Neg(b)
    }"""
    found = plan(text, NumpyProvider(), partitioning_stop_ops=["Tanh"])
    assert taken(found) == ["a", "n", "e"]
    assert why(found, "b") == ("stop", "its partitions stop inside, at Tanh 'Tanh_0'")


def test_bodies_behind_a_stop_are_behind_it() -> None:
    text = """(float[3] x, bool f) => (float[3] y) {
        a = Tanh(x)
        y = If (f) <then_branch = p () => (float[3] t) { t = Neg(a) }, else_branch = q () => (float[3] e) { e = Relu(x) }>
    }"""
    assert taken(plan(text, NumpyProvider(), partitioning_stop_ops="Tanh")) == []


def test_what_nobody_else_takes_stays() -> None:
    found = plan(CHAIN, NumpyProvider(), CpuStandIn(named("c", "d", "e")), partitioning_stop_ops="Tanh")
    assert taken(found) == ["a", "b", "y"]
    note = f"partitioning_stop_ops of {MINE} gave way for Relu 'Relu_0': nobody else takes it"
    assert found.assignment.remarks == (note,)


# Shapes


SHAPES = """(float[N, 4] x, int64[1] two) => (float[A, B] y)
<int64[1] zero = {0}, int64[1] minus = {-1}> {
    h = Abs(x)
    s = Shape(h)
    n = Gather(s, zero)
    m = Mul(n, two)
    t = Concat<axis = 0>(m, minus)
    r = Reshape(h, t)
    y = Neg(r)
}"""


class Wide(OtherDevice):
    """Claims whatever it is shown."""

    def __init__(self) -> None:
        super().__init__(operators=("Abs", "Shape", "Gather", "Mul", "Concat", "Reshape", "Neg", "Add", "ConstantOfShape"))


class WideCpu(CpuStandIn):
    def __init__(self) -> None:
        super().__init__(operators=("Abs", "Shape", "Gather", "Mul", "Concat", "Reshape", "Neg", "Add", "ConstantOfShape"))


def test_what_computes_shapes_goes_to_the_cpu() -> None:
    found = plan(SHAPES, Wide(), WideCpu(), cpu_preferred_nodes=True)
    assert taken(found, "BoxExecutionProvider") == ["h", "s", "r", "y"]
    why_n = "it computes a shape, from Shape 'Shape_0': the CPU does that"
    assert why(found, "n", "BoxExecutionProvider") == ("cpu", why_n)
    assert len(taken(plan(SHAPES, Wide(), WideCpu()), "BoxExecutionProvider")) == 7, "who does not ask for it has it as it was"


def test_the_shape_of_an_input_is_computed_where_the_input_is() -> None:
    found = plan(SHAPES.replace("Shape(h)", "Shape(x)"), Wide(), WideCpu(), cpu_preferred_nodes=True)
    assert taken(found, "BoxExecutionProvider") == ["h", "r", "y"]


def test_what_reads_large_things_or_makes_tensors_of_shapes_stays() -> None:
    text = """(float[N, 4] x) => (float[A, B] y, int64[4] z) <int64[1] one = {1}> {
        h = Abs(x)  s = Shape(h)  t = Add(s, one)  y = ConstantOfShape(t)  i = Shape(y)  z = Concat<axis = 0>(i, s)
    }"""
    found = plan(text, Wide(), WideCpu(), cpu_preferred_nodes=True)
    assert taken(found, "BoxExecutionProvider") == ["h", "s", "y", "i"]


# Quantized units


QDQ = """(float[3] x) => (float[3] y)
<float s = {0.5}, uint8 z = {3}> {
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    n = Neg(d)
    nq = QuantizeLinear(n, s, z)
    nd = DequantizeLinear(nq, s, z)
    m = Abs(nd)
    mq = QuantizeLinear(m, s, z)
    y = DequantizeLinear(mq, s, z)
}"""
UNITS = ({"d", "n", "nq"}, {"nd", "m", "mq"})
SHARED = QDQ.replace("Abs(nd)", "Add(nd, d)")
"""One unit: both read `d`."""
QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "Neg", "Abs", "Add")


class Quantized(NumpyProvider):
    def __init__(self, takes: Callable[[Node], bool] = lambda node: True, cls: Any = None, **more: Any) -> None:
        super().__init__(takes, operators=QUANTIZED, **more)


class QuantizedCpu(CpuStandIn):
    def __init__(self) -> None:
        super().__init__(operators=QUANTIZED)


@pytest.mark.parametrize(
    "given",
    [
        {"partitioning_stop_ops": "Abs"},
        {"max_subgraph_size": 3},
        {"max_subgraph_size": 4},
        {"max_subgraph_size": 2},
        {"min_subgraph_size": 4},
        {"max_partitions": 1},
        {"max_partitions": 1, "max_subgraph_size": 5},
        {"limit_nodes": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("takes", [(), ("q",), ("d",), ("nd",), ("y",)], ids=str)
@pytest.mark.parametrize("merge", [True, False])
def test_quantized_units_stay_whole(given: dict[str, Any], takes: tuple[str, ...], merge: bool) -> None:
    mine = Quantized(lambda node: node.output.name not in takes, group=lambda node: Capability([node], merge=merge))
    found = plan(QDQ, mine, QuantizedCpu(), **given)
    own = parts(found)
    here = {name for part in own for name in part}
    for unit in UNITS:
        whole = unit - set(takes)
        assert here & unit in (set(), whole)
        if merge and here & unit:
            assert any(whole <= set(part) for part in own) or takes
    assert all(len(part) <= given.get("max_subgraph_size", 9) for part in own)


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        (QDQ, {"limit_nodes": 1}, "q"),
        (QDQ, {"limit_nodes": 2}, "q y"),  # the units around n and m need three each: what is left is for others
        (QDQ, {"limit_nodes": 3}, "q y"),
        (QDQ, {"limit_nodes": 4}, "q d n nq"),
        (QDQ, {"limit_nodes": 6}, "q d n nq y"),
        (QDQ, {"limit_nodes": 7}, "q d n nq nd m mq"),
        (QDQ, {"limit_nodes": 8}, "q d n nq nd m mq y"),
        (QDQ, {"limit_bytes": 20}, "q y"),
        (SHARED, {"limit_nodes": 6}, "q y"),
        (SHARED, {"limit_nodes": 7}, "q d n nq nd m mq"),
    ],
)
def test_a_budget_leaves_quantized_units_whole(text: str, limit: dict[str, int], kept: str) -> None:
    assert taken(plan(text, Quantized(), QuantizedCpu(), **limit)) == kept.split()


# What they cost


def test_each_option_says_what_it_cost() -> None:
    found = plan(CHAIN, NumpyProvider(named("a", "b", "d")), min_subgraph_size=2, partitioning_stop_ops="Relu")
    assert found.controls() == (
        ControlCost(MINE, "partitioning_stop_ops", 1, None),
        ControlCost(MINE, "min_subgraph_size", 1, None),
    )
    assert f"min_subgraph_size: {MINE} lost 1 node" in str(found).splitlines()
    costs = CostModel(nodes={MINE: {"Neg_1": 1e-6, "Relu_0": 2e-6}, "CPUExecutionProvider": {"Neg_1": 4e-6, "Relu_0": 3e-6}})
    stop, small = found.controls(costs)
    assert small.seconds == pytest.approx(3e-6)
    assert str(stop) == f"partitioning_stop_ops: {MINE} lost 1 node, which take 1.0 us longer elsewhere"
    assert plan(CHAIN, NumpyProvider()).controls() == ()


# Names


class Gpu(NumpyProvider):
    name = "GpuExecutionProvider"
    device = Device("cuda", 1)

    def data_transfer(self) -> Any:
        from tests.provider.numpy_provider import BoxTransfer

        return BoxTransfer(self.device)


KEY = "session.name_based_layer_assignment"


@pytest.mark.parametrize("device", ["gpu", "cuda", "gpu:1", "gpu:nvidia", "accelerator", "GpuExecutionProvider", "GPU"])
def test_nodes_go_to_devices_by_their_names(device: str) -> None:
    found = plan(CHAIN, Gpu(), config={KEY: f"{device}(Tanh, Neg_1); cpu(Neg, Abs)"})
    assert taken(found, "GpuExecutionProvider") == ["c", "d", "y"]  # nobody says anything of y
    code, detail = why(found, "a", "GpuExecutionProvider")
    rule = "soft rule session.name_based_layer_assignment cpu(Neg, Abs) -> CPUExecutionProvider"
    assert (code, detail) == ("rule", f"{rule} gives it to others")


def test_it_is_a_preference() -> None:
    found = plan(CHAIN, Gpu(named("a", "b", "y")), config={KEY: "gpu(Tanh)"})
    assert taken(found, "GpuExecutionProvider") == ["a", "b", "y"]
    assert found.assignment.remarks[0].endswith("gave way for Tanh 'Tanh_0': nobody that it names takes it")


def test_a_device_that_is_not_there_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    found = plan(CHAIN, Gpu(), config={KEY: "npu(Tanh); gpu:0(Neg)"})
    assert len(taken(found, "GpuExecutionProvider")) == 6
    assert [message.rpartition("; ")[2] for message in caplog.messages] == ["npu(Tanh) is left out", "gpu:0(Neg) is left out"]
    assert list(found.assignment.remarks) == caplog.messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu", "'gpu'; expected a device and parts of names"),
        ("(a)", r"'\(a\)'; expected"),
        ("gpu(a", r"'gpu\(a'; expected"),
        ("gpu(=a)", "'=a'; texts are parts of names"),
        ("gpu(a); cpu(a)", "'a' is there twice"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        plan(CHAIN, Gpu(), config={KEY: text})
