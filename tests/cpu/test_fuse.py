"""Elementwise expressions become loops: what is fused, how operands are broadcast, in which storage order, and in place."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite_cpu.lowering import expression
from ort_lite_cpu.program.program import Program
from tests.cpu.check import ramp, text_program

Shape = tuple[int, ...]
CHAIN = "(float[N] x) => (float[N] y) { a = Mul(x, x) b = Neg(a) c = Exp(b) y = Add(c, x) }"


def instructions(program: Program) -> int:
    count = program.facts()["instructions"]
    assert isinstance(count, int)
    return count


def scratch(program: Program, *arrays: Array) -> int:
    """Bytes of scratch memory that a run with these inputs takes."""
    program(arrays)
    return sum(bound.scratch for step in program.steps if hasattr(step, "cache") for bound in step.cache.values())


# --- What is fused


def test_a_chain_is_one_loop() -> None:
    program = text_program(CHAIN)
    x = ramp((100,), low=0.1)
    np.testing.assert_allclose(program([x])[0], np.exp(-x * x) + x, rtol=1e-6)
    assert instructions(program) == 1
    assert scratch(program, x) == 0


def test_what_is_read_twice_is_computed_once() -> None:
    program = text_program("(float[N] x) => (float[N] y) { a = Exp(x) b = Neg(a) y = Mul(b, a) }")
    x = ramp((9,))
    np.testing.assert_allclose(program([x])[0], -(np.exp(x) ** 2), rtol=1e-6)
    assert instructions(program) == 2


def test_identities_do_not_hide_a_second_reader() -> None:
    text = "(float[N] x) => (float[N] y, float[N] z) { a = Exp(x) b = Identity(a) y = Neg(b) z = Abs(b) }"
    assert instructions(text_program(text)) == 3


def test_what_is_broadcast_is_computed_before_it_is_repeated() -> None:
    program = text_program("(float[M,N] x, float[N] v) => (float[M,N] y) { a = Exp(v) y = Add(x, a) }")
    x, v = ramp((50, 3)), ramp((3,))
    np.testing.assert_allclose(program([x, v])[0], x + np.exp(v), rtol=1e-6)
    assert instructions(program) == 2


def test_long_chains_are_cut() -> None:
    steps = " ".join(f"v{k + 1} = Sin(v{k})" for k in range(60))
    program = text_program(f"(float[N] v0) => (float[N] v60) {{ {steps} }}")
    assert instructions(program) == -(-60 // expression.OPERATIONS_LIMIT)
    want = x = ramp((5,))
    for _ in range(60):
        want = np.sin(want)
    np.testing.assert_allclose(program([x])[0], want, rtol=1e-4)


def test_many_operands_are_cut() -> None:
    count = 3 * expression.LEAVES_LIMIT
    inputs = ", ".join(f"float[N] x{k}" for k in range(count))
    steps = " ".join(f"s{k} = Add(s{k - 1}, x{k})" for k in range(1, count))
    program = text_program(f"({inputs}) => (float[N] s{count - 1}) {{ s0 = Identity(x0) {steps} }}")
    assert 3 <= instructions(program) <= 4
    arrays = [np.full(4, k, np.float32) for k in range(count)]
    assert program(arrays)[0].tolist() == [count * (count - 1) / 2] * 4


def test_one_element_and_known_contents_are_scalars_of_the_loop() -> None:
    text = """(int64[M,N] x, int64 two) => (int64[M,N] y) {
        s = Shape(x) i = Constant<value_int=1>() n = Gather(s, i) a = Mul(x, n)
        y = Add(a, two)
    }"""
    program = text_program(text, constants={"two": np.array(2)})
    assert instructions(program) == 1
    for n in (3, 5):
        np.testing.assert_array_equal(program([ramp((2, n), "int64")])[0], ramp((2, n), "int64") * n + 2)


# --- Broadcasting

shapes3 = st.tuples(*[st.integers(0, 4)] * 3)


@cache
def open_difference() -> Program:
    return text_program("(float[A,B,C] x, float[D,E,F] y) => (float[G,H,I] z) { z = Sub(x, y) }")


@settings(max_examples=80)
@given(shapes3, st.lists(st.booleans(), min_size=6, max_size=6))
def test_any_shapes_broadcast_in_one_program(shape: Shape, ones: list[bool]) -> None:
    a = tuple(1 if one else n for n, one in zip(shape, ones[:3], strict=True))
    b = tuple(1 if one else n for n, one in zip(shape, ones[3:], strict=True))
    x, y = ramp(a), ramp(b)
    np.testing.assert_array_equal(open_difference()([x, y])[0], x - y)


def test_ranks_may_differ() -> None:
    program = text_program("(float[A,B,C,D] x, float[E] y, float z) => (float[A,B,C,D] w) { a = Add(x, y) w = Mul(a, z) }")
    x, z = ramp((2, 3, 4, 5)), np.array(3, np.float32)
    for y in (ramp((5,)), ramp((1,))):
        np.testing.assert_allclose(program([x, y, z])[0], (x + y) * z, rtol=1e-6)


@pytest.mark.parametrize(("a", "b"), [((4, 3), (2, 3)), ((4, 3), (4, 2)), ((0, 3), (2, 3))], ids=str)
def test_dimensions_that_do_not_broadcast_are_refused(a: Shape, b: Shape) -> None:
    program = text_program("(float[A,B] x, float[C,D] y) => (float[E,F] z) { z = Add(x, y) }")
    with pytest.raises(InvalidArgument, match=r"Add .* dimension \d of an input is neither 1 nor \d, that of the others"):
        program([ramp(a), ramp(b)])


def test_equal_shapes_are_one_flat_loop_whatever_their_rank() -> None:
    kernels = set()
    for dims in ("N", "M,N", "K,L,M,N", "2,3,N"):
        program = text_program(f"(float[{dims}] x, float[{dims}] y) => (float[{dims}] z) {{ z = Add(x, y) }}")
        kernels |= {i.spec.name for step in program.steps if hasattr(step, "segment") for i in step.segment.instructions}
    assert len(kernels) == 1


# --- Storage order

IMAGES = "(float[N,H,W,C] x, float[C,1,1] v) => (float[N,H,W,C] y)"


def test_channels_last_stays_as_it_is() -> None:
    text = "{ a = Transpose<perm=[0,3,1,2]>(x) b = Add(a, v) c = Relu(b) y = Transpose<perm=[0,2,3,1]>(c) }"
    program = text_program(f"{IMAGES} {text}")
    x, v = ramp((2, 3, 4, 5)), ramp((5, 1, 1))
    np.testing.assert_array_equal(program([x, v])[0], np.maximum(x + v.reshape(5), 0))
    assert instructions(program) == 1


def test_operands_in_different_orders_are_brought_into_one() -> None:
    text = """(float[N,H,W,C] x, float[N,C,H,W] z) => (float[N,C,H,W] y) {
        a = Transpose<perm=[0,3,1,2]>(x) b = Sub(a, z) y = Neg(b)
    }"""
    x, z = ramp((2, 3, 4, 5)), ramp((2, 5, 3, 4))
    np.testing.assert_array_equal(text_program(text)([x, z])[0], z - x.transpose(0, 3, 1, 2))


def test_a_full_operand_of_lower_rank_is_read_across_the_storage_order() -> None:
    """It has as many elements as the result, and lies in another order: no memory to write the result into."""
    text = """(float[1,H,W,C] x, float[C,H,W] z) => (float[1,C,H,W] y) {
        a = Transpose<perm=[0,3,1,2]>(x) e = Exp(z) b = Add(a, e) y = Identity(b)
    }"""
    x, z = ramp((1, 3, 3, 3)), ramp((3, 3, 3))
    np.testing.assert_allclose(text_program(text)([x, z])[0], x.transpose(0, 3, 1, 2) + np.exp(z), rtol=1e-6)


# --- In place


def test_a_result_lies_in_the_memory_of_an_operand_that_dies() -> None:
    steps = "a = Exp(x) b = Neg(a) c = Sin(b) d = Abs(c) y = Cos(d)"
    x = ramp((1000,))
    assert scratch(text_program(f"(float[N] x) => (float[N] y) {{ {steps} }}", fusion=False), x) == 4032
    got = text_program(f"(float[N] x) => (float[N] y) {{ {steps} }}", fusion=False)([x])[0]
    np.testing.assert_allclose(got, np.cos(abs(np.sin(-np.exp(x)))), rtol=1e-5)


def test_not_in_the_memory_of_one_that_is_read_in_another_order_too() -> None:
    text = "(float[1,K,K,K] x) => (float[1,K,K,K] y) { e = Exp(x) t = Transpose<perm=[0,3,1,2]>(e) s = Sub(e, t) y = Abs(s) }"
    x = ramp((1, 4, 4, 4))
    for fusion in (True, False):
        want = abs(np.exp(x) - np.exp(x).transpose(0, 3, 1, 2))
        np.testing.assert_allclose(text_program(text, fusion=fusion)([x])[0], want, rtol=1e-5)


def test_not_in_the_memory_of_one_that_is_smaller_or_still_read() -> None:
    text = (
        "(float[M,N] x) => (float[M,N] y) { e = Exp(x) r = ReduceMax<keepdims=1>(e) s = Add(e, r) t = Mul(s, e) y = Add(t, r) }"
    )
    x = ramp((20, 30))
    e = np.exp(x)
    for fusion in (True, False):
        np.testing.assert_allclose(text_program(text, fusion=fusion)([x])[0], (e + e.max()) * e + e.max(), rtol=1e-5)
