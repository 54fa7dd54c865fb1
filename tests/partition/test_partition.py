"""Partitioning: small graphs that show one thing each. Random ones: test_random_partitions.py."""

import random
from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any, ClassVar

import pytest

from ort_lite.errors import Fail, ProviderError, UnknownOperator
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node
from ort_lite.inference import ShapeRules
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.partition import Partitioner, partition
from ort_lite.provider import Capability, CompiledPartition, GraphView, Partition, Rejection
from tests.partition.random_graphs import random_graph
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.provider.texts import graph, named

RULES = ShapeRules(())
BRANCHES = """(float[3] x, bool flag) => (float[3] y) {
    a = Abs(x)
    b = If (flag) <
        then_branch = yes () => (float[3] t) { t1 = Neg(a)  t = Tanh(t1) },
        else_branch = no () => (float[3] e) { e = Relu(x) }
    >
    y = Abs(b)
}"""
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"


def groups(assignment: Assignment, level: int = 0) -> list[tuple[str, str]]:
    """(provider, outputs of the nodes) of each partition, in order."""
    return [
        (p.provider.name.removesuffix("ExecutionProvider"), " ".join(node.output.name for node in p.nodes))
        for p in assignment.levels[level].partitions
    ]


def why_not(assignment: Assignment, name: str) -> list[str]:
    (place,) = [place for place in assignment.placements.values() if place.node.output.name == name]
    return [str(reason) for reason in place.reasons]


# One thing each


def test_spec_5_6_each_provider_is_asked_about_what_is_left_and_the_first_that_claims_a_node_has_it() -> None:
    providers = first, second, last = NumpyProvider(named("a", "b")), NumpyProvider(named("b", "c")), CpuStandIn()
    found = partition(graph(CHAIN), [first, second, last], RULES)
    asked = [" ".join(node.output.name for view in provider.asked for node in view) for provider in providers]
    assert asked == ["a b c y", "c y", "y"]
    assert groups(found) == [("Numpy", "a b"), ("Numpy", "c"), ("CPU", "y")]
    assert why_not(found, "b") == ["lost: earlier provider NumpyExecutionProvider takes it"] * 2
    assert why_not(found, "y") == ["declined choice: not wanted"] * 2


def test_a_foreign_node_between_keeps_two_groups_apart() -> None:
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Add(a, b) }"
    found = partition(graph(text), [NumpyProvider(named("a", "y")), CpuStandIn()], RULES)
    assert groups(found) == [("Numpy", "a"), ("CPU", "b"), ("Numpy", "y")]
    (apart,) = found.levels[0].apart
    assert str(apart) == (
        "NumpyExecutionProvider_1 is apart from NumpyExecutionProvider_0: joined they would make a cycle through Neg 'Neg_0'"
    )


def test_a_group_of_an_earlier_provider_closes_a_cycle_too() -> None:
    text = "(float[3] x) => (float[3] y, float[3] z) { a = Abs(x)  b = Neg(a)  c = Tanh(x)  y = Add(b, c)  z = Relu(c) }"
    found = partition(graph(text), [NumpyProvider(named("b", "c")), CpuStandIn()], RULES)
    assert groups(found) == [("CPU", "a"), ("Numpy", "b c"), ("CPU", "y z")]  # a -> {b, c} -> y


def test_a_constant_on_both_sides_of_a_cut_makes_no_dependency() -> None:
    text = "(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { a = Add(x, w)  b = Neg(a)  y = Mul(b, w) }"
    found = partition(graph(text), [NumpyProvider(named("b")), CpuStandIn()], RULES)
    first, foreign, last = found.levels[0].partitions
    assert groups(found) == [("CPU", "a"), ("Numpy", "b"), ("CPU", "y")]
    assert [[v.name for v in p.inputs] for p in (first, foreign, last)] == [["x"], ["a"], ["b"]]
    assert [[v.name for v in p.constants] for p in (first, foreign, last)] == [["w"], [], ["w"]]


def test_a_fused_value_that_is_a_graph_output_stays_visible() -> None:
    found = partition(
        graph("(float[3] x) => (float[3] y, float[3] a) { a = Abs(x)  b = Neg(a)  y = Relu(b) }"), [CpuStandIn()], RULES
    )
    assert [v.name for v in found.partitions[0].outputs] == ["y", "a"]  # in the graph's order


def test_a_fused_value_that_a_body_captures_stays_visible() -> None:
    found = partition(graph(BRANCHES), [NumpyProvider(lambda n: n.op_type != "If"), CpuStandIn()], RULES)
    first = found.levels[0].partitions[0]
    assert [v.name for v in first.outputs] == ["a"]
    (control_flow,) = [p for p in found.levels[0].partitions if p.nodes[0].op_type == "If"]
    assert [v.name for v in control_flow.inputs] == ["x", "flag", "a"]


def test_a_value_that_nobody_reads_is_no_output() -> None:
    found = partition(graph("(float[3] x) => (float[3] y) { y = Abs(x)  b = Neg(x) }"), [CpuStandIn()], RULES)
    assert [v.name for v in found.partitions[0].outputs] == ["y"]


def test_unconnected_nodes_share_a_partition() -> None:
    text = "(float[3] x) => (float[3] y, float[3] z) { a = Abs(x)  y = Neg(a)  b = Tanh(x)  z = Neg(b) }"
    assert groups(partition(graph(text), [CpuStandIn()], RULES)) == [("CPU", "a y b z")]


def test_two_instances_of_one_provider_are_told_apart() -> None:
    found = partition(
        graph("(float[3] x) => (float[3] y) { a = Abs(x)  y = Neg(a) }"), [NumpyProvider(named("a")), NumpyProvider()], RULES
    )
    assert [p.name for p in found.partitions] == ["NumpyExecutionProvider_0", "NumpyExecutionProvider#2_0"]
    assert why_not(found, "a") == ["lost: earlier provider NumpyExecutionProvider takes it"]


# Capabilities


def test_merge_false_keeps_a_capability_apart() -> None:
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Relu(b) }"
    alone = CpuStandIn(group=lambda node: Capability([node], merge=False))
    assert groups(partition(graph(text), [alone], RULES)) == [("CPU", "a"), ("CPU", "b"), ("CPU", "y")]


def test_what_was_given_back_can_make_another_group_too_small() -> None:
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  d = Abs(c)  y = Add(d, a) }"
    least = {"a": 1, "b": 3, "d": 3, "y": 2}
    some = NumpyProvider(named(*least), group=lambda node: Capability([node], minimum=least[node.output.name]))
    found = partition(graph(text), [some, CpuStandIn()], RULES)
    assert groups(found) == [("Numpy", "a"), ("CPU", "b c d y")]
    assert why_not(found, "y") == ["lost: group too small: 1 node, takes 2 or more"]


class Fusing(CpuStandIn):
    """Claims nodes in the groups that it is given, by names of outputs; the rest one at a time."""

    name: ClassVar[str] = "FusingExecutionProvider"

    def __init__(self, *units: str) -> None:
        super().__init__()
        self.units = [unit.split() for unit in units]

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        nodes = {node.output.name: node for node in graph.graph}
        for unit in self.units:
            yield Capability([nodes[name] for name in unit])


TWO = "(float[3] x) => (float[3] y, float[3] z) { a = Abs(x)  b = Neg(x)  y = Tanh(b)  z = Relu(a) }"


@pytest.mark.parametrize(
    ("text", "units", "expected", "node", "reason"),
    [
        (CHAIN, ("a c", "y"), [("CPU", "a b c"), ("Fusing", "y")], "a", "cycle through Neg 'Neg_0'"),  # not convex
        (TWO, ("a y", "b z"), [("CPU", "b"), ("Fusing", "a y"), ("CPU", "z")], "z", "cycle through Tanh 'Tanh_0'"),
        (
            CHAIN,
            ("a b", "b c", "y"),
            [("Fusing", "a b"), ("CPU", "c"), ("Fusing", "y")],
            "c",
            "Neg 'Neg_0' is in an earlier capability too",
        ),
    ],
    ids=["not convex", "each needs the other", "a common node"],
)
def test_a_unit_that_cannot_be_loses_itself_alone(
    text: str, units: tuple[str, ...], expected: list[tuple[str, str]], node: str, reason: str
) -> None:
    found = partition(graph(text), [Fusing(*units), CpuStandIn()], RULES)
    assert groups(found) == expected
    assert why_not(found, node) == [f"lost: {reason}"]


def test_a_node_that_is_claimed_already_is_refused() -> None:
    found = partition(graph(CHAIN), [NumpyProvider(named("b")), Fusing("a b", "c y"), CpuStandIn()], RULES)
    assert groups(found) == [("CPU", "a"), ("Numpy", "b"), ("Fusing", "c y")]
    assert "lost: the capability holds Neg 'Neg_0', which is claimed already" in why_not(found, "a")


def test_a_node_of_another_graph_is_refused() -> None:
    class Confused(NumpyProvider):
        def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
            yield Capability([*graph, Node("Abs", [], [], name="stray")])

    found = partition(graph(CHAIN), [Confused(), CpuStandIn()], RULES)
    assert why_not(found, "y") == ["lost: the capability holds Abs 'stray', which is not in this graph"]


def test_a_provider_that_says_nothing_is_said_to_say_nothing() -> None:
    class Silent(NumpyProvider):
        def get_capability(self, graph: GraphView) -> list[Capability | Rejection]:
            return []

    found = partition(graph(CHAIN), [Silent(), CpuStandIn()], RULES)
    assert why_not(found, "y") == ["declined silent: gave no answer"]


def test_an_exception_in_get_capability_names_the_provider() -> None:
    class Broken(NumpyProvider):
        def get_capability(self, graph: GraphView) -> list[Capability | Rejection]:
            raise ZeroDivisionError("oops")

    with pytest.raises(ProviderError, match=r"NumpyExecutionProvider: get_capability failed: ZeroDivisionError: oops"):
        partition(graph(CHAIN), [Broken(), CpuStandIn()], RULES)


def test_an_answer_that_is_no_capability_names_the_provider() -> None:
    class Wrong(NumpyProvider):
        def get_capability(self, graph: GraphView) -> Any:
            return list(graph)

    with pytest.raises(ProviderError, match=r"NumpyExecutionProvider: get_capability returned .* expected Capability"):
        partition(graph(CHAIN), [Wrong(), CpuStandIn()], RULES)


# Control flow


def test_bodies_are_asked_about_before_the_graph_around_them() -> None:
    provider = CpuStandIn()
    partition(graph(BRANCHES), [provider], RULES)
    assert [view.graph.name for view in provider.asked] == ["yes", "no", "main"]


def test_a_control_flow_node_with_a_foreign_node_inside_cannot_be_taken_whole() -> None:
    whole = CpuStandIn(group=lambda node: Capability([node], whole=True))
    found = partition(graph(BRANCHES), [NumpyProvider(named("t1")), whole, NumpyProvider()], RULES)
    (if_node,) = [node for node in found.graph if node.op_type == "If"]
    assert [view.split_bodies for view in whole.asked if view.graph is found.graph] == [{if_node}]
    assert why_not(found, "b")[1] == f"lost: a node inside {if_node} belongs to another provider"
    assert found.of(if_node).provider == "NumpyExecutionProvider#2"


def test_a_control_flow_node_taken_whole_takes_what_is_inside() -> None:
    whole = NumpyProvider(lambda node: node.op_type == "If", group=lambda node: Capability([node], whole=True))
    found = partition(graph(BRANCHES), [whole, CpuStandIn()], RULES)
    assert [level.path for level in found.levels] == [""]
    assert {place.partition for place in found.placements.values() if place.node.graph is not found.graph} == {
        "NumpyExecutionProvider_0"
    }
    assert why_not(found, "t") == ["lost: earlier provider NumpyExecutionProvider takes it"]


def test_what_is_inside_of_something_inside_is_taken_too() -> None:
    """The provider did not want the inner If by itself."""
    inner = "c = If(flag) <then_branch = deep () => (float[3] d) { d = Neg(x) }, else_branch = flat () => (float[3] f) { f = Abs(x) }>"
    main = graph(
        "(float[3] x, bool flag) => (float[3] y) { y = If(flag)"
        f" <then_branch = yes () => (float[3] c) {{ {inner} }}, else_branch = no () => (float[3] e) {{ e = Relu(x) }}> }}"
    )
    whole = NumpyProvider(lambda node: node.graph is main, group=lambda node: Capability([node], whole=True))
    found = partition(main, [whole, CpuStandIn()], RULES)
    assert [(place.node.op_type, place.partition) for _, place in found.rows()] == [
        (name, "NumpyExecutionProvider_0") for name in ("If", "If", "Neg", "Abs", "Relu")
    ]


def test_without_whole_the_nodes_inside_have_partitions_of_their_own() -> None:
    found = partition(graph(BRANCHES), [NumpyProvider(named("t1", "b")), CpuStandIn()], RULES)
    assert [level.path for level in found.levels] == ["", "If 'If_0'.then_branch", "If 'If_0'.else_branch"]
    assert groups(found, 1) == [("Numpy", "t1"), ("CPU", "t")]


# Completeness


def test_a_node_that_nobody_takes_is_named_with_every_reason() -> None:
    text = "(float[3] x) => (float[3] y) { a = Sin(x)  y = Abs(a) }"
    with pytest.raises(NotSupported) as caught:
        partition(graph(text), [NumpyProvider(named("y")), CpuStandIn()], RULES)
    assert str(caught.value).splitlines() == [
        "no provider of NumpyExecutionProvider, CPUExecutionProvider runs a node:",
        "  Sin 'Sin_0' (ai.onnx 17; float32[3]): NumpyExecutionProvider declined operator: Sin is not known; "
        "CPUExecutionProvider declined operator: Sin is not known",
    ]


def test_an_operator_that_nobody_knows_is_a_failure_as_in_onnxruntime() -> None:
    with pytest.raises(UnknownOperator, match="Sin is not known") as caught:
        partition(graph("(float[3] x) => (float[3] y) { y = Sin(x) }"), [CpuStandIn()], RULES)
    assert {Fail, NotSupported} <= set(type(caught.value).__mro__)


def test_a_node_in_a_body_that_nobody_takes_says_where_it_is() -> None:
    with pytest.raises(NotSupported, match=r"Tanh 'Tanh_0' .* in If 'If_0'\.then_branch: CPUExecutionProvider declined"):
        partition(graph(BRANCHES), [CpuStandIn(lambda node: node.op_type != "Tanh")], RULES)


def test_everybody_is_asked_again_after_help() -> None:
    main = graph("(float[3] x) => (float[3] y) { a = Sin(x)  y = Abs(a) }")
    provider = CpuStandIn()
    partitioner = Partitioner(main, [provider], RULES)
    (node,) = partitioner.claim().find_unclaimed_nodes()
    assert node.name == "Sin_0"
    tanh = main.insert_before(node, Node("Tanh", node.inputs, [type(node.output)("b")], version=17, name="instead"))
    node.output.replace_all_uses_with(tanh.output)
    main.remove(node)
    partitioner.constraints.handle_graph_change()
    claims = partitioner.claim()
    assert not claims.find_unclaimed_nodes()
    assert groups(partitioner.assignment(claims)) == [("CPU", "b y")]
    assert len(provider.asked) == 2


# Size


class Costless(NumpyProvider):
    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        raise AssertionError("not asked to")


@pytest.mark.slow
def test_twenty_thousand_nodes_are_partitioned_in_seconds() -> None:
    main = random_graph(1, 20_000, depth=0, locality=30)
    rng = random.Random(1)
    half = {node for node in main if rng.random() < 0.5}
    start = process_time()
    found = partition(main, [Costless(half.__contains__), Costless(lambda node: node not in half)], RULES)
    assert process_time() - start < 10  # an algorithm of n * n needs minutes
    assert sum(len(p.nodes) for p in found.partitions) == 20_000
