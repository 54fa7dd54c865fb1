"""Channels-last and back: the graph computes the same, and Transposes that undo each other do not stay."""

import numpy as np
import onnx.parser
import pytest

from ort_lite.graph import Graph, Node
from ort_lite.inference.annotate import annotate
from ort_lite.plugins import plugins
from ort_lite.serialization.load import load
from ort_lite.transform import NHWC_DOMAIN
from ort_lite_transforms.layout_conversion import ChannelsLast
from ort_lite_transforms.schemas import operators_with

TEXT = """(float[N,2,4,5] x, float[3,2,1,1] w) => (float[N,3,4,5] c, float[N,3,4,5] y, float[N,3,1,1] z) {
    c = Conv(x, w)
    r = Relu(c)
    p = MaxPool<kernel_shape=[1,1]>(r)
    q = AveragePool<kernel_shape=[1,1]>(p)
    y = LRN<size=1>(q)
    line = GlobalLpPool(q)
    z = Tanh(line)
}"""


def graph(text: str = TEXT) -> Graph:
    made = load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')).graph
    annotate(made, plugins.shape_rules())
    return made


def operators(made: Graph) -> list[str]:
    return [node.op_type + "*" * (node.domain == NHWC_DOMAIN) for node in made]


def test_nodes_with_a_layout_move_and_types_follow() -> None:
    made = graph()
    inserted = ChannelsLast().convert(made, list(made))
    assert operators(made) == [
        "Transpose",
        "Conv*",
        "Transpose",
        "Relu",
        "MaxPool*",
        "AveragePool*",
        "LRN*",
        "Transpose",
        "GlobalLpPool*",
        "Tanh",
        "Transpose",
    ]
    assert inserted == [node for node in made if node.op_type == "Transpose"]
    conv = made.nodes[1]
    assert [str(value.type) for value in (conv.inputs[0], conv.output) if value is not None] == [
        "float32[N, 4, 5, 2]",
        "float32[N, 4, 5, 3]",
    ]
    assert conv.inputs[1] is made.inputs[1], "weights stay as they are"
    assert [value.name for value in made.outputs] == ["c", "y", "z"]
    for node in made:
        if node.op_type == "Transpose":
            (source,), perm = node.inputs, node.attr("perm")
            assert source is not None and source.shape is not None
            assert tuple(source.shape[k] for k in perm) == node.output.shape


@pytest.mark.parametrize(
    "keep", [(), ("Conv",), ("MaxPool", "AveragePool"), ("AveragePool",), tuple(operators_with("image"))], ids=str
)
def test_what_is_restored_is_as_it_was(keep: tuple[str, ...]) -> None:
    made, before = graph(), operators(graph())
    conversion = ChannelsLast()
    conversion.convert(made, list(made))
    conversion.restore(made, [node for node in made if node.op_type not in keep])
    plain = [name for name in operators(made) if name != "Transpose"]
    assert [name.rstrip("*") for name in plain] == before
    assert {name for name in plain if name.endswith("*")} == {f"{name}*" for name in keep if name in before}
    assert keep or operators(made) == before
    assert [value.name for value in made.outputs] == ["c", "y", "z"]


def shape_of(node: Node) -> tuple[int, ...]:
    """What NumPy makes of the node's operands."""
    arrays = [
        np.zeros([dim for dim in v.shape if isinstance(dim, int)]) for v in node.inputs if v is not None and v.shape is not None
    ]
    if node.op_type == "Transpose":
        turned: tuple[int, ...] = arrays[0].transpose(node.attr("perm")).shape
        return turned
    return np.concatenate(arrays, node.attr("axis")).shape if node.op_type == "Concat" else np.broadcast(*arrays).shape


IMAGE = "(float[1,2,4,4] x, float[2,2,1,1] w, float[1,2,4,4] z) => (float[1,{}] y) <float[2,1,1] k = {{1, 2}}, float s = {{3}}> {{{}}}"


@pytest.mark.parametrize(
    ("result", "body", "expected"),
    [
        ("2,4,4", "a = Conv(x, w) b = Relu(a) c = Conv(b, w) y = Relu(c)", "T Conv* Relu Conv* Relu T"),
        ("2,4,4", "a = Conv(x, w) b = Relu(a) c = Conv(b, w) d = Add(c, b) y = Relu(d)", "T Conv* Relu Conv* Add Relu T"),
        ("2,4,4", "a = Conv(x, w) b = Sigmoid(a) c = Mul(a, b) y = Conv(c, w)", "T Conv* Sigmoid Mul Conv* T"),
        ("2,4,4", "a = Conv(x, w) b = Add(a, k) c = Mul(s, b) y = Conv(c, w)", "T Conv* Add Mul Conv* T"),
        (
            "2,4,4",
            "a = Conv(x, w) b = GlobalAveragePool(a) c = Mul(a, b) y = Conv(c, w)",
            "T Conv* GlobalAveragePool* Mul Conv* T",
        ),
        ("4,4,4", "a = Conv(x, w) b = Relu(a) c = Conv(b, w) y = Concat<axis = -3>(b, c)", "T Conv* Relu Conv* Concat T"),
        ("2,4,4", "a = Conv(x, w) b = Add(a, z) y = Conv(b, w)", "T Conv* T Add T Conv* T"),
        ("2,4,4", "a = Conv(x, w) b = Relu(a) c = Softmax(a) y = Add(b, c)", "T Conv* T Relu Softmax Add"),
        (
            "2,4,4",
            "a = Conv(x, w) b = Relu(a) c = Softmax(a) d = Conv(b, w) y = Add(c, d)",
            "T Conv* T Relu Softmax Conv* T Add",
        ),
    ],
)
def test_transposes_move_behind_what_any_layout_suits_where_one_goes_by_it(result: str, body: str, expected: str) -> None:
    made = graph(IMAGE.format(result, body))
    before = operators(made)
    conversion = ChannelsLast()
    conversion.convert(made, list(made))
    assert " ".join(operators(made)).replace("Transpose", "T") == expected
    for node in made:
        if not node.domain:
            assert node.output.shape == shape_of(node), str(node)
    conversion.restore(made, list(made))
    assert operators(made) == before


@pytest.mark.parametrize(
    "text",
    [
        "(float[N,2] x) => (float[N,2] y) { y = LRN<size=1>(x) }",
        "(float[N,2,4,4] x) => (float[N,2,4,4] y) { y = Relu(x) }",
        "(float[N,2,4,4] x) => (float[N,2,4,4] y, int64[N,2,4,4] i) { y, i = MaxPool<kernel_shape=[1,1]>(x) }",
        "(float x) => (float y) { y = own.Conv(x, x) }",
    ],
    ids=["no image", "no layout", "two images", "another domain"],
)
def test_others_are_left_alone(text: str) -> None:
    made = load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "own": 1]> main {text}')).graph
    before = str(made)
    assert ChannelsLast().convert(made, list(made)) == []
    assert str(made) == before
