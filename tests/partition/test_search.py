"""Cost-based partitioning: never worse than greedy by its model, on random graphs with all that greedy promises."""

import os
import random
import subprocess
import sys
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.compile.compile import compile_assignment
from ort_lite.errors import Fail, InvalidArgument
from ort_lite.graph import Graph
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.partition.partition import partition
from ort_lite.plugins import shape_rules
from ort_lite.provider import Capability, ExecutionProvider, Overhead
from tests.partition.random_graphs import feeds, random_graph
from tests.partition.test_random_partitions import check_level, providers_for, size_of
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice, reference
from tests.provider.texts import owners, plain, proto

GRAPHS, BATCH = 24, 8
BOX, CPU = "BoxExecutionProvider", "CPUExecutionProvider"
SMALL = 60
ROOT = Path(__file__).parents[2]


def model_for(seed: int, graph: Graph, labels: list[str]) -> CostModel:
    """Random seconds for every node on every provider, less on accelerators; starting and moving cost about a node's."""
    rng = random.Random(seed)
    share = {label: 1.0 if label == CPU else 0.7 for label in labels}
    nodes = {label: {node.name: share[label] * rng.random() for node in graph.all_nodes()} for label in labels}
    overheads = {label: Overhead(0.3 * rng.random(), 0.2 * rng.random(), rng.choice((40.0, 400.0))) for label in labels}
    return CostModel(nodes, overheads, trips=3)


@cache
def rules() -> Any:
    return shape_rules()


def assign(graph: Graph, providers: list[ExecutionProvider], strategy: Any = None) -> Assignment:
    return partition(graph, providers, rules(), strategy=strategy)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(GRAPHS // BATCH))
def test_random_graphs_keep_what_greedy_promises_and_never_cost_more(batch: int) -> None:
    cheaper = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        graph = random_graph(seed, size_of(seed), depth=2, dtype="int32")
        greedy = assign(graph, providers_for(seed, graph, fusion=False))
        model = model_for(seed, graph, list(greedy.providers))
        found = assign(graph, providers_for(seed, graph, fusion=False), CostStrategy(model))
        again = assign(graph, providers_for(seed, graph, fusion=False), CostStrategy(model))
        assert found.to_json() == again.to_json()
        assert model.cost(found) <= model.cost(greedy)
        cheaper += model.cost(found) < model.cost(greedy)
        for level in found.levels:
            check_level(level)
        expected = reference(graph, feeds(seed, "int32"))
        for got, want in zip(compile_assignment(found).executable.run(feeds(seed, "int32")), expected, strict=True):
            np.testing.assert_array_equal(got, want)
    assert cheaper > BATCH // 2


PRINT = """
from tests.partition import test_search as t
for seed in (4, 17):
    graph = t.random_graph(seed, 40, depth=1, dtype="int32")
    providers = [t.NumpyProvider(lambda node: node.name[-1] in "0123"), t.OtherDevice(lambda n: n.op_type != "If"), t.CpuStandIn()]
    labels = ["NumpyExecutionProvider", t.BOX, t.CPU]
    print(t.assign(graph, providers, t.CostStrategy(t.model_for(seed, graph, labels))).to_json())
"""


@pytest.mark.slow
def test_hash_seeds_change_nothing() -> None:
    def printed(seed: int) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        found = subprocess.run(
            [sys.executable, "-c", PRINT], env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240
        )
        return found.stdout

    first = printed(1)
    assert '"transfer"' in first and first == printed(2)


def some(graph: Graph, seed: int) -> list[ExecutionProvider]:
    chosen = {node.name for node in graph if random.Random(f"{seed} {node.name}").random() < 0.6}
    return [OtherDevice(lambda node: node.name in chosen and node.op_type != "If"), CpuStandIn()]


@pytest.mark.slow
def test_small_graphs_are_near_the_cheapest_of_all_assignments() -> None:
    excess, mixed = [], 0
    for seed in range(SMALL):
        graph = random_graph(seed, 9, depth=0, dtype="int32")
        model = model_for(seed, graph, [BOX, CPU])
        costs: list[float] = []

        def exhaust(greedy: Assignment, again: Any, model: CostModel = model, costs: list[float] = costs) -> Assignment:
            taken = [node for node, place in greedy.placements.items() if place.provider == BOX]
            for count in range(len(taken) + 1):
                for back in combinations(taken, count):
                    made = again({(BOX, node): "" for node in back})
                    costs.append(model.cost(made))
            return greedy

        greedy = assign(graph, some(graph, seed), exhaust)
        found = assign(graph, some(graph, seed), CostStrategy(model))
        assert min(costs) <= model.cost(found) <= model.cost(greedy)
        excess.append(model.cost(found) / min(costs))
        mixed += len({place.provider for place in found.placements.values()} & {BOX}) and model.cost(found) < model.cost(greedy)
    assert np.mean(excess) < 1.01 and max(excess) < 1.15
    assert mixed > SMALL // 4, "neither greedy nor all on the CPU"


def test_no_single_partition_is_worth_giving_back_afterwards() -> None:
    graph = random_graph(5, 40, depth=0, dtype="int32")
    model = model_for(5, graph, [BOX, CPU]).replace(overheads={BOX: Overhead(0.2, 0.1, 400), CPU: Overhead(0.1)})
    kept: list[Any] = []

    def spy(greedy: Assignment, again: Any) -> Assignment:
        found = CostStrategy(model)(greedy, again)
        back = {(BOX, node): "" for node, place in found.placements.items() if place.provider == CPU}
        for part in found.partitions:
            made = again({**back, **{(BOX, node): "" for node in part.nodes}})
            kept.append(model.cost(made) >= model.cost(found))
        return found

    assign(graph, some(graph, 5), spy)
    assert len(kept) > 2 and all(kept)


CHAIN = proto("(float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }")
NODES = ("Abs_0", "Neg_0", "Tanh_0", "Relu_0")


def priced(box: float, copies: float, launch: float = 0.0) -> CostModel:
    nodes = {BOX: dict.fromkeys(NODES, box), CPU: dict.fromkeys(NODES, 1.0)}
    return CostModel(nodes, {BOX: Overhead(launch, copies), CPU: Overhead()})


def explained(model: CostModel, **more: Any) -> ort_lite.Explanation:
    provider = OtherDevice(more.pop("takes", lambda node: True))
    return ort_lite.plan(CHAIN, [provider, CpuStandIn()], plain(), partitioning=CostStrategy(model), **more)


def test_a_group_that_gains_less_than_its_copies_cost_is_given_back_with_the_reason() -> None:
    dear = explained(priced(box=0.5, copies=1.5))
    assert owners(dear) == "CPU CPU CPU CPU"
    reason = dear.verdicts()["Abs_0"][BOX]
    assert (reason.verdict, reason.code) == ("lost", "transfer")
    more = "1,000,000.1 us more"  # 384 bytes each way
    assert str(reason) == f"lost: transfer cost: starting, moving and computing 4 nodes here would cost {more}"
    assert owners(explained(priced(box=0.5, copies=0.5))) == "Box Box Box Box"
    assert owners(explained(priced(box=0.5, copies=0.5, launch=1.5))) == "CPU CPU CPU CPU"


def test_two_groups_around_a_foreign_node_are_given_back_one_by_one() -> None:
    takes = {"Abs_0", "Neg_0", "Relu_0"}
    found = explained(priced(box=0.1, copies=0.7), takes=lambda node: node.name in takes)
    assert owners(found) == "Box Box CPU CPU"


def test_a_border_node_that_is_slower_there_moves() -> None:
    model = priced(box=0.1, copies=0.1)
    model = model.replace(nodes={**model.nodes, BOX: {**model.nodes[BOX], "Relu_0": 5.0}})
    assert owners(explained(model)) == "Box Box Box CPU"


def test_nodes_in_the_midst_that_are_slower_there_move() -> None:
    model = priced(box=0.1, copies=0.1)
    model = model.replace(nodes={**model.nodes, BOX: {**model.nodes[BOX], "Neg_0": 5.0, "Tanh_0": 5.0}})
    assert owners(explained(model)) == "Box CPU CPU Box"


def test_nodes_that_a_rule_places_stay() -> None:
    rules = [ort_lite.place(BOX, operator="Abs")]
    assert owners(explained(priced(box=9, copies=9), placement_rules=rules)) == "Box CPU CPU CPU"


def test_nothing_goes_to_the_cpu_where_fallback_is_ruled_out() -> None:
    options = plain()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    box = OtherDevice()
    found = ort_lite.plan(CHAIN, [box], options, partitioning=CostStrategy(priced(box=9, copies=9)))
    assert owners(found) == "Box Box Box Box"
    with pytest.raises(Fail):
        ort_lite.plan(CHAIN, [OtherDevice(lambda node: node.op_type == "Abs")], options, partitioning="cost")


def test_nodes_go_to_the_next_provider_before_the_cpu() -> None:
    nodes = {label: dict.fromkeys(NODES, seconds) for label, seconds in ((BOX, 9.0), ("NumpyExecutionProvider", 0.1), (CPU, 1))}
    model = CostModel(nodes, {label: Overhead() for label in nodes})
    found = ort_lite.plan(CHAIN, [OtherDevice(), NumpyProvider(), CpuStandIn()], plain(), partitioning=CostStrategy(model))
    assert owners(found) == "Numpy Numpy Numpy Numpy"


def test_units_move_as_a_whole() -> None:
    class Pairs(NumpyProvider):
        name = BOX

    pair = Pairs(group=lambda node: Capability([node, *(v.producer for v in node.inputs if v and v.producer)][:2]))
    model = priced(box=0.1, copies=0)
    model = model.replace(nodes={**model.nodes, BOX: {**model.nodes[BOX], "Relu_0": 5.0}})
    found = ort_lite.plan(CHAIN, [pair, CpuStandIn()], plain(), partitioning=CostStrategy(model))
    assert model.cost(found.assignment) < 5


def test_the_config_and_the_keyword_choose_the_strategy(tmp_path: Any) -> None:
    path = tmp_path / "costs.json"
    priced(box=0.5, copies=1.5).save(path)
    x = {"x": np.array([[1, -2, 3]], np.float32)}
    made = ort_lite.InferenceSession(CHAIN, plain(partitioning="cost", cost_model=str(path)), providers=[OtherDevice()])
    assert owners(made.explain()) == "CPU CPU CPU CPU"
    greedy = ort_lite.InferenceSession(CHAIN, plain(partitioning="greedy"), providers=[OtherDevice()])
    assert owners(greedy.explain()) == "Box Box Box Box"
    np.testing.assert_allclose(made.run(None, x)[0], greedy.run(None, x)[0], rtol=1e-6)
    keyword = ort_lite.InferenceSession(CHAIN, plain(), providers=[OtherDevice()], partitioning=CostStrategy(priced(9, 9)))
    assert owners(keyword.explain()) == "CPU CPU CPU CPU"
    own = ort_lite.InferenceSession(CHAIN, plain(), providers=[OtherDevice()], partitioning=lambda greedy, again: greedy)
    assert owners(own.explain()) == "Box Box Box Box"
    with pytest.raises(InvalidArgument, match="expected 'greedy', 'cost' or a strategy"):
        ort_lite.plan(CHAIN, [OtherDevice()], plain(partitioning="dearest"))


def test_large_graphs_take_few_tries() -> None:
    calls: list[Any] = []

    def counting(greedy: Assignment, again: Any) -> Assignment:
        def counted(back: Any) -> Assignment | None:
            calls.append(back)
            found: Assignment | None = again(back)
            return found

        return CostStrategy(model, tries=5)(greedy, counted)

    graph = random_graph(1, 30, depth=0, dtype="int32")
    model = model_for(1, graph, [BOX, CPU])
    assign(graph, some(graph, 1), counting)
    assert len(calls) <= 6  # five, and the one that carries the reasons


def test_a_partition_that_does_not_compile_goes_on_from_there() -> None:
    class Fails(OtherDevice):
        def compile(self, partitions: Any) -> Any:
            return [ValueError("no") for _ in partitions]

    made = ort_lite.InferenceSession(
        CHAIN, plain(), providers=[Fails(), NumpyProvider()], partitioning=CostStrategy(priced(0.1, 0.1))
    )
    assert owners(made.explain()) == "Numpy Numpy Numpy Numpy"


def test_nodes_inside_bodies_are_given_back_too() -> None:
    text = proto("""(float[3] x, bool c) => (float[3] y) { y = If (c) <
        then_branch = t () => (float[3] a) { a = Abs(x) }, else_branch = e () => (float[3] b) { b = Neg(x) }> }""")
    model = priced(box=0.5, copies=5)
    taking = OtherDevice(lambda node: node.op_type in ("Abs", "Neg"))
    found = ort_lite.plan(text, [taking, CpuStandIn()], plain(), partitioning=CostStrategy(model))
    assert owners(found) == "CPU CPU CPU"
