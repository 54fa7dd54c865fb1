"""Transformed models are saved in the operators that their own opset has, and come back as they were."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.graph import Graph, Model, Node, TensorType, Value
from ort_lite.options import GraphOptimizationLevel
from ort_lite_transforms.older_forms import older_form
from tests.session.test_context import Saving
from tests.text_graphs import model as parsed

IMAGES = """(float[N,3,6,6] x, float[4,3,3,3] w1, float[4] s, float[4] b, float[4] m, float[4] v, float[4,4,1,1] w2, float[5,4] w3)
    => (float[N,5] y) <float three = {3}, float zero = {0}, float six = {6}> {
    c = Conv<pads=[1, 1, 1, 1]>(x, w1)
    n = BatchNormalization(c, s, b, m, v)
    d = Relu(n)
    e = Conv(d, w2)
    a = Add(e, d)
    g = GlobalAveragePool(a)
    p = Add(g, three)
    r = Clip(p, zero, six)
    q = Mul(g, r)
    h = Div(q, six)
    f = Flatten(h)
    l = Gemm<transB=1>(f, w3)
    y = Softmax<axis=1>(l)
}"""

NORM = """m{0} = ReduceMean<axes=[-1]>({1}) d{0} = Sub({1}, m{0}) s{0} = Pow(d{0}, two) v{0} = ReduceMean<axes=[-1]>(s{0})
    e{0} = Add(v{0}, eps) r{0} = Sqrt(e{0}) q{0} = Div(d{0}, r{0}) p{0} = Mul(q{0}, scale) {2} = Add(p{0}, bias)"""
SENTENCES = f"""(int64[B,S] ids, float[B,S] mask, float[9,8] words, float[8] scale, float[8] bias,
     float[8,8] wq, float[8,16] wi, float[16,8] wo) => (float[B,S,8] y)
    <float two = {{2}}, float eps = {{0.001}}, float one = {{1}}, float half = {{0.5}}, float root = {{1.4142135}},
     float low = {{-9}}> {{
    w = Gather(words, ids)
    {NORM.format(0, "w", "x")}
    q = MatMul(x, wq)
    t = Transpose<perm=[0, 2, 1]>(x)
    k = MatMul(q, t)
    u = UNSQUEEZE
    o = Sub(one, u)
    z = Mul(o, low)
    j = Add(k, z)
    a = Softmax<axis=2>(j)
    c = MatMul(a, x)
    f = Add(c, x)
    {NORM.format(1, "f", "g")}
    h = MatMul(g, wi)
    i = Div(h, root)
    n = Erf(i)
    l = Add(n, one)
    hl = Mul(h, l)
    act = Mul(hl, half)
    y = MatMul(act, wo)
}}"""


def with_weights(text: str, opset: int, given: tuple[str, ...]) -> Model:
    """A model whose inputs are `given`; what the text has beside them are weights."""
    axes = "Unsqueeze<axes=[1]>(mask)" if opset < 13 else "Unsqueeze(mask, at)"
    text = text.replace("UNSQUEEZE", axes).replace("<float two", "<int64[1] at = {1}, float two")
    model = ort_lite.load(onnx.parser.parse_model(f'<ir_version: 7, opset_import: ["": {opset}]> main {text}'))
    random = np.random.default_rng(7)
    for value in [value for value in model.graph.inputs if value.name not in given]:
        assert isinstance(value.type, TensorType) and value.type.shape is not None
        value.constant = random.uniform(0.1, 1, [dim for dim in value.type.shape if isinstance(dim, int)]).astype(np.float32)
        model.graph.inputs.remove(value)
        model.graph.add_initializer(value)
    return model


def outputs(session: ort_lite.InferenceSession, feed: dict[str, Array]) -> Array:
    [y] = session.run(None, feed)
    return np.asarray(y)


IMAGE = {"x": np.linspace(-2, 2, 216, dtype=np.float32).reshape(2, 3, 6, 6)}
SENTENCE = {"ids": np.array([[1, 8, 3], [0, 2, 2]]), "mask": np.array([[1, 1, 1], [1, 1, 0]], np.float32)}


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize(
    ("text", "feed", "composed"),
    [(IMAGES, IMAGE, "HardSwish"), (SENTENCES, SENTENCE, "LayerNormalization")],
    ids=["images", "sentences"],
)
def test_a_saved_model_is_valid_and_the_same_when_it_is_loaded_again(
    text: str, feed: dict[str, Array], composed: str, opset: int, tmp_path: Path
) -> None:
    options, path = ort_lite.SessionOptions(), tmp_path / "optimized.onnx"
    options.optimized_model_filepath = str(path)
    source = with_weights(text, opset, tuple(feed))
    first = ort_lite.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    saved = onnx.load(path)
    onnx.checker.check_model(saved)
    assert {entry.domain: entry.version for entry in saved.opset_import}[""] == opset
    assert composed not in {node.op_type for node in saved.graph.node}
    again = ort_lite.InferenceSession(path, providers=["CPUExecutionProvider"])
    for session in (first, again):
        [fused] = session._stage_results.compiled.fused.values()
        assert composed in {node.op_type for node in fused.partition.nodes}
    want = outputs(first, feed)
    np.testing.assert_array_equal(outputs(again, feed), want)
    theirs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)[0]
    np.testing.assert_allclose(theirs, want, rtol=1e-4, atol=1e-5)


def test_a_model_of_compiled_partitions_is_saved_in_the_operators_of_its_opset_too(tmp_path: Path) -> None:
    text = """(float[N] x) => (float[N] y) <float three = {3}, float zero = {0}, float six = {6}> {
        p = Add(x, three) r = Clip(p, zero, six) q = Mul(x, r) h = Div(q, six) y = Neg(h) }"""
    model, x = with_weights(text, 11, ("x",)), np.linspace(-5, 5, 7, dtype=np.float32)
    first = ort_lite.InferenceSession(model, providers=[Saving(lambda node: node.op_type == "Neg"), "CPUExecutionProvider"])
    first.save_compiled(tmp_path / "compiled.onnx")
    kinds = [node.op_type for node in onnx.load(tmp_path / "compiled.onnx").graph.node]
    assert kinds == ["Add", "Clip", "Mul", "Div", "EPContext"]
    again = ort_lite.InferenceSession(tmp_path / "compiled.onnx", providers=[Saving(), "CPUExecutionProvider"])
    np.testing.assert_array_equal(outputs(again, {"x": x}), outputs(first, {"x": x}))


def test_saving_changes_nothing_in_the_session(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    model = with_weights(SENTENCES, 11, tuple(SENTENCE))
    plain = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
    saving = ort_lite.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    assert str(saving.explain()) == str(plain.explain())


FUNCTION = """<ir_version: 8, opset_import: ["": {0}, "local": 1]>
main (float[N,3,4] x) => (float[N,3,4] y) <float[4] s = {{1, 2, 3, 4}}, float[4] t = {{4, 3, 2, 1}}> {{
    n = local.newer(x, s, t)
    y = Neg(n)
}}
<domain: "local", opset_import: ["": 17]>
newer (x, s, t) => (y) {{ n = LayerNormalization(x, s, t) y = HardSwish(n) }}"""


@pytest.mark.parametrize(("opset", "newer"), [(11, set[str]()), (14, {"HardSwish"}), (17, {"HardSwish", "LayerNormalization"})])
def test_operators_of_an_inlined_function_are_saved_in_those_that_the_model_s_opset_has(
    opset: int, newer: set[str], tmp_path: Path
) -> None:
    options, path = ort_lite.SessionOptions(), tmp_path / "optimized.onnx"
    options.optimized_model_filepath = str(path)
    feed = {"x": np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 3, 4)}
    session = ort_lite.InferenceSession(
        onnx.parser.parse_model(FUNCTION.format(opset)), options, providers=["CPUExecutionProvider"]
    )
    saved = onnx.load(path)
    assert {entry.domain: entry.version for entry in saved.opset_import}[""] == opset
    assert {node.op_type for node in saved.graph.node} & {"HardSwish", "LayerNormalization"} == newer
    theirs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)[0]
    np.testing.assert_allclose(theirs, outputs(session, feed), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "body", "version"),
    [
        ("float[]", "{ y = LayerNormalization(x, s) }", 13),
        ("float[2,4]", "{ y, m = LayerNormalization(x, s) }", 13),
        ("float[2,4]", "{ y = LayerNormalization(x, s) }", 6),
        ("float[2,4]", "{ y = Gelu(x) }", 13),
    ],
    ids=["an open rank", "its mean", "before broadcasting", "another operator"],
)
def test_what_has_no_older_form_stays(x: str, body: str, version: int) -> None:
    graph = parsed(f"({x} x, float[4] s) => ({x} y)", body).graph
    before = str(graph)
    [node] = graph
    assert not older_form(node, version)
    assert str(graph) == before


@pytest.mark.parametrize(("axis", "axes"), [(-1, [2]), (1, [1, 2]), (-3, [0, 1, 2])])
def test_the_axes_of_a_normalisation_are_counted_from_the_front(axis: int, axes: list[int]) -> None:
    x = Value("x", TensorType("float64", (2, 3, 4)))
    node = Node("LayerNormalization", [x, Value("s", x.type)], [Value("y", x.type)], {"axis": axis}, version=17, name="norm")
    graph = Graph("g", [value for value in node.inputs if value is not None])
    graph.append(node)
    graph.set_outputs([node.output])
    assert older_form(node, 13)
    means = [node.attr("axes") for node in graph if node.op_type == "ReduceMean"]
    assert means == [axes, axes]
    assert (graph.outputs[0].name, graph.outputs[0].type) == ("y", x.type)
    assert {node.version for node in graph} == {13}


def test_nothing_is_composed_without_optimisation(tmp_path: Path) -> None:
    options, path = ort_lite.SessionOptions(), tmp_path / "optimized.onnx"
    options.optimized_model_filepath, options.graph_optimization_level = str(path), GraphOptimizationLevel.ORT_DISABLE_ALL
    ort_lite.InferenceSession(with_weights(IMAGES, 11, tuple(IMAGE)), options, providers=["CPUExecutionProvider"])
    assert len(onnx.load(path).graph.node) == IMAGES.count(" = ") - 3
