"""NodeArgs: declared types, and inferred types merged as onnxruntime does."""

import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.graph import Graph, Model, SequenceType, TensorType, Type, Value
from ort_lite.inference import ShapeRules
from ort_lite.inference.declared import merge_outputs
from ort_lite.session.metadata import NodeArg, node_arg, node_args
from ort_lite.shapes import Dim, symbol

N, M, OPEN = symbol("N"), symbol("M"), symbol("x_0")


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (TensorType("float32", (N, 3, OPEN)), NodeArg("x", "tensor(float)", ["N", 3, None])),
        (TensorType("string", ()), NodeArg("x", "tensor(string)", [])),
        (TensorType("bool"), NodeArg("x", "tensor(bool)", [])),
        (SequenceType(TensorType("int64")), NodeArg("x", "seq(tensor(int64))", [])),
    ],
)
def test_a_value_is_described(type_: Type, expected: NodeArg) -> None:
    assert node_args([Value("x", type_)], {"x_0": ""}) == [expected]


def test_an_output_without_an_inferred_type_keeps_its_declaration() -> None:
    declared = TensorType("float32", (M, 7))
    model = Model(Graph("g", [Value("x", TensorType("float32", (N,)))]), {"": 17})
    model.graph.set_outputs([Value("y", None)])
    assert merge_outputs(model.graph, [declared], {}, ShapeRules([])) == [declared]


@pytest.mark.parametrize(
    ("declared", "inferred", "shape"),
    [
        ((M, 7), (N, 7), ["M", 7]),
        ((M, 7), (N, 4), [None, None]),
        ((4, 7), (2, 7), [None, 7]),
        ((2, 7), (N, 7), [2, 7]),
        ((M, M), (2, 7), [2, 7]),
        ((OPEN, OPEN), (N, 7), ["N", 7]),
        ((OPEN, 7), (N + 1, 7), [None, 7]),
        ((OPEN, 7), (M, 7), [None, 7]),  # no input has it
        ((M, 7), None, ["M", 7]),
        (None, (N, 7), ["N", 7]),
        (None, (2 * N, 7), [None, 7]),
        ((M, 7), (N, 7, 8), ["M", 7]),  # another rank
    ],
    ids=str,
)
def test_declared_and_inferred_dimensions_are_merged(
    declared: tuple[Dim, ...] | None, inferred: tuple[Dim, ...] | None, shape: list[int | str | None]
) -> None:
    model = Model(Graph("g", [Value("x", TensorType("float32", (N,)))]), {"": 17}, unnamed_dims={"x_0": ""})
    model.graph.set_outputs([Value("y", TensorType("float16", inferred))])
    (type_,) = merge_outputs(model.graph, [TensorType("float32", declared)], model.unnamed_dims, ShapeRules([]))
    assert node_arg("y", type_, model.unnamed_dims) == NodeArg("y", "tensor(float16)", shape)


CONTRADICTIONS = [
    ("N, 3", "M, 7"),
    ("N, 3", "M, 3"),
    ("N, 3", "2, 3"),
    ("2, 3", "M, K"),
    ("2, 3", "4, 3"),
    ("N, 3", "N, 3"),
    ("N, N", "A, B"),
]


@pytest.mark.parametrize(("given", "declared"), CONTRADICTIONS)
def test_outputs_are_described_as_in_onnxruntime(given: str, declared: str) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[{given}] x) => (float[{declared}] y) {{ y = Relu(x) }}'
    data = onnx.parser.parse_model(text).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    theirs = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    ours = ort_lite.InferenceSession(data, providers=["CPUExecutionProvider"])
    assert [arg.shape for arg in ours.get_outputs()] == [arg.shape for arg in theirs.get_outputs()]
