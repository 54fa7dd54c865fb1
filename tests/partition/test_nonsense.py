"""Strategies, costs and budgets that make no sense, or would take apart what belongs together."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import Fail, InvalidArgument, ProviderError
from ort_lite.graph import Graph, Node
from ort_lite.partition.assignment import Again, Assignment
from ort_lite.partition.cost.cost_model import CPU_RATES, CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.provider import Overhead
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.text_graphs import model

CHAIN = ("(float[3] x) => (float[3] y)", "{ a = Abs(x) b = Neg(a) y = Tanh(b) }")


class Mine(NumpyProvider):
    name = "MineExecutionProvider"


def session(partitioning: Any) -> ort_lite.InferenceSession:
    providers = [Mine(operators=OPERATORS), CpuStandIn(operators=OPERATORS)]
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort_lite.InferenceSession(model(*CHAIN), options, providers=providers, partitioning=partitioning)


OPERATORS = ("Abs", "Neg", "Tanh", "Add", "QuantizeLinear", "DequantizeLinear")

# Strategies


def returns_nothing(greedy: Assignment, again: Again) -> Any:
    return None


def returns_another(greedy: Assignment, again: Again) -> Assignment:
    return greedy.replace(graph=Graph("other"))


def loses_a_node(greedy: Assignment, again: Again) -> Assignment:
    return greedy.replace(placements=dict(list(greedy.placements.items())[1:]))


def fails(greedy: Assignment, again: Again) -> Assignment:
    raise ZeroDivisionError("no nodes")


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (returns_nothing, "returns_nothing returned None; expected the Assignment that it was given"),
        (returns_another, "returns_another returned an Assignment of other nodes; expected"),
        (loses_a_node, "loses_a_node returned an Assignment of other nodes; expected"),
        (fails, "fails failed: ZeroDivisionError: no nodes"),
    ],
)
def test_a_strategy_that_is_nonsense_is_named(strategy: Callable[..., Any], message: str) -> None:
    with pytest.raises(Fail, match=f"^the partitioning strategy {message}"):
        session(strategy)


@pytest.mark.parametrize("back", [("NobodyExecutionProvider", "node"), ("MineExecutionProvider", 3)])
def test_what_is_given_back_must_be_a_node_of_a_provider(back: tuple[str, Any]) -> None:
    def gives(greedy: Assignment, again: Again) -> Assignment:
        label, what = back
        return again({(label, greedy.graph.nodes[0] if what == "node" else what): "mine"}) or greedy

    with pytest.raises(
        InvalidArgument, match=r"given back is .*; expected a node, and one of MineExecutionProvider, CPU"
    ) as caught:
        session(gives)
    assert "in the partitioning strategy gives" in caught.value.__notes__


# Costs


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (CostModel(nodes={"X": {"n": -1.0}}), r"nodes\['X'\]\['n'\] is -1.0; expected a finite number, 0 or more"),
        (CostModel(nodes={"X": {"n": float("nan")}}), r"nodes\['X'\]\['n'\] is nan"),
        (
            CostModel(overheads={"X": Overhead(bandwidth=0)}),
            r"overheads\['X'\]\.bandwidth is 0; expected a finite number, above 0",
        ),
        (CostModel(rates={"X": CPU_RATES.replace(flops=0)}), r"rates\['X'\]\.flops is 0"),
        (CostModel(rates={"X": CPU_RATES.replace(node="slow")}), r"rates\['X'\]\.node is 'slow'"),
        (CostModel(dims={"N": -4}), r"dims\['N'\] is -4"),
        (CostModel(trips=-1), "trips is -1"),
    ],
)
def test_a_cost_that_is_nonsense_is_named(costs: CostModel, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"cost model: {message}"):
        session(CostStrategy(costs))


def test_saved_ones_are_looked_at_as_well() -> None:
    with pytest.raises(InvalidArgument, match=r"nodes\['X'\]\['n'\] is -2.0"):
        CostModel.from_dict(CostModel(nodes={"X": {"n": -2.0}}).as_dict())


@pytest.mark.parametrize("told", [Overhead(launch=-1.0), Overhead(latency=float("nan")), Overhead(bandwidth=0)])
def test_an_overhead_that_is_nonsense_is_the_providers(told: Overhead) -> None:
    class Told(Mine):
        def overhead(self) -> Overhead:
            return told

    with pytest.raises(
        ProviderError, match=r"MineExecutionProvider: overhead returned Overhead.*; expected an Overhead of finite"
    ):
        ort_lite.InferenceSession(model(*CHAIN), providers=[Told(), CpuStandIn()], partitioning=CostStrategy())


# Budgets

QDQ = (
    "(float[3] x) => (float[3] y)",
    """{
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    n = Neg(d)
    nq = QuantizeLinear(n, s, z)
    nd = DequantizeLinear(nq, s, z)
    m = Add(nd, d)
    mq = QuantizeLinear(m, s, z)
    y = DequantizeLinear(mq, s, z)
}""",
    "<float s = {0.5}, uint8 z = {128}>",
)
ALONE = (
    "(float[3] x) => (float[3] y)",
    "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) n = Neg(d) nq = QuantizeLinear(n, s, z) "
    "nd = DequantizeLinear(nq, s, z) m = Abs(nd) mq = QuantizeLinear(m, s, z) y = DequantizeLinear(mq, s, z) }",
    "<float s = {0.5}, uint8 z = {128}>",
)


def owned(graph: Sequence[Any], **policy: Any) -> list[str]:
    class Taking(Mine):
        def compile(self, partitions: Any) -> Any:
            return [lambda inputs: [np.zeros(3, np.float32)] for _ in partitions]

    class Rest(CpuStandIn):
        compile = Taking.compile

    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers: list[Any] = [(Taking(operators=OPERATORS), policy), Rest(operators=OPERATORS)]
    made = ort_lite.InferenceSession(model(*graph), options, providers=providers)
    placed: dict[Node, Any] = dict(made._stage_results.assignment.placements)
    return [node.output.name for node, place in placed.items() if place.provider == Mine.name]


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (1, ["q"]),
        (2, ["q", "y"]),  # the units around n and m need three each: what is left is for others
        (3, ["q", "y"]),
        (4, ["q", "d", "n", "nq"]),
        (6, ["q", "d", "n", "nq", "y"]),
        (7, ["q", "d", "n", "nq", "nd", "m", "mq"]),
        (8, ["q", "d", "n", "nq", "nd", "m", "mq", "y"]),
    ],
)
def test_a_budget_leaves_qdq_units_whole(limit: int, kept: list[str]) -> None:
    assert owned(ALONE, limit_nodes=limit) == kept


def test_units_that_share_a_dequantize_linear_stay_together() -> None:
    assert owned(QDQ, limit_nodes=6) == ["q", "y"]
    assert owned(QDQ, limit_nodes=7) == ["q", "d", "n", "nq", "nd", "m", "mq"]


def test_nodes_that_no_dequantize_linear_feeds_are_taken_one_by_one() -> None:
    assert owned(CHAIN, limit_nodes=2) == ["a", "b"]


def test_bytes_leave_them_whole_too() -> None:
    assert owned(ALONE, limit_bytes=20) == ["q", "y"]
