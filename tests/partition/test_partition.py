"""Partitioning: small graphs that show one thing each, and properties of random ones."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from time import process_time
from typing import Any, ClassVar

import numpy as np
import onnx.parser
import pytest

from ort_lite.compile.compile import compile_assignment
from ort_lite.errors import Fail, ProviderError, UnknownOperator
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Graph, Node
from ort_lite.inference import ShapeRules
from ort_lite.load.load import load
from ort_lite.partition.assignment import Assignment, Level
from ort_lite.partition.partition import Partitioner, partition
from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition, Rejection
from tests.partition.random_graphs import feeds, random_graph
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice, reference

RULES = ShapeRules(())
BRANCHES = """(float[3] x, bool flag) => (float[3] y) {
    a = Abs(x)
    b = If (flag) <
        then_branch = yes () => (float[3] t) { t1 = Neg(a)  t = Tanh(t1) },
        else_branch = no () => (float[3] e) { e = Relu(x) }
    >
    y = Abs(b)
}"""


def graph(text: str) -> Graph:
    return load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')).graph


def named(*names: str) -> Callable[[Node], bool]:
    """Nodes by the name of their first output."""
    return lambda node: node.output.name in names


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


def test_each_node_goes_to_the_first_provider_that_takes_it() -> None:
    found = partition(
        graph("(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Relu(b) }"),
        [NumpyProvider(named("a", "b")), CpuStandIn()],
        RULES,
    )
    assert groups(found) == [("Numpy", "a b"), ("CPU", "y")]
    assert why_not(found, "a") == ["lost: earlier provider NumpyExecutionProvider takes it"]
    assert why_not(found, "y") == ["declined choice: not wanted"]


def test_a_foreign_node_between_keeps_two_groups_apart() -> None:
    found = partition(
        graph("(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Add(a, b) }"),
        [NumpyProvider(named("a", "y")), CpuStandIn()],
        RULES,
    )
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


def test_a_group_below_its_minimum_is_given_back_with_the_reason() -> None:
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"
    pairs = NumpyProvider(named("a", "b", "y"), group=lambda node: Capability([node], minimum=2))
    found = partition(graph(text), [pairs, CpuStandIn()], RULES)
    assert groups(found) == [("Numpy", "a b"), ("CPU", "c y")]
    assert why_not(found, "y") == ["lost: group too small: 1 node, takes 2 or more"]


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


CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"


def test_a_unit_that_is_not_convex_loses_itself_alone() -> None:
    found = partition(graph(CHAIN), [Fusing("a c", "y"), CpuStandIn()], RULES)
    assert groups(found) == [("CPU", "a b c"), ("Fusing", "y")]
    assert why_not(found, "a") == ["lost: cycle through Neg 'Neg_0'"]


def test_of_two_units_that_need_each_other_the_second_is_lost() -> None:
    text = "(float[3] x) => (float[3] y, float[3] z) { a = Abs(x)  b = Neg(x)  y = Tanh(b)  z = Relu(a) }"
    found = partition(graph(text), [Fusing("a y", "b z"), CpuStandIn()], RULES)
    assert ("Fusing", "a y") in groups(found)
    assert why_not(found, "z") == ["lost: cycle through Tanh 'Tanh_0'"]


def test_of_two_capabilities_with_a_common_node_the_first_holds() -> None:
    found = partition(graph(CHAIN), [Fusing("a b", "b c", "y"), CpuStandIn()], RULES)
    assert groups(found) == [("Fusing", "a b"), ("CPU", "c"), ("Fusing", "y")]
    assert why_not(found, "c") == ["lost: Neg 'Neg_0' is in an earlier capability too"]


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


def test_the_view_holds_what_nobody_has_claimed() -> None:
    second = CpuStandIn()
    partition(graph(CHAIN), [NumpyProvider(named("a", "c")), second], RULES)
    (view,) = second.asked
    assert [node.output.name for node in view] == ["b", "y"]
    assert len(view) == 2


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


# Properties of random graphs


class Part(NumpyProvider):
    name = "PartExecutionProvider"


def providers_for(seed: int, main: Graph) -> list[ExecutionProvider]:
    """One to three that take random nodes, and the default one."""
    rng = random.Random(seed)
    kinds = [NumpyProvider, OtherDevice, Part][: 1 + seed % 3]
    made: list[ExecutionProvider] = []
    for kind in kinds:
        share = rng.choice((0.2, 0.5, 0.8))
        chosen = {node.name for node in main.all_nodes() if rng.random() < share}
        flat = kind is OtherDevice  # bodies run on the CPU
        made.append(kind(partial(wanted, chosen, flat)))
    return [*made, CpuStandIn()]


def wanted(chosen: set[str], flat: bool, node: Node) -> bool:
    return node.name in chosen and not (flat and node.op_type == "If")


def quotient_is_acyclic(level: Level, owner: dict[Node, str]) -> bool:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for node in level.graph:
        sorter.add(owner[node])
        for value in (*node.inputs, *node.captures()):
            if value is not None and value.producer in owner and owner[value.producer] != owner[node]:
                sorter.add(owner[node], owner[value.producer])
    try:
        sorter.prepare()
    except CycleError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_partitions_of_random_graphs_are_convex_and_maximal(seed: int) -> None:
    main = random_graph(seed, 5 + seed % 40, depth=2)
    found = partition(main, providers_for(seed, main), RULES)
    for level in found.levels:
        owner = {node: p.name for p in level.partitions for node in p.nodes}
        assert set(owner) == set(level.graph)
        assert quotient_is_acyclic(level, owner)
        for first, second in combinations(level.partitions, 2):
            if first.provider is second.provider:
                merged = {node: first.name if name == second.name else name for node, name in owner.items()}
                assert not quotient_is_acyclic(level, merged), f"{first.name} and {second.name} could be one"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_graphs_give_the_reference_results(seed: int) -> None:
    main = random_graph(seed, 5 + seed % 40, depth=2)
    compiled = compile_assignment(partition(main, providers_for(seed, main), RULES))
    for got, expected in zip(compiled.executable.run(feeds(seed)), reference(main, feeds(seed)), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(20))
def test_the_same_graph_and_providers_give_the_same_assignment(seed: int) -> None:
    texts = []
    for _ in range(2):
        main = random_graph(seed, 40, depth=2)
        texts.append(partition(main, providers_for(seed, main), RULES).to_json())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("seed", range(40))
def test_every_node_says_of_every_other_provider_why_not(seed: int) -> None:
    main = random_graph(seed, 20, depth=2)
    providers = providers_for(seed, main)
    found = partition(main, providers, RULES)
    for node in main.all_nodes():
        place = found.of(node)
        assert {place.provider, *(reason.provider for reason in place.reasons)} == set(found.providers)


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
