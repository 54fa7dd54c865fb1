from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.dead_nodes import remove_dead_nodes
from tests.text_graphs import check, model


def test_nodes_that_nobody_reads_go_with_all_that_only_they_read() -> None:
    before = "{ a = Relu(x) b = Neg(a) c = Exp(b) z = Abs(a) }"
    check(remove_dead_nodes, "(float[A] x) => (float[A] z)", before, "{ a = Relu(x) z = Abs(a) }")


def test_initializers_that_nobody_reads_go() -> None:
    found = model("(float[A] x) => (float[A] z)", "{ b = Add(x, c) z = Neg(x) }", "<float[1] c = {1}>")
    transform(found, [remove_dead_nodes], "basic", rules=plugins.shape_rules())
    assert found.graph.initializers == {}


def test_dead_nodes_of_nested_graphs_go() -> None:
    before = """{ z = If (b) <then_branch = t () => (float[A] p) { d = Exp(x) p = Neg(x) },
                              else_branch = e () => (float[A] q) { q = Neg(x) }> }"""
    after = """{ z = If (b) <then_branch = t () => (float[A] p) { p = Neg(x) },
                             else_branch = e () => (float[A] q) { q = Neg(x) }> }"""
    check(remove_dead_nodes, "(float[A] x, bool b) => (float[A] z)", before, after)


def test_a_node_stays_whose_result_only_a_nested_graph_reads() -> None:
    body = """{ y = Exp(x) z = If (b) <then_branch = t () => (float[A] p) { p = Neg(y) },
                                       else_branch = e () => (float[A] q) { q = Neg(x) }> }"""
    check(remove_dead_nodes, "(float[A] x, bool b) => (float[A] z)", body)


def test_a_node_stays_of_which_one_output_is_read() -> None:
    body = "{ a, b = Split<axis=0, num_outputs=2>(x) z = Neg(b) }"
    check(remove_dead_nodes, "(float[4] x) => (float[2] z)", body)


def test_an_overridable_initializer_stays() -> None:
    found = model("(float[1] x, float[1] c = {1}) => (float[1] z)", "{ z = Neg(x) }")
    transform(found, [remove_dead_nodes], "basic", rules=plugins.shape_rules())
    assert list(found.graph.initializers) == ["c"]
