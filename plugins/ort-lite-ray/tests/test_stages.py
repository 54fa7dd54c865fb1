"""Where a partition is cut."""

from itertools import combinations, pairwise
from math import inf

import numpy as np
import onnx.parser
import pytest
from ort_lite_ray.stages import _bounds, stages

from ort_lite.errors import ProviderError
from ort_lite.inference import ShapeRules
from ort_lite.load.load import load
from ort_lite.provider import ExecutionProvider, Partition

TEXT = (
    "(float[64,64] x) => (float[64,64] z, float[64,64] s) <float[64,64] w>"
    "{ a = MatMul(x, w)  s = Relu(a)  b = MatMul(s, w)  c = Tanh(b)  z = Add(c, a) }"
)


def partition() -> Partition:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> main {TEXT.replace("w>", "w = {" + "1," * 4095 + "1}>")}'
    )
    graph = load(model).graph
    return Partition("p", ExecutionProvider(), tuple(graph), tuple(graph.inputs), tuple(graph.outputs), ShapeRules(()))


def test_stages_take_over_from_one_another() -> None:
    whole = partition()
    first, second = stages(whole, 2)
    assert (*first.nodes, *second.nodes) == whole.nodes
    assert [value.name for value in first.inputs] == ["x"]
    assert set(second.inputs) <= set(first.outputs)
    assert set(whole.outputs) <= {*first.outputs, *second.outputs}


def test_there_are_no_more_stages_than_nodes() -> None:
    assert [len(stage.nodes) for stage in stages(partition(), 9)] == [1] * 5


def test_memory_is_a_limit() -> None:
    found = stages(partition(), 2, 4 * 64 * 64)
    assert len(found) == 2
    with pytest.raises(ProviderError, match="its weights do not fit 2 actors of 100 bytes each"):
        stages(partition(), 2, 100)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_cuts_have_a_cheaper_dearest_stage(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, count, memory = 9, 3, 22
    seconds, weights = rng.integers(1, 9, n).tolist(), rng.integers(0, 9, n).tolist()
    crossing = [0, *rng.integers(0, 5, n - 1).tolist(), 0]

    def dearest(bounds: tuple[int, ...]) -> float:
        pairs = list(pairwise(bounds))
        if any(sum(weights[a:b]) > memory for a, b in pairs):
            return inf
        return float(max(sum(seconds[a:b]) + crossing[a] + crossing[b] for a, b in pairs))

    least = min(dearest((0, *cuts, n)) for cuts in combinations(range(1, n), count - 1))
    found = _bounds(seconds, crossing, weights, count, memory)
    assert (inf if found is None else dearest(tuple(found))) == least
