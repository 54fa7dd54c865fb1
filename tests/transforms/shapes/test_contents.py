"""Contents under integer operators."""

import math

from hypothesis import given
from hypothesis import strategies as st

from ort_lite.shapes import Dim, evaluate, symbol
from ort_lite_transforms.shapes.contents import (
    apply_elementwise,
    cast_contents,
    divide_towards_zero,
    elements,
    grid,
    remainder,
    within,
)

A, S, T = symbol("A"), symbol("S", signed=True), symbol("T", signed=True)
ANY = st.integers(-20, 20)


@given(ANY, ANY.filter(bool))
def test_division_rounds_towards_zero(a: int, b: int) -> None:
    expected = math.trunc(a / b)
    assert divide_towards_zero(a, b) == expected
    assert evaluate(divide_towards_zero(S, T), {"S": a, "T": b}) == expected
    assert evaluate(divide_towards_zero(S, b), {"S": a}) == expected


def test_division_of_sizes_needs_no_choice() -> None:
    assert str(divide_towards_zero(A, 2)) == "floordiv(A, 2)"


@given(ANY, ANY.filter(bool))
def test_the_remainder_has_the_sign_of_either_side(a: int, b: int) -> None:
    assert evaluate(remainder(S, T, fmod=True), {"S": a, "T": b}) == math.fmod(a, b)
    assert evaluate(remainder(S, T, fmod=False), {"S": a, "T": b}) == a % b


def test_one_element_stands_for_many() -> None:
    def add(a: Dim, b: Dim) -> Dim:
        return a + b

    assert apply_elementwise(add, (1, 2), (A,)) == (A + 1, A + 2)
    assert apply_elementwise(add, (), (A,)) == ()
    assert apply_elementwise(add, (1, 2), (1, 2, 3)) is None
    assert apply_elementwise(add, (1, 2), None) is None


def test_what_would_wrap_around_is_not_known() -> None:
    assert within("int32", (2**31 - 1,)) == (2**31 - 1,)
    assert within("int32", (2**31,)) is None
    assert within("uint8", (-1,)) is None
    assert within("int64", (A,)) == (A,)
    assert within("uint8", (A,)) is None
    assert within("float32", (1,)) is None


def test_casts_between_integers_wrap_around() -> None:
    assert cast_contents((300, -1), "int64", "uint8") == (44, 255)
    assert cast_contents((200,), "int64", "int8") == (-56,)
    assert cast_contents((A,), "int64", "int32") == (A,)
    assert cast_contents((A,), "int64", "int8") is None
    assert cast_contents((5, 0), "int64", "bool") == (1, 0)
    assert cast_contents((1,), "bool", "uint8") == (1,)
    assert cast_contents((1,), "int64", "float32") is None
    assert cast_contents(None, "int64", "int32") is None


def test_a_grid_holds_symbols_in_rows() -> None:
    array = grid((1, A, 3, S), (2, 2))
    assert array.shape == (2, 2)
    assert elements(array.T) == (1, 3, A, S)
    assert elements(grid((), (0, 3))) == ()
