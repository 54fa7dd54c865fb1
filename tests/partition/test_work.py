"""Operations and bytes of a node, against counts by hand."""

import onnx.parser
import pytest

from ort_lite.inference.annotate import annotate
from ort_lite.load.load import load
from ort_lite.partition.cost.work import sizes_for, work
from ort_lite.plugins import shape_rules


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("(float[N,4] a, float[4,5] b) => (float[N,5] y) { y = MatMul(a, b) }", 2 * 3 * 4 * 5),
        ("(float[4,N] a, float[4,5] b) => (float[N,5] y) { y = Gemm <transA=1> (a, b) }", 2 * 3 * 4 * 5),
        ("(float[1,2,8,8] a, float[6,2,3,3] b) => (float[1,6,6,6] y) { y = Conv(a, b) }", 2 * (6 * 6 * 6) * (2 * 3 * 3)),
        ("(float[1,2,8,8] a, float[2,6,3,3] b) => (float[1,6,10,10] y) { y = ConvTranspose(a, b) }", 2 * (2 * 8 * 8) * (6 * 9)),
        ("(float[N,4] a) => (float[N,4] y) { y = Tanh(a) }", 8 * 12),
        ("(float[N,4] a) => (float[1] y) { y = ReduceSum <keepdims=0> (a) }", 12),
        ("(float[N,4] a) => (float[N,4] y) { y = Identity(a) }", 0),
        (
            "(float[2,3,4] a, float[1,20,4] w, float[1,20,5] r) => (float[2,1,3,5] y) { y = LSTM <hidden_size=5> (a, w, r) }",
            2 * (2 * 3) * (20 * 4 + 20 * 5),
        ),
    ],
    ids=lambda x: x.partition("= ")[2][:14] if isinstance(x, str) else str(x),
)
def test_operations(text: str, operations: float) -> None:
    graph = load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')).graph
    annotate(graph, shape_rules())
    assert work(graph.nodes[0], sizes_for({"N": 3}, 100))[0] == pytest.approx(operations)


def test_bytes_are_those_of_inputs_constants_and_outputs_and_open_dimensions_are_assumed() -> None:
    text = "(float[N,4] a) => (float[N,5] y) <float[4,5] b = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> { y = MatMul(a, b) }"
    graph = load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')).graph
    annotate(graph, shape_rules())
    assert work(graph.nodes[0], sizes_for({}, 7))[1] == 4 * (7 * 4 + 20 + 7 * 5)
