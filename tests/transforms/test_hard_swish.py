from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.hard_swish import compose_gated_hard_swish, compose_hard_sigmoid, compose_hard_swish
from tests.text_graphs import check, model, same_outputs

CONSTANTS = (
    "<float three = {3}, float low = {0}, float high = {6}, float[1] six = {6}, float sixth = {0.16666667}, float five = {5}>"
)
SIGNATURE = "(float[A,B] x) => (float[A,B] z)"
SWISH = "{ z = HardSwish(x) }"
SIGMOID = "{ z = HardSigmoid<alpha=0.16666667, beta=0.5>(x) }"
ALL = [compose_hard_swish, compose_hard_sigmoid, compose_gated_hard_swish]


@pytest.mark.parametrize("add", ["Add(x, three)", "Add(three, x)"])
@pytest.mark.parametrize(
    "root",
    ["Mul(x, b) z = Div(c, six)", "Mul(b, x) z = Mul(sixth, c)", "Div(b, six) z = Mul(x, c)", "Mul(b, sixth) z = Mul(c, x)"],
)
def test_all_orders_become_hard_swish(add: str, root: str) -> None:
    check(ALL, SIGNATURE, f"{{ a = {add} b = Clip(a, low, high) c = {root} }}", SWISH, constants=CONSTANTS)


def test_limits_as_attributes_are_known() -> None:
    body = "{ a = Add(x, three) b = Clip<min=0.0, max=6.0>(a) c = Mul(x, b) z = Div(c, six) }"
    original, changed = model(SIGNATURE, body, CONSTANTS, 9), model(SIGNATURE, body, CONSTANTS, 9)
    transform(changed, ALL, "extended", rules=plugins.shape_rules())
    assert [(node.op_type, node.version) for node in changed.graph] == [("HardSwish", 14)]
    same_outputs(original, changed, 1e-6)


def test_the_gate_alone_becomes_hard_sigmoid() -> None:
    check(ALL, SIGNATURE, "{ a = Add(x, three) b = Clip(a, low, high) z = Div(b, six) }", SIGMOID, constants=CONSTANTS)


def test_a_product_with_hard_sigmoid_becomes_hard_swish() -> None:
    check(ALL, SIGNATURE, "{ a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) z = Mul(x, a) }", SWISH)


@pytest.mark.parametrize(
    "body",
    [
        "{ a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) z = Mul(x, a) }",
        "{ a = Add(x, wide_three) b = Clip(a, wide_low, wide_high) z = Div(b, wide_high) }",
    ],
)
def test_a_slope_of_32_bits_does_not_stand_for_one_of_64(body: str) -> None:
    constants = "<double wide_three = {3}, double wide_low = {0}, double wide_high = {6}>"
    found = model(SIGNATURE.replace("float", "double"), body, constants)
    before = [node.op_type for node in found.graph]
    report = transform(found, ALL, "extended", rules=plugins.shape_rules())
    assert [node.op_type for node in found.graph] == before
    assert "1/6" in report.skipped[0].reason


@pytest.mark.parametrize("x", [np.array(1.5, np.float32), np.array([1.5, -1], np.float32)], ids=["scalar", "vector"])
def test_a_constant_that_may_add_an_axis_is_no_number(x: np.ndarray[Any, Any]) -> None:
    """A product with a vector of one element is a vector, whatever the rank of x turns out to be."""
    text = f"(float x) => (float z) {CONSTANTS} {{ a = Add(x, three) b = Clip(a, low, high) c = Mul(x, b) z = Div(c, six) }}"
    found = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')
    for value in (*found.graph.input, *found.graph.output):
        value.type.tensor_type.ClearField("shape")
    (z,) = ort_lite.InferenceSession(found).run(None, {"x": x})
    assert z.shape == np.broadcast_shapes(x.shape, (1,))


TWO = "(float[A,B] x, float[A,B] y) => (float[A,B] z)"
GATED = "{{ a = HardSigmoid<alpha={}, beta=0.5>(x) z = Mul({}, a) }}"
PARTS = "{{ a = Add(x, three) b = Clip(a, low, {}) c = Mul(x, b) z = Div(c, six) }}"


@pytest.mark.parametrize(
    ("signature", "before", "reason"),
    [
        (SIGNATURE, GATED.format("0.2", "x"), "alpha 0.2"),
        (SIGNATURE, PARTS.format("five"), "other limits than 0 and 6"),
        (TWO, GATED.format("0.16666667", "y"), None),
        (SIGNATURE.replace("z)", "z, float[A,B] b)"), PARTS.format("high"), "b has other readers"),
    ],
)
def test_does_not_fire(signature: str, before: str, reason: str | None) -> None:
    check(ALL, signature, before, constants=CONSTANTS, skip=reason)
