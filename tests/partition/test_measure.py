"""Cost models out of measurements. What is measured is looked at by hand-made delays, not by the clock of the machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.provider import CompiledPartition, Overhead, Partition
from ort_lite.tools.verify import measure as measure_module
from ort_lite.tools.verify.measure import costs_of_profile, measure_costs
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice

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
        return [self._timed(p, f) for p, f in zip(partitions, super().compile(partitions), strict=True)]

    def _timed(self, partition: Partition, function: Any) -> CompiledPartition:
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


def plain() -> ort_lite.SessionOptions:
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


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


def test_a_profile_gives_the_means_of_its_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = plain()
    options.enable_profiling = True
    chain = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> main (float[3] x) => (float[3] y) { a = Abs(x)  y = Neg(a) }'
    )
    made = ort_lite.InferenceSession(
        chain, options, providers=[NumpyProvider(lambda node: node.op_type == "Abs"), CpuStandIn()]
    )
    made.run(None, {"x": np.ones(3, np.float32)})
    path = made.end_profiling()
    events = Path(path).read_text(encoding="utf-8")
    Path("given.json").write_text(
        _with_durations(events, NumpyExecutionProvider_0=50, CPUExecutionProvider_0=8), encoding="utf-8"
    )
    known = CostModel(overheads={"NumpyExecutionProvider": Overhead(1e-5), CPU: Overhead(0.0)})
    found = costs_of_profile("given.json", made.explain().assignment, known)
    assert found.nodes["NumpyExecutionProvider"] == pytest.approx({"Abs_0": 4e-5})
    assert found.nodes[CPU] == pytest.approx({"Neg_0": 8e-6})
    Path("other.json").write_text('[{"cat": "Step"}]', encoding="utf-8")
    with pytest.raises(InvalidArgument, match="is not a profile"):
        costs_of_profile("other.json", made.explain().assignment)


def _with_durations(text: str, **microseconds: int) -> str:
    import json

    events = json.loads(text)
    for event in events:
        if event["cat"] == "Step":
            event["dur"] = microseconds[event["args"]["op_name"]]
    return json.dumps(events)
