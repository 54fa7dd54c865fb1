"""Cost models out of measurements. What is measured is looked at by hand-made delays, not by the clock of the machine."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.tools.verify import measure as measure_module
from ort_lite.tools.verify.measure import measure_costs
from tests.provider.numpy_provider import CpuStandIn, OtherDevice
from tests.provider.texts import plain

BOX, CPU = "BoxExecutionProvider", "CPUExecutionProvider"
MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> main (float[N,3] x, bool c) => (float[N,3] y) {
    a = Abs(x)  b = Neg(a)  d = Tanh(b)
    y = If (c) < then_branch = t () => (float[N,3] u) { u = Neg(d) }, else_branch = e () => (float[N,3] v) { v = Abs(d) } >
}""")
FEED = {"x": np.ones((5, 3), np.float32), "c": np.array(True)}


class Clock:
    """Stands still but for what the providers of the test take."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Timed(OtherDevice):
    """Each operator takes its seconds, a start one more; two nodes do not go together."""

    def __init__(self, clock: Clock, **seconds: float) -> None:
        super().__init__(lambda node: node.op_type in seconds)
        self.clock, self.seconds = clock, seconds

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [self._time(p, f) for p, f in zip(partitions, super().compile(partitions), strict=True)]

    def _time(self, partition: Partition, function: Any) -> CompiledPartition:
        if any(node.op_type == "Tanh" for node in partition.nodes):
            raise ValueError("not alone")

        def run(inputs: Sequence[Any]) -> Any:
            self.clock.now += 1 + sum(self.seconds[node.op_type] for node in partition.nodes)
            return function(inputs)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(measure_module, "time", made)
    return made


def test_each_node_is_timed_by_itself_and_the_shortest_is_the_start(clock: Clock) -> None:
    found = measure_costs(MODEL, FEED, [Timed(clock, Abs=2, Neg=5, Tanh=1), CpuStandIn()], plain(), runs=2)
    assert found.nodes[BOX] == pytest.approx({"Abs_0": 0, "Neg_0": 3})
    assert found.overheads[BOX].launch == pytest.approx(3)
    assert found.overheads[BOX].latency == 0.0
    assert found.nodes[CPU] == {"Abs_0": 0, "Neg_0": 0, "Tanh_0": 0, "If_0": 0}
    assert found.dims == {"N": 5}
    assert CostModel.from_dict(found.as_dict()).nodes == found.nodes


def test_a_measured_model_drives_the_strategy(clock: Clock) -> None:
    providers = [Timed(clock, Abs=2, Neg=5), CpuStandIn()]
    model = measure_costs(MODEL, FEED, providers, plain())
    planned = ort_lite.plan(MODEL, providers, plain(), partitioning=CostStrategy(model))
    assert {place.provider for place in planned.assignment.placements.values()} == {CPU}
