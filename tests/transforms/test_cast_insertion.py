import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import to_numpy
from ort_lite.graph import Model
from ort_lite.inference.annotate import annotate
from ort_lite.plugins import plugins
from ort_lite_transforms.cast_insertion import insert_casts
from tests.text_graphs import evaluate, model, random_feeds, structure

SIGNATURE = "(float16[A,B] x) => (float16[A,B] z)"


def surrounded(
    body: str, ops: tuple[str, ...], signature: str = SIGNATURE, constants: str = "", round_all: bool = True
) -> Model:
    found = model(signature, body, constants)
    annotate(found.graph, plugins.shape_rules())
    wants = {node: "float32" for node in found.graph.all_nodes() if node.op_type in ops}
    insert_casts(found.graph, wants, {"float16", "bfloat16"} if round_all else {"bfloat16"})
    annotate(found.graph, plugins.shape_rules())
    return found


def expect(
    before: str,
    after: str,
    ops: tuple[str, ...],
    signature: str = SIGNATURE,
    constants: str = "",
    more: str = "",
    round_all: bool = True,
) -> None:
    changed = surrounded(before, ops, signature, constants, round_all)
    assert structure(changed.graph) == structure(model(signature, after, more or constants).graph), str(changed.graph)
    feeds = random_feeds(changed.graph)
    for x, y in zip(evaluate(model(signature, before, constants), feeds), evaluate(changed, feeds), strict=True):
        np.testing.assert_allclose(y.astype(np.float32), x.astype(np.float32), rtol=4e-3, atol=4e-3)


def test_one_node_is_surrounded() -> None:
    expect("{ z = Softplus(x) }", "{ a = Cast<to=1>(x) b = Softplus(a) z = Cast<to=10>(b) }", ("Softplus",))


def test_a_cast_of_bfloat16_is_of_a_version_that_takes_it() -> None:
    """Whatever the version of the node: onnxruntime's LayerNormalization is of opset 1."""
    found = model("(bfloat16[2,4] x, float[4] s) => (float[2,4] z)", "{ z = LayerNormalization(x, s) }", opset=9)
    annotate(found.graph, plugins.shape_rules())
    wants = dict.fromkeys(found.graph.all_nodes(), "float32")
    assert [cast.version for cast in insert_casts(found.graph, wants, {"bfloat16"})] == [13]


def test_every_result_of_a_chain_is_rounded() -> None:
    before = "{ a = Exp(x) z = Tanh(a) }"
    after = "{ x1 = Cast<to=1>(x) a1 = Exp(x1) a = Cast<to=10>(a1) a2 = Cast<to=1>(a) z1 = Tanh(a2) z = Cast<to=10>(z1) }"
    expect(before, after, ("Exp", "Tanh"))


def test_results_between_such_nodes_may_stay_as_they_are() -> None:
    before = "{ a = Exp(x) b = Tanh(a) z = Mul(a, b) }"
    after = "{ x1 = Cast<to=1>(x) a1 = Exp(x1) b1 = Tanh(a1) z1 = Mul(a1, b1) z = Cast<to=10>(z1) }"
    expect(before, after, ("Exp", "Tanh", "Mul"), round_all=False)


def test_a_cast_of_the_model_reads_a_result_that_is_rounded_everywhere() -> None:
    """The model's Cast stands before the inserted one, which must not take its place."""
    signature = "(float16[A,B] x) => (float[A,B] c, float16[A,B] z)"
    before = "{ a = Exp(x) c = Cast<to=1>(a) z = Neg(a) }"
    after = """{ x1 = Cast<to=1>(x) e = Exp(x1) a = Cast<to=10>(e) c = Cast<to=1>(a)
                  a1 = Cast<to=1>(a) n = Neg(a1) z = Cast<to=10>(n) }"""
    expect(before, after, ("Exp", "Neg"), signature)


def test_who_reads_a_result_in_its_own_type_has_it_rounded() -> None:
    before = "{ a = Exp(x) b = Neg(a) z = Tanh(a) }"
    after = "{ x1 = Cast<to=1>(x) a1 = Exp(x1) a = Cast<to=10>(a1) b = Neg(a) z1 = Tanh(a1) z = Cast<to=10>(z1) }"
    expect(before, after, ("Exp", "Tanh"), "(float16[A,B] x) => (float16[A,B] z, float16[A,B] b)", round_all=False)


def test_a_value_is_cast_once_for_all_its_readers() -> None:
    before = "{ a = Exp(x) b = Tanh(a) c = Softplus(x) z = Mul(b, a) }"
    after = """{ x1 = Cast<to=1>(x) a1 = Exp(x1) a = Cast<to=10>(a1) a2 = Cast<to=1>(a) b1 = Tanh(a2) b = Cast<to=10>(b1)
                  c1 = Softplus(x1) c = Cast<to=10>(c1) b2 = Cast<to=1>(b) z1 = Mul(b2, a2) z = Cast<to=10>(z1) }"""
    expect(before, after, ("Exp", "Tanh", "Softplus", "Mul"), "(float16[A,B] x) => (float16[A,B] z, float16[A,B] c)")


def test_a_node_that_stays_reads_the_narrow_value() -> None:
    before = "{ a = Exp(x) b = Neg(a) }"
    after = "{ x1 = Cast<to=1>(x) a1 = Exp(x1) a = Cast<to=10>(a1) b = Neg(a) }"
    expect(before, after, ("Exp",), "(float16[A,B] x) => (float16[A,B] b)")


def test_constants_are_converted_now() -> None:
    constants = "<float16[1] c = {2}>"
    after = "{ x1 = Cast<to=1>(x) a = Mul(x1, c) z = Cast<to=10>(a) }"
    expect("{ z = Mul(x, c) }", after, ("Mul",), constants=constants, more="<float[1] c = {2}>")


def test_other_types_stay() -> None:
    before = "{ z = Gather(x, i) }"
    after = "{ x1 = Cast<to=1>(x) a = Gather(x1, i) z = Cast<to=10>(a) }"
    expect(before, after, ("Gather",), "(float16[A,B] x, int64[A] i) => (float16[A,B] z)")


def test_nodes_of_nested_graphs_are_surrounded_there() -> None:
    before = """{ z = If (b) <then_branch = t () => (float16[A,B] p) { p = Exp(x) },
                              else_branch = e () => (float16[A,B] q) { q = Neg(x) }> }"""
    after = """{ z = If (b) <then_branch = t () => (float16[A,B] p) { x1 = Cast<to=1>(x) a = Exp(x1) p = Cast<to=10>(a) },
                             else_branch = e () => (float16[A,B] q) { q = Neg(x) }> }"""
    expect(before, after, ("Exp",), "(float16[A,B] x, bool b) => (float16[A,B] z)")


def test_a_node_that_has_the_type_already_is_left_alone() -> None:
    body = "{ z = Exp(x) }"
    assert structure(surrounded(body, ("Exp",), "(float[A] x) => (float[A] z)").graph) == structure(
        model("(float[A] x) => (float[A] z)", body).graph
    )


@pytest.mark.parametrize("node", ["Cast<to=6>(x)", "Greater(x, x)"])
def test_a_result_of_a_type_of_its_own_is_not_cast_back(node: str) -> None:
    found = surrounded(
        f"{{ z = {node} }}",
        (node.partition("(")[0].partition("<")[0],),
        "(float16[A] x) => (int32[A] z)".replace("int32", "int32" if "Cast" in node else "bool"),
    )
    assert [n.op_type for n in found.graph] == ["Cast", node.partition("(")[0].partition("<")[0]]


def test_casts_of_bfloat16_in_a_model_of_an_old_opset() -> None:
    """Cast took no bfloat16 before version 13; onnxruntime's LayerNormalization is in all opsets."""
    text = """<ir_version: 8, opset_import: ["": 9]> main (bfloat16[2,3] x, float[3] scale) => (float[2,3] y) {
        y = LayerNormalization(x, scale) }"""
    x, scale = np.array([[1, 2, 4], [0, 0.5, -1]], np.float32), np.array([1, -2, 0.5], np.float32)
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x.astype(to_numpy("bfloat16")), "scale": scale})
    centred = x - x.mean(1, keepdims=True)
    np.testing.assert_allclose(y, centred / np.sqrt(np.square(centred).mean(1, keepdims=True) + 1e-5) * scale, rtol=1e-2)
