"""Operations and bytes of a node, against counts by hand."""

import pytest

from ort_lite.graph import Graph
from ort_lite.inference.annotate import annotate
from ort_lite.partition.cost.work import sizes_for, work
from ort_lite.plugins import shape_rules
from tests.provider.texts import graph


def annotated(text: str) -> Graph:
    made = graph(text)
    annotate(made, shape_rules())
    return made


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("(float[N,4] a, float[4,5] b) => (float[N,5] y) { y = MatMul(a, b) }", 2 * 3 * 4 * 5),
        ("(float[N,4] a) => (float[N,4] y) { y = Tanh(a) }", 8 * 12),
        ("(float[N,4] a) => (float[1] y) { y = ReduceSum <keepdims=0> (a) }", 12),
        ("(float[N,4] a) => (float[N,4] y) { y = Identity(a) }", 0),
    ],
)
def test_operations(text: str, operations: float) -> None:
    """Those that are exact: test_cost_operations.py."""
    assert work(annotated(text).nodes[0], sizes_for({"N": 3}, 100))[0] == pytest.approx(operations)


def test_bytes_are_those_of_inputs_constants_and_outputs_and_open_dimensions_are_assumed() -> None:
    text = "(float[N,4] a) => (float[N,5] y) <float[4,5] b = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> { y = MatMul(a, b) }"
    assert work(annotated(text).nodes[0], sizes_for({}, 7))[1] == 4 * (7 * 4 + 20 + 7 * 5)
