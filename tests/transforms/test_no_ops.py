import re

import pytest

from ort_lite.plugins import plugins
from ort_lite.transform.contract import LocalRule
from ort_lite.transform.transform import transform
from ort_lite_transforms.no_ops import SHAPE_CHECKS, remove_neutral_operand, remove_no_op, remove_same_shape
from tests.text_graphs import check, model

AFTER = "{ a = Relu(x) z = Neg(a) }"
CONSTANTS = """<int64[2] shape = {2, 3}, int64[2] zero = {0, 0}, int64[2] end = {9, 9}, int64[2] one = {1, 1},
  int64[2] back = {-1, 1}, int64[4] pads = {0, 0, 0, 0}, int64[4] shift = {1, 0, -1, 0}, int64[2] twice = {2, 1},
  int64[0] none = {}, float[2] scales = {1, 1}, float[2] scales2 = {1.1, 1}, float[1] nothing = {0}, float[1] unit = {1},
  float[1,1,1] deep = {0},  bool no = {0}, bool yes = {1}, float half = {0.5}>"""


def rule_for(node: str) -> LocalRule:
    """The rule that removes the node, which is given as text."""
    return remove_same_shape if re.split(r"\W", node)[0] in SHAPE_CHECKS else remove_no_op


@pytest.mark.parametrize(
    "node",
    [
        "Identity(a)",
        "Dropout(a)",
        "Dropout(a, half, no)",
        "Cast<to=1>(a)",
        "Reshape(a, shape)",
        "Flatten(a)",
        "Squeeze(a, none)",
        "Expand(a, shape)",
        "Expand(a, one)",
        "Transpose<perm=[0,1]>(a)",
        "Slice(a, zero, end)",
        "Slice(a, zero, end, , one)",
        "Pad(a, pads)",
        "Tile(a, one)",
        "Resize(a, , scales)",
        "Concat<axis=1>(a)",
        "Sum(a)",
        "Max(a)",
        "ReduceSum<noop_with_empty_axes=1>(a)",
        "ReduceMean<noop_with_empty_axes=1>(a, none)",
    ],
)
def test_a_node_that_hands_its_input_on_goes(node: str) -> None:
    before = f"{{ a = Relu(x) b = {node} z = Neg(b) }}"
    check(rule_for(node), "(float[2,3] x) => (float[2,3] z)", before, AFTER, constants=CONSTANTS)


@pytest.mark.parametrize(
    "node",
    [
        "Cast<to=11>(a)",
        "Reshape(a, other)",
        "Transpose(a)",
        "Slice(a, last, first, , back)",
        "Pad(a, shift)",
        "Tile(a, twice)",
        "Resize(a, , scales2)",
        "ReduceSum(a)",
        "Sum(a, a)",
    ],
)
def test_a_node_that_changes_its_input_stays(node: str) -> None:
    constants = CONSTANTS[:-1] + ", int64[2] other = {3, 2}, int64[2] last = {-1, 0}, int64[2] first = {-9, 9}>"
    before = f"{{ a = Relu(x) b = {node} z = Shape(b) }}"
    check(rule_for(node), "(float[2,3] x) => (int64[N] z)", before, constants=constants, skip="it changes its input")


def test_dropout_that_trains_stays() -> None:
    found = model(
        "(float[2,3] x, bool train) => (float[2,3] z)",
        "{ a = Relu(x) b = Dropout(a, half, train) z = Neg(b) }",
        "<float half = {0.5}>",
    )
    assert transform(found, [remove_no_op], "basic", rules=plugins.shape_rules()).changes == ()


def test_a_reduction_over_no_axes_that_is_more_than_a_reduction_stays() -> None:
    before = "{ a = Relu(x) b = ReduceLogSum<noop_with_empty_axes=1>(a) z = Shape(b) }"
    check(remove_same_shape, "(float[2,3] x) => (int64[N] z)", before)


def test_shapes_with_free_dimensions_are_compared() -> None:
    before = "{ a = Relu(x) s = Shape(a) b = Reshape(a, s) z = Neg(b) }"
    after = "{ a = Relu(x) s = Shape(a) z = Neg(a) }"
    check(remove_same_shape, "(float[A,B] x) => (float[A,B] z)", before, "{ a = Relu(x) z = Neg(a) }")
    check(remove_same_shape, "(float[A,B] x) => (float[A,B] z, int64[2] s)", before, after)


@pytest.mark.parametrize(
    "node", ["Add(a, nothing)", "Add(nothing, a)", "Sub(a, nothing)", "Mul(unit, a)", "Div(a, unit)", "Pow(a, unit)"]
)
def test_a_neutral_operand_goes(node: str) -> None:
    before = f"{{ a = Relu(x) b = {node} z = Neg(b) }}"
    check(remove_neutral_operand, "(float[2,3] x) => (float[2,3] z)", before, AFTER, constants=CONSTANTS)


@pytest.mark.parametrize("node", ["Sub(nothing, a)", "Div(unit, a)", "Pow(unit, a)", "Add(a, unit)", "Mul(a, nothing)"])
def test_an_operand_that_is_not_neutral_stays(node: str) -> None:
    before = f"{{ a = Exp(x) b = {node} z = Neg(b) }}"
    check(remove_neutral_operand, "(float[2,3] x) => (float[2,3] z)", before, constants=CONSTANTS)


def test_a_neutral_operand_that_adds_an_axis_stays() -> None:
    before = "{ a = Exp(x) b = Add(a, deep) z = Neg(b) }"
    check(remove_neutral_operand, "(float[2,3] x) => (float[1,2,3] z)", before, constants=CONSTANTS, skip="changes its input")


def test_an_output_keeps_its_name() -> None:
    before = "{ a = Relu(x) z = Identity(a) }"
    check(remove_no_op, "(float[A] x) => (float[A] z)", before, "{ z = Relu(x) }")


def test_an_identity_between_an_input_and_an_output_stays() -> None:
    check(remove_no_op, "(float[A] x) => (float[A] z)", "{ z = Identity(x) }", skip="z is a graph output")


def test_an_identity_between_two_outputs_stays() -> None:
    before = "{ y = Relu(x) z = Identity(y) }"
    check(remove_no_op, "(float[A] x) => (float[A] y, float[A] z)", before, skip="both graph outputs")


def test_an_identity_of_an_outer_value_in_a_nested_graph_stays() -> None:
    body = """{ a = Relu(x) z = If (b) <then_branch = t () => (float[A] p) { p = Identity(a) },
                                        else_branch = e () => (float[A] q) { q = Neg(a) }> }"""
    check(remove_no_op, "(float[A] x, bool b) => (float[A] z)", body, skip="comes from no node of that graph")


def test_a_dropout_whose_mask_is_read_stays() -> None:
    body = "{ a = Relu(x) z, m = Dropout(a) }"
    check(remove_no_op, "(float[A] x) => (float[A] z, bool[A] m)", body, skip="m, output 1 of Dropout")
