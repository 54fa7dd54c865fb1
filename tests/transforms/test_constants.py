import numpy as np

from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.constants import constants_to_initializers
from tests.text_graphs import check, model, weights


def test_a_constant_node_becomes_an_initializer() -> None:
    before = "{ c = Constant<value = float[2] {1, 2}>() z = Add(x, c) }"
    after = "{ z = Add(x, c) }"
    check(constants_to_initializers, "(float[A,2] x) => (float[A,2] z)", before, after, after_constants="<float[2] c = {1, 2}>")


def test_plain_values_have_the_types_of_the_specification() -> None:
    body = """{ a = Constant<value_float = 1.5>() b = Constant<value_floats = [1.5, 2.0]>() c = Constant<value_int = 2>()
                d = Constant<value_ints = [3, 4]>() e = Constant<value_string = "s">()
                u = Add(x, a) v = Mul(u, b) w = Reshape(v, d) y = Gather(w, c) t = Equal(s, e) }"""
    graph = model("(float[6,2] x, string[1] s) => (float[2] y, bool[1] t)", body)
    transform(graph, [constants_to_initializers], "disable_all", rules=plugins.shape_rules())
    found = [(str(array.dtype), array.tolist()) for array in weights(graph.graph)]
    assert found == [("float32", 1.5), ("float32", [1.5, 2.0]), ("int64", [3, 4]), ("int64", 2), ("object", "s")]


def test_a_constant_in_a_nested_graph_becomes_an_initializer_there() -> None:
    body = """{ z = If (b) <then_branch = t () => (float[2] p) { c = Constant<value = float[2] {1, 2}>() p = Add(x, c) },
                            else_branch = e () => (float[2] q) { q = Neg(x) }> }"""
    graph = model("(float[2] x, bool b) => (float[2] z)", body).graph
    whole = model("(float[2] x, bool b) => (float[2] z)", body)
    transform(whole, [constants_to_initializers], "disable_all", rules=plugins.shape_rules())
    (branch, _) = whole.graph.nodes[0].subgraphs()
    assert [node.op_type for node in branch] == ["Add"]
    np.testing.assert_array_equal(branch.initializers["c"].constant, np.array([1, 2], np.float32))
    assert len(graph.nodes[0].subgraphs()[0]) == 2


def test_does_not_fire_when_the_constant_is_an_output() -> None:
    before = "{ c = Constant<value = float[2] {1, 2}>() z = Add(x, c) }"
    check(constants_to_initializers, "(float[A,2] x) => (float[A,2] z, float[2] c)", before, skip="c is a graph output")
