"""Strategies and costs that make no sense."""

from collections.abc import Callable
from typing import Any

import pytest

from ort_lite.errors import Fail, InvalidArgument, ProviderError
from ort_lite.graph import Graph
from ort_lite.partition.assignment import Again, Assignment
from ort_lite.partition.cost.cost_model import CPU_RATES, CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.provider import Overhead
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.provider.texts import session

CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x) b = Neg(a) y = Tanh(b) }"


class Mine(NumpyProvider):
    name = "MineExecutionProvider"


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
        session(CHAIN, Mine(), CpuStandIn(), partitioning=strategy)


@pytest.mark.parametrize("back", [("NobodyExecutionProvider", "node"), ("MineExecutionProvider", 3)])
def test_what_is_given_back_must_be_a_node_of_a_provider(back: tuple[str, Any]) -> None:
    def gives(greedy: Assignment, again: Again) -> Assignment:
        label, what = back
        return again({(label, greedy.graph.nodes[0] if what == "node" else what): "mine"}) or greedy

    with pytest.raises(
        InvalidArgument, match=r"given back is .*; expected a node, and one of MineExecutionProvider, CPU"
    ) as caught:
        session(CHAIN, Mine(), CpuStandIn(), partitioning=gives)
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
        session(CHAIN, Mine(), CpuStandIn(), partitioning=CostStrategy(costs))


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
        session(CHAIN, Told(), CpuStandIn(), partitioning=CostStrategy())
