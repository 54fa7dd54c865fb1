"""What stands between two operators in integers, and moves elements, saturates, or undoes what was done."""

import pytest

from ort_lite_transforms.quantized_moves import join_integers, keep_integers, move_integers, saturate_once
from tests.text_graphs import check

CONSTANTS = """<float s = {0.5}, float t = {0.25}, uint8 z = {7}, uint8 low = {0}, float[3] s3 = {1, 2, 3}, int64[2] flat = {3, 2},
  int8[3,2] w = {1, -2, 3, 127, -128, 5}, float zero = {0}, float six = {6}, float most = {127.5}, int64[1] i = {1}>"""
SIGNATURE = "(uint8[2,3] x) => (float[3,2] y)"


def test_what_moves_elements_moves_integers() -> None:
    for move in ("Reshape({}, flat)", "Transpose({})", "Identity({})"):
        signature = SIGNATURE.replace("[3,2]", "[2,3]") if "Identity" in move else SIGNATURE
        before = f"{{ a = DequantizeLinear(x, s, z) y = {move.format('a')} }}"
        after = f"{{ b = {move.format('x')} y = DequantizeLinear(b, s, z) }}"
        check(move_integers, signature, before, after, constants=CONSTANTS)


def test_the_largest_integer_is_the_largest_number() -> None:
    signature, pool = "(uint8[1,1,4,4] x) => (float[1,1,2,2] y)", "MaxPool<kernel_shape=[2,2],strides=[2,2]>"
    before, after = f"{{ a = DequantizeLinear(x, s, z) y = {pool}(a) }}", f"{{ b = {pool}(x) y = DequantizeLinear(b, s, z) }}"
    check(move_integers, signature, before, after, constants=CONSTANTS)
    check(move_integers, signature, before, constants=CONSTANTS, opset=11, skip="no form for bytes")


def test_scales_along_an_axis_follow_a_transpose_and_nothing_else() -> None:
    before = "{ a = DequantizeLinear<axis=1>(x, s3) y = Transpose(a) }"
    after = "{ b = Transpose(x) y = DequantizeLinear<axis=0>(b, s3) }"
    check(move_integers, SIGNATURE, before, after, constants=CONSTANTS)
    before = "{ a = DequantizeLinear<axis=1>(x, s3) y = Reshape(a, flat) }"
    check(move_integers, SIGNATURE, before, constants=CONSTANTS, skip="scales along an axis")


def test_constant_integers_are_moved_now() -> None:
    before = "{ c = DequantizeLinear(w, s) d = Transpose(c) y = Add(x, d) }"
    after = "{ d = DequantizeLinear(turned, s) y = Add(x, d) }"
    constants = CONSTANTS[:-1] + ", int8[2,3] turned = {1, 3, -128, -2, 127, 5}>"
    check(move_integers, "(float[2,3] x) => (float[2,3] y)", before, after, constants=constants)


def test_integers_that_count_alike_are_joined() -> None:
    signature, before = "(uint8[2,3] x, uint8[2,1] v) => (float[2,4] y)", "{{ a = {} b = {} y = Concat<axis=1>(a, b) }}"
    alike = before.format("DequantizeLinear(x, s, z)", "DequantizeLinear(v, s, z)")
    after = "{ c = Concat<axis=1>(x, v) y = DequantizeLinear(c, s, z) }"
    check(join_integers, signature, alike, after, constants=CONSTANTS)
    others = before.format("DequantizeLinear(x, s, z)", "DequantizeLinear(v, t, z)")
    check(join_integers, signature, others, constants=CONSTANTS, skip="not all the same scale")


def test_what_is_quantised_as_it_was_is_what_it_was() -> None:
    signature, before = (
        "(uint8[2,3] x) => (uint8[2,3] y)",
        "{{ a = DequantizeLinear(x, s, z) q = QuantizeLinear(a, {}) y = Add(q, x) }}",
    )
    check(keep_integers, signature, before.format("s, z"), "{ y = Add(x, x) }", constants=CONSTANTS)
    for other in ("t, z", "s, low"):
        check(keep_integers, signature, before.format(other), constants=CONSTANTS, skip="scale and zero point are others")


@pytest.mark.parametrize(
    ("limit", "to", "goes"),
    [
        ("Relu(x)", "s, low", True),
        ("Relu(x)", "s, z", False),
        ("Clip(x, zero, most)", "s, low", True),
        ("Clip(x, zero)", "s, low", True),
        ("Clip(x, zero, six)", "s, low", False),
        ("Clip(x, , six)", "s, low", False),
    ],
)
def test_limits_go_where_integers_have_them(limit: str, to: str, goes: bool) -> None:
    signature, before = "(float[2,3] x) => (uint8[2,3] y)", f"{{ r = {limit} y = QuantizeLinear(r, {to}) }}"
    if goes:
        check(saturate_once, signature, before, f"{{ y = QuantizeLinear(x, {to}) }}", constants=CONSTANTS)
    else:
        check(saturate_once, signature, before, constants=CONSTANTS, skip="limits more than the integers do")
