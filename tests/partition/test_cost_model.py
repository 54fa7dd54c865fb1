"""A CostModel: what it makes of an assignment, where each number comes from, JSON."""

from pathlib import Path
from typing import Any

import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.graph import Node
from ort_lite.inference import ShapeRules
from ort_lite.partition.cost.cost_model import CPU_RATES, CostModel, Rates
from ort_lite.partition.partition import partition
from ort_lite.provider import Overhead
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice
from tests.provider.texts import graph

BOX, CPU, PART = "BoxExecutionProvider", "CPUExecutionProvider", "NumpyExecutionProvider"
CHAIN = "(float[N,4] x) => (float[N,4] y) { a = Abs(x)  b = Neg(a)  y = Relu(b) }"
LOOP = """(float[3] x, int64 n) => (float[3] y) <bool go = {1}> {
    y = Loop (n, go, x) <body = trip (int64 i, bool c, float[3] v) => (bool d, float[3] w) { d = Identity(c)  w = Neg(v) }>
}"""


def cost(model: CostModel, text: str, *providers: Any) -> float:
    return model.cost(partition(graph(text), providers, ShapeRules(())))


def test_nodes_starts_and_copies_add_up() -> None:
    nodes = {BOX: {"Neg_0": 4.0}, CPU: {"Abs_0": 1.0, "Relu_0": 2.0}}
    model = CostModel(nodes, {BOX: Overhead(0.5, 0.25, 1000.0), CPU: Overhead(0.125)})
    found = cost(model.replace(free=5), CHAIN, OtherDevice(lambda node: node.op_type == "Neg"), CpuStandIn())
    untyped = 2 * 0.25  # two copies, whose values have no type as no rule knows their shapes
    assert found == pytest.approx(4 + 1 + 2 + 0.5 + 2 * 0.125 + untyped)
    whole = cost(model.replace(nodes={BOX: {"Abs_0": 1.0, "Neg_0": 1.0, "Relu_0": 1.0}}, dims={"N": 10}), CHAIN, OtherDevice())
    assert whole == pytest.approx(3 + 0.5 + 2 * (0.25 + 160 / 1000))


class Priced(NumpyProvider):
    def cost(self, node: Node) -> float | None:
        return 3.0 if node.op_type == "Abs" else None

    def overhead(self) -> Overhead:
        return Overhead(launch=7.0)


def test_measurements_come_before_what_a_provider_says_and_that_before_estimates() -> None:
    rates = {PART: Rates(1.0, 1e30, 1e30, Overhead(100.0))}
    assert cost(CostModel(rates=rates), CHAIN, Priced()) == pytest.approx(3 + 1 + 1 + 7)
    assert cost(CostModel({PART: {"Abs_0": 2.0}}, {PART: Overhead(0.0)}, rates), CHAIN, Priced()) == pytest.approx(2 + 1 + 1)
    assert cost(CostModel(rates=rates), CHAIN, NumpyProvider()) == pytest.approx(3 + 100)


def test_a_second_instance_has_its_own_numbers_or_those_of_the_name() -> None:
    first = NumpyProvider(lambda node: node.op_type == "Abs")
    nodes = {PART: {"Abs_0": 1.0, "Neg_0": 1.0, "Relu_0": 1.0}}
    model = CostModel(nodes, {PART: Overhead(0.0), f"{PART}#2": Overhead(5.0)})
    assert cost(model, CHAIN, first, NumpyProvider()) == pytest.approx(3 + 5)
    assert cost(model.replace(nodes={**nodes, f"{PART}#2": {"Neg_0": 2.0, "Relu_0": 2.0}}), CHAIN, first, NumpyProvider()) == 10


def test_bodies_of_loops_count_their_trips() -> None:
    nodes = {CPU: {"Loop_0": 1.0, "Identity_0": 1.0, "Neg_0": 2.0}}
    model = CostModel(nodes, {CPU: Overhead(0.5)}, trips=4)
    assert cost(model, LOOP, CpuStandIn()) == pytest.approx(1 + 0.5 + 4 * (3 + 0.5))


def test_an_unknown_provider_is_taken_to_be_faster_than_the_cpu_and_dearer_to_start() -> None:
    text = "(float[1000,1000] x) => (float[1000,1000] y) { y = Abs(x) }"
    assert cost(CostModel(), text, NumpyProvider()) < cost(CostModel(), text, CpuStandIn())
    small = text.replace("1000", "2")
    assert cost(CostModel(), small, CpuStandIn()) < cost(CostModel(), small, NumpyProvider())


def test_it_is_saved_and_loaded_as_json(tmp_path: Path) -> None:
    model = CostModel({CPU: {"a": 1e-6}}, {BOX: Overhead(1, 2, 3)}, {CPU: CPU_RATES}, {"N": 3}, 5, 6)
    model.save(tmp_path / "costs.json")
    assert CostModel.load(tmp_path / "costs.json") == model
    (tmp_path / "other.json").write_text('{"format": "x"}')
    (tmp_path / "text.json").write_text("costs")
    for name in ("other", "text"):
        with pytest.raises(InvalidArgument, match="not a cost model"):
            CostModel.load(tmp_path / f"{name}.json")
    with pytest.raises(InvalidArgument, match="nodes"):
        CostModel.from_dict({"format": "ort-lite-costs-1"})
