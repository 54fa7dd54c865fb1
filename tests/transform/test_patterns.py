import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.graph import Node, Value
from ort_lite.transform.patterns import Match, Pattern, constant, find, op
from tests.text_graphs import model

SIGNATURE = "(float[A] x, float[A] y) => (float[A] z)"
CONSTANTS = "<float[1] two = {2}, float[2] pair = {1, 2}, float16 root = {15784}, int64 three = {3}>"


def arrays(value: Value | None) -> Array | None:
    return None if value is None else value.constant


def search(pattern: Pattern, body: str, signature: str = SIGNATURE) -> Match | None:
    """The pattern on the last node."""
    return find(pattern, model(signature, body, CONSTANTS).graph.nodes[-1], arrays)


def names(match: Match | None) -> dict[str, str]:
    assert match is not None
    return {key: found.op_type if isinstance(found, Node) else found.name for key, found in match.captured.items()}


def test_nodes_and_values_are_captured() -> None:
    match = search(op("Mul", "a", op("Sigmoid", "b", name="gate"), name="root"), "{ s = Sigmoid(y) z = Mul(x, s) }")
    assert names(match) == {"root": "Mul", "a": "x", "gate": "Sigmoid", "b": "y"}
    assert match is not None and [node.op_type for node in match.nodes] == ["Mul", "Sigmoid"]


def test_a_name_used_twice_means_one_value() -> None:
    swish = op("Mul", "a", op("Sigmoid", "a"))
    assert search(swish, "{ s = Sigmoid(x) z = Mul(x, s) }")
    assert not search(swish, "{ s = Sigmoid(y) z = Mul(x, s) }")


def test_a_node_named_twice_means_one_node() -> None:
    square = op("Mul", op("Exp", "a", name="e"), op("Exp", "a", name="e"))
    assert search(square, "{ e = Exp(x) z = Mul(e, e) }")
    assert not search(square, "{ e = Exp(x) f = Exp(x) z = Mul(e, f) }")


def test_operands_of_a_commutative_pattern_may_be_exchanged() -> None:
    body = "{ s = Sigmoid(x) z = Mul(s, x) }"
    assert not search(op("Mul", "a", op("Sigmoid", "a")), body)
    assert search(op("Mul", "a", op("Sigmoid", "a"), commutative=True), body)


@pytest.mark.parametrize("outer", ["Add(m, x)", "Add(x, m)"])
@pytest.mark.parametrize("inner", ["Mul(x, y)", "Mul(y, x)"])
def test_all_combinations_of_exchanges_are_tried(outer: str, inner: str) -> None:
    pattern = op("Add", op("Mul", "a", "b", commutative=True), "a", commutative=True)
    assert names(search(pattern, f"{{ m = {inner} z = {outer} }}")) == {"a": "x", "b": "y"}


@pytest.mark.parametrize(("number", "operand"), [(2.0, "two"), (1.41421356, "root"), (3, "three")])
def test_a_number_is_a_constant_of_one_element_as_exact_as_its_type(number: float, operand: str) -> None:
    signature = "(float[A] x, float16[A] y, int64[A] i) => (float[A] z)"
    other = {"two": "x", "root": "y", "three": "i"}[operand]
    assert search(op("Mul", ..., number), f"{{ z = Mul({other}, {operand}) }}", signature)
    assert not search(op("Mul", ..., number + 0.01), f"{{ z = Mul({other}, {operand}) }}", signature)


@pytest.mark.parametrize("operand", ["x", "pair"])
def test_a_number_is_nothing_else(operand: str) -> None:
    assert not search(op("Mul", ..., 2.0), f"{{ z = Mul(x, {operand}) }}")


def test_a_constant_is_captured_and_a_computed_value_is_not() -> None:
    pattern = op("Mul", "a", constant("c"))
    assert names(search(pattern, "{ z = Mul(x, pair) }")) == {"a": "x", "c": "pair"}
    assert not search(pattern, "{ z = Mul(x, y) }")


def test_none_is_an_operand_that_is_left_out_and_an_ellipsis_anything() -> None:
    without, anything = op("Clip", "x", None, ...), op("Clip", "x", ..., ..., ...)
    assert search(without, "{ z = Clip(x, , y) }") and search(without, "{ z = Clip(x) }")
    assert not search(without, "{ z = Clip(x, y) }")
    assert search(anything, "{ z = Clip(x) }") and search(anything, "{ z = Clip(x, y) }")


def test_operands_beyond_the_last_are_anything() -> None:
    assert search(op("Clip", "x"), "{ z = Clip(x, y, y) }")
    assert not search(op("Add", "a", "b", "c"), "{ z = Add(x, y) }")


def test_one_of_several_operators() -> None:
    pattern = op(("Relu", "Tanh"), name="f")
    assert search(pattern, "{ z = Tanh(x) }")
    assert not search(pattern, "{ z = Exp(x) }")


def test_any_operator() -> None:
    match = search(op("*", op("*", name="inner"), name="root"), "{ a = Exp(x) z = Neg(a) }")
    assert names(match) == {"inner": "Exp", "root": "Neg"}
    assert not search(op("*", op("*")), "{ z = Neg(x) }")


@pytest.mark.parametrize(("since", "until", "fits"), [(21, 22, True), (1, 21, False), (22, 30, False)])
def test_versions_bound_a_pattern(since: int, until: int, fits: bool) -> None:
    assert bool(search(op("Neg", "a", since=since, until=until), "{ z = Neg(x) }")) == fits


def test_domains_are_kept_apart() -> None:
    assert not search(op("Gelu", "a", domain="com.microsoft"), "{ z = Gelu(x) }")
    assert search(op("Gelu", "a", domain="com.microsoft"), "{ z = com.microsoft.Gelu(x) }")


def test_nodes_of_another_graph_do_not_match() -> None:
    body = """{ a = Exp(x) z = If (b) <then_branch = t () => (float[A] p) { p = Neg(a) },
                                        else_branch = e () => (float[A] q) { q = Abs(a) }> }"""
    inner = model("(float[A] x, bool b) => (float[A] z)", body).graph.nodes[1].subgraphs()[0].nodes[0]
    assert find(op("Neg", "a"), inner, arrays)
    assert not find(op("Neg", op("Exp")), inner, arrays)


def test_an_element_that_is_no_number_is_no_number() -> None:
    node = Node("Equal", [Value("a"), Value("b", constant=np.array(["s"], object))], [Value("c")])
    assert find(op("Equal", ..., 1.0), node, arrays) is None
