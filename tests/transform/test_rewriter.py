import numpy as np
import pytest

from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite.inference.annotate import annotate
from ort_lite.plugins import plugins
from ort_lite.shapes import symbol
from ort_lite.transform.patterns import Match
from ort_lite.transform.rewriter import Done, Rewriter, Skip, clash
from tests.text_graphs import model

SIGNATURE = "(float[A,3] x) => (float[A,3] z)"
CONSTANTS = "<float[1] c = {2}, float[3] row = {1, 2, 3}>"


def rewriter(body: str, signature: str = SIGNATURE, opset: int = 21) -> Rewriter:
    found = model(signature, body, CONSTANTS, opset)
    return Rewriter(found.graph, annotate(found.graph, plugins.shape_rules()), found.opset_imports)


def ops(graph: Graph) -> list[str]:
    return [node.op_type for node in graph]


def on(nodes: list[Node]) -> Match:
    return Match(tuple(nodes), {})


def test_a_new_node_has_a_type_a_name_a_version_and_its_place() -> None:
    rw = rewriter("{ a = Exp(x) z = Neg(a) }", opset=13)
    rw.begin((rw.graph.nodes[1],))
    value = rw.op("MatMul", rw.graph.inputs[0], rw.constant(np.ones((3, 5), np.float32), "w"))
    assert str(value.type) == "float32[A, 5]"
    assert value.producer is not None and value.producer.version == 13
    assert value.producer.name == "Neg_0/MatMul" and value.name == "z_1"
    assert ops(rw.graph) == ["Exp", "MatMul", "Neg"]


def test_the_node_that_replaces_others_has_their_names_and_its_helpers_have_names_behind_them() -> None:
    rw = rewriter("{ a = Exp(x) z = Neg(a) }")

    def rule(rw: Rewriter, root: Node, x: Value) -> Done | Skip:
        return rw.replace(root, rw.op("Sub", rw.op("Abs", x), rw.op("Abs", rw.op("Sqrt", x))))

    exp, neg = rw.graph.nodes
    assert rw.apply(rule, Match((neg, exp), {"root": neg, "x": rw.graph.inputs[0]})) == Done()
    assert [node.name for node in rw.graph] == ["Exp_0+Neg_0/Abs_1", "Exp_0+Neg_0/Sqrt", "Exp_0+Neg_0/Abs", "Exp_0+Neg_0"]
    last = rw.graph.nodes[-1]
    assert rw.apply(lambda rw, root: rw.replace(root, rw.op("Add", *root.inputs)), Match((last,), {"root": last})) == Done()
    assert rw.graph.nodes[-1].name == "Exp_0+Neg_0"


def test_a_rule_that_skips_leaves_the_name_to_the_next_one() -> None:
    rw = rewriter("{ a = Exp(x) z = Neg(a) }")
    exp, neg = rw.graph.nodes
    match = Match((neg, exp), {"root": neg, "x": rw.graph.inputs[0]})

    def skip(rw: Rewriter, root: Node, x: Value) -> Done | Skip:
        rw.op("Abs", x)
        return Skip("not now")

    assert rw.apply(skip, match) == Skip("not now")
    assert rw.apply(lambda rw, root, x: rw.replace(root, rw.op("Abs", x)), match) == Done()
    assert [node.name for node in rw.graph] == ["Exp_0+Neg_0"]


def test_attributes_of_another_node_are_taken_over_and_none_is_left_out() -> None:
    rw = rewriter("{ a = Elu<alpha=0.5>(x) z = Neg(a) }")
    rw.begin((rw.graph.nodes[1],))
    node = rw.node("Selu", [rw.graph.inputs[0], None], like=rw.graph.nodes[0], gamma=2.0, beta=None)
    assert {key: attribute.value for key, attribute in node.attributes.items()} == {"alpha": 0.5, "gamma": 2.0}
    assert len(node.inputs) == 1


def test_a_new_domain_is_imported() -> None:
    rw = rewriter("{ z = Neg(x) }")
    del rw.opset_imports["com.microsoft"]
    rw.begin((rw.graph.nodes[0],))
    assert rw.op("Gelu", rw.graph.inputs[0], domain="com.microsoft").type == rw.graph.inputs[0].type
    assert rw.opset_imports["com.microsoft"] == 1


def test_replacing_takes_what_nobody_reads_any_more() -> None:
    rw = rewriter("{ a = Exp(x) b = Abs(a) d = Tanh(b) z = Neg(d) }")
    assert rw.replace(rw.graph.nodes[2], rw.graph.inputs[0]) == Done()
    assert ops(rw.graph) == ["Neg"]
    assert rw.removed == ["Tanh_0", "Abs_0", "Exp_0"]


def test_replacing_keeps_what_others_read() -> None:
    rw = rewriter("{ a = Exp(x) b = Abs(a) z = Add(a, b) }")
    assert rw.replace(rw.graph.nodes[1], rw.graph.inputs[0]) == Done()
    assert ops(rw.graph) == ["Exp", "Add"]


def test_a_type_that_no_rule_infers_is_that_of_the_value_replaced() -> None:
    rw = rewriter("{ a = Exp(x) z = Neg(a) }")
    node = rw.graph.nodes[0]
    rw.begin((node,))
    value = rw.op("Unheard", rw.graph.inputs[0], domain="nowhere")
    assert value.type is None
    assert rw.replace(node, value) == Done()
    assert str(value.type) == "float32[A, 3]"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{ z = Neg(x) }", "z is a graph output, and x comes from no node"),
        ("{ a = Cast<to=7>(x) b = Cast<to=1>(a) z = Neg(b) }", "would change its type from int64[A, 3] to float32[A, 3]"),
        ("{ a = ReduceSum<keepdims=0>(x) b = Add(a, c) z = Add(x, b) }", "would change its type"),
        ("{ a = Concat<axis=1>(x, x) b = ReduceSum(a) z = Add(x, b) }", "would change its type from float32[A, 6]"),
    ],
)
def test_a_replacement_that_is_not_possible_says_why_and_changes_nothing(body: str, reason: str) -> None:
    rw = rewriter(body)
    before = str(rw.graph)
    result = rw.replace(rw.graph.nodes[0], rw.graph.inputs[0])
    assert isinstance(result, Skip) and reason in result.reason
    assert str(rw.graph) == before


def test_an_output_that_is_used_needs_a_value() -> None:
    body = "{ a, b = Split<axis=0, num_outputs=2>(x) d = Exp(y) z = Add(d, b) }"
    rw = rewriter(body, "(float[4,3] x, float[2,3] y) => (float[2,3] z)")
    split, exp, _ = rw.graph.nodes
    result = rw.replace(split, exp.output)
    assert isinstance(result, Skip) and "output 1 of Split" in result.reason


def test_one_value_cannot_be_two_outputs() -> None:
    body = "{ a = Exp(x) y, z = Split<axis=0, num_outputs=2>(x) u = Neg(a) }"
    rw = rewriter(body, "(float[4,3] x) => (float[2,3] y, float[2,3] z, float[4,3] u)")
    exp, split, _ = rw.graph.nodes
    exp.output.type = TensorType("float32", (2, 3))
    result = rw.replace(split, exp.output, exp.output)
    assert isinstance(result, Skip) and "cannot be two graph outputs" in result.reason


def test_folding_keeps_the_name() -> None:
    rw = rewriter("{ a = Neg(c) z = Add(x, a) }")
    assert rw.fold(rw.graph.nodes[0], np.array([-2], np.float32)) == Done()
    assert ops(rw.graph) == ["Add"]
    np.testing.assert_array_equal(rw.graph.initializers["a"].constant, [-2])


def test_a_rule_that_skips_leaves_no_trace() -> None:
    rw = rewriter("{ a = Exp(x) z = Neg(a) }")
    before = str(rw.graph)

    def function(rw: Rewriter) -> Skip:
        w = rw.constant(np.ones((3, 3), np.float32), "w")
        rw.op("Abs", rw.op("MatMul", rw.graph.inputs[0], w))
        return Skip("changed its mind")

    assert rw.apply(function, on([rw.graph.nodes[1]])) == Skip("changed its mind")
    assert str(rw.graph) == before


def test_a_private_match_has_no_readers_outside() -> None:
    rw = rewriter("{ a = Exp(x) b = Neg(a) z = Add(a, b) }")
    exp, neg, add = rw.graph.nodes
    result = rw.apply(lambda rw: Done(), on([neg, exp]), private=True)
    assert result == Skip("a has other readers")
    assert rw.apply(lambda rw: Done(), on([add, neg, exp]), private=True) == Done()


def test_readers_of_a_replaced_value_are_touched_and_those_that_learn_something_are_stale() -> None:
    body = "{ n = Cast<to=7>(c) s = Shape(x) t = Add(s, n) z = Neg(x) u = Abs(t) }"
    rw = rewriter(body, "(float[A,3] x) => (float[A,3] z, int64[2] u)")
    cast, _, add, *_ = rw.graph.nodes
    rw.inference.infos[cast.output] = Info(TensorType("int64", (1,)))
    rw.fold(cast, np.array([2], np.int64))
    assert add in rw.touched and add in rw.stale


def test_an_overridable_initializer_is_no_constant() -> None:
    rw = rewriter("{ z = Add(x, d) }", "(float[A,3] x, float[1] d = {1}) => (float[A,3] z)")
    value = rw.graph.initializers["d"]
    assert rw.array(value) is None and rw.number(value) is None
    assert rw.number(rw.graph.initializers["c"]) == 2.0
    assert rw.number(rw.graph.initializers["row"]) is None


def test_what_a_nested_graph_captured_goes_with_it() -> None:
    body = """{ a = Exp(x) y = If (b) <then_branch = t () => (float[A] p) { p = Neg(a) },
                                        else_branch = e () => (float[A] q) { q = Abs(a) }> z = Tanh(y) }"""
    rw = rewriter(body, "(float[A] x, bool b) => (float[A] z)")
    assert rw.replace(rw.graph.nodes[1], rw.graph.inputs[0]) == Done()
    assert ops(rw.graph) == ["Tanh"]


def test_a_node_needs_a_place() -> None:
    with pytest.raises(ValueError, match=r"set rewriter\.anchor"):
        rewriter("{ z = Neg(x) }").op("Neg", Value("a"))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (None, TensorType("float32"), False),
        (TensorType("float32", (2,)), TensorType("float32"), False),
        (TensorType("float32", (2,)), TensorType("float16", (2,)), True),
        (TensorType("float32", (2,)), TensorType("float32", (1, 2)), True),
        (TensorType("float32", (2,)), TensorType("float32", (3,)), True),
        (TensorType("float32", (2,)), TensorType("float32", (symbol("A"),)), False),
        (TensorType("float32", (symbol("A"),)), TensorType("float32", (symbol("A") + 1,)), True),
    ],
)
def test_types_clash_where_no_value_has_both(a: TensorType | None, b: TensorType, expected: bool) -> None:
    assert clash(a, b) == expected
