import numpy as np
import pytest

from ort_lite_transforms.transpose_pair import merge_transposes
from ort_lite_transforms.transpose_sink import sink_transpose_below_constant, sink_transpose_below_unary, sink_two_transposes
from tests.text_graphs import check

SIGNATURE = "(float[A,B,C] x) => (float[B,C,A] z)"
CONSTANTS = (
    "<float low = {-1}, float high = {1}, float[4,1] c = {1, 2, 3, 4}, float[1,1,1,2] deep = {1, 2}, float[1] one = {5}>"
)


@pytest.mark.parametrize(
    "node", ["Relu(", "LeakyRelu<alpha=0.5>(", "Cast<to=1>(", "Clip(", "HardSwish(", "com.microsoft.QuickGelu("]
)
def test_a_transpose_moves_behind_a_function_of_one_operand(node: str) -> None:
    rest = ", low, high)" if node == "Clip(" else ")"
    before = f"{{ y = Transpose<perm=[1,2,0]>(x) z = {node}y{rest} }}"
    after = f"{{ y = {node}x{rest} z = Transpose<perm=[1,2,0]>(y) }}"
    check(sink_transpose_below_unary, SIGNATURE, before, after, constants=CONSTANTS)


def test_transposes_meet_and_cancel() -> None:
    before = "{ a = Neg(x) b = Transpose<perm=[1,2,0]>(a) c = Relu(b) d = Transpose<perm=[2,0,1]>(c) z = Exp(d) }"
    after = "{ a = Neg(x) c = Relu(a) z = Exp(c) }"
    check([merge_transposes, sink_transpose_below_unary], "(float[A,B,C] x) => (float[A,B,C] z)", before, after)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Pow"])
def test_two_alike_become_one_behind_the_operator(op: str) -> None:
    before = f"{{ a = Transpose<perm=[1,2,0]>(x) b = Transpose<perm=[1,2,0]>(y) z = {op}(a, b) }}"
    after = f"{{ c = {op}(x, y) z = Transpose<perm=[1,2,0]>(c) }}"
    feeds = None
    if op == "Pow":
        feeds = {"x": np.full((2, 3, 4), 2, np.float32), "y": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
    signature = "(float[A,B,C] x, float[A,B,C] y) => (float[B,C,A] z)"
    check(sink_two_transposes, signature, before, after, feeds=feeds)


def test_does_not_fire_when_two_differ() -> None:
    before = "{ a = Transpose<perm=[1,0]>(x) b = Transpose<perm=[0,1]>(y) z = Add(a, b) }"
    check(sink_two_transposes, "(float[A,B] x, float[B,A] y) => (float[B,A] z)", before, skip="permuted differently")


def test_a_constant_is_transposed_the_other_way() -> None:
    before = "{ y = Transpose<perm=[0,2,1]>(x) z = Sub(c, y) }"
    after = "{ y = Sub(d, x) z = Transpose<perm=[0,2,1]>(y) }"
    check(
        sink_transpose_below_constant,
        "(float[A,3,4] x) => (float[A,4,3] z)",
        before,
        after,
        constants=CONSTANTS,
        after_constants="<float[1,1,4] d = {1, 2, 3, 4}>",
    )


def test_a_scalar_stays_as_it_is() -> None:
    before = "{ y = Transpose<perm=[1,2,0]>(x) z = Mul(y, one) }"
    after = "{ y = Mul(x, one) z = Transpose<perm=[1,2,0]>(y) }"
    check(sink_transpose_below_constant, SIGNATURE, before, after, constants=CONSTANTS, after_constants="<float[1] one = {5}>")


def test_does_not_fire_when_the_constant_adds_an_axis() -> None:
    before = "{ y = Transpose<perm=[0,1,2]>(x) z = Mul(y, deep) }"
    check(
        sink_transpose_below_constant,
        "(float[A,B,2] x) => (float[1,A,B,2] z)",
        before,
        constants=CONSTANTS,
        skip="may widen the result",
    )


def test_does_not_fire_when_a_free_dimension_may_be_widened() -> None:
    before = "{ y = Transpose<perm=[0,2,1]>(x) z = Mul(y, c) }"
    feeds = {"x": np.ones((2, 4, 1), np.float32)}
    signature = "(float[A,4,B] x) => (float[A,4,4] z)"
    check(sink_transpose_below_constant, signature, before, constants=CONSTANTS, skip="may widen the result", feeds=feeds)


def test_does_not_fire_when_the_transposed_value_has_other_readers() -> None:
    before = "{ y = Transpose<perm=[1,2,0]>(x) z = Relu(y) w = Neg(y) }"
    check(
        sink_transpose_below_unary, "(float[A,B,C] x) => (float[B,C,A] z, float[B,C,A] w)", before, skip="y has other readers"
    )
