"""Symbolic integers: what is simplified evaluates to what was written."""

import math
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.shapes import (
    Dim,
    Expr,
    Symbol,
    as_symbol,
    at_least,
    ceildiv,
    differ,
    equal,
    evaluate,
    floordiv,
    least,
    less,
    maximum,
    minimum,
    modulo,
    product,
    same,
    scale_dim,
    select,
    substitute,
    symbol,
    symbols,
)

A, B, S = symbol("a"), symbol("b"), symbol("s", signed=True)

# An expression twice: symbolic, and as the function of (a, b, s) that it must equal. Divisors are constants or 1 + a
# dimension, which is what models divide by.
Case = tuple[Dim, Callable[[int, int, int], int]]
LEAVES: list[Case] = [(A, lambda a, b, s: a), (B, lambda a, b, s: b), (S, lambda a, b, s: s)]


def constant(value: int) -> Case:
    return value, lambda a, b, s: value


def combine(children: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    def build(operation: str, x: Case, y: Case, divisor: Case, factor: float) -> Case:
        (x_dim, x_of), (y_dim, y_of), (d_dim, d_of) = x, y, divisor
        table: dict[str, Case] = {
            "add": (x_dim + y_dim, lambda *v: x_of(*v) + y_of(*v)),
            "sub": (x_dim - y_dim, lambda *v: x_of(*v) - y_of(*v)),
            "mul": (x_dim * y_dim, lambda *v: x_of(*v) * y_of(*v)),
            "floordiv": (floordiv(x_dim, d_dim), lambda *v: x_of(*v) // d_of(*v)),
            "ceildiv": (ceildiv(x_dim, d_dim), lambda *v: math.ceil(x_of(*v) / d_of(*v))),
            "mod": (modulo(x_dim, d_dim), lambda *v: x_of(*v) % d_of(*v)),
            "max": (maximum(x_dim, y_dim), lambda *v: max(x_of(*v), y_of(*v))),
            "min": (minimum(x_dim, y_dim), lambda *v: min(x_of(*v), y_of(*v))),
            "equal": (equal(x_dim, y_dim), lambda *v: int(x_of(*v) == y_of(*v))),
            "less": (less(x_dim, y_dim), lambda *v: int(x_of(*v) < y_of(*v))),
            "select": (select(x_dim, y_dim, d_dim), lambda *v: y_of(*v) if x_of(*v) else d_of(*v)),
            "scaled": (scale_dim(x_dim, factor), lambda *v: math.floor(x_of(*v) * factor)),
        }
        return table[operation]

    operations = ["add", "sub", "mul", "floordiv", "ceildiv", "mod", "max", "min", "equal", "less", "select", "scaled"]
    divisors = st.one_of(
        st.integers(-12, 12).filter(bool).map(constant),
        st.sampled_from([(A + 1, lambda a, b, s: a + 1), (2 * B + 2, lambda a, b, s: 2 * b + 2)]),
    )
    factors = st.sampled_from([0.5, 1.0, 2.0, 3.0, 0.25, 1.5])
    return st.builds(build, st.sampled_from(operations), children, children, divisors, factors)


CASES = st.recursive(st.sampled_from(LEAVES) | st.integers(-7, 7).map(constant), combine, max_leaves=6)
SIZES = st.integers(0, 40)
ANY = st.integers(-20, 20)


@given(CASES, SIZES, SIZES, ANY)
def test_an_expression_evaluates_to_what_was_written(case: Case, a: int, b: int, s: int) -> None:
    dim, oracle = case
    assert evaluate(dim, {"a": a, "b": b, "s": s}) == oracle(a, b, s), f"{dim} for a={a} b={b} s={s}"


@given(CASES, SIZES, SIZES, ANY)
def test_the_lower_bound_holds(case: Case, a: int, b: int, s: int) -> None:
    dim, oracle = case
    low = least(dim)
    assert low is None or low <= oracle(a, b, s)


@given(CASES, CASES, SIZES, SIZES, ANY)
def test_comparisons_that_are_decided_hold_for_every_size(x: Case, y: Case, a: int, b: int, s: int) -> None:
    left, right = x[1](a, b, s), y[1](a, b, s)
    assert not same(x[0], y[0]) or left == right
    assert not differ(x[0], y[0]) or left != right
    assert not at_least(x[0], y[0]) or left >= right


@given(CASES, CASES, CASES)
def test_equal_polynomials_are_equal_objects(x: Case, y: Case, z: Case) -> None:
    (p, _), (q, _), (r, _) = x, y, z
    for left, right in [(p + q, q + p), (p * q, q * p), (p + q - q, p), (p * (q + r), p * q + p * r), (p - p, 0)]:
        assert same(left, right)
        assert hash(left) == hash(right)
        assert str(left) == str(right)


@given(CASES, SIZES, SIZES, ANY)
def test_substituting_some_symbols_first_changes_nothing(case: Case, a: int, b: int, s: int) -> None:
    dim, oracle = case
    assert evaluate(substitute(dim, {"a": a}), {"b": b, "s": s}) == oracle(a, b, s)
    assert evaluate(substitute(dim, {"a": B, "b": A}), {"b": a, "a": b, "s": s}) == oracle(a, b, s)


@given(CASES)
def test_a_constant_is_an_int(case: Case) -> None:
    assert isinstance(case[0], int) or symbols([case[0]])


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (A + 0, "a"),
        (2 * A - 3, "2*a - 3"),
        (A * B + B + 1, "a*b + b + 1"),
        (-A, "-1*a"),
        ((A + 1) * (A - 1), "a*a - 1"),
        (floordiv(4 * A + 6, 4), "a + 1"),
        (floordiv(2 * A + 1, 2), "a"),
        (floordiv(A * B, B), "a"),
        (modulo(6 * A + 7, 3), "1"),
        (modulo(A * B, A), "0"),
        (maximum(A + 1, A), "a + 1"),
        (minimum(A, 0), "0"),
        (minimum(S, 0), "min(0, s)"),
        (equal(A + 1, A), "0"),
        (less(A, A + 1), "1"),
        (less(A, 0), "0"),
        (scale_dim(A, 2.0), "2*a"),
        (product([2, A, 3]), "6*a"),
        (select(equal(A, 1), B, B), "b"),
    ],
    ids=str,
)
def test_the_simplest_form(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_a_symbol_is_told_from_an_expression() -> None:
    found = as_symbol(A)
    assert found is not None
    assert found.name == "a"
    assert as_symbol(A + 1) is None
    assert as_symbol(2 * A) is None
    assert as_symbol(3) is None


def test_threads_get_one_symbol_for_a_name() -> None:
    """Two of one name would be other sizes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda _: [Symbol(f"of threads {k}") for k in range(2000)], range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert all(len(set(map(id, ones))) == 1 for ones in zip(*made, strict=True))


def test_the_symbols_of_shapes_come_in_order_of_appearance() -> None:
    assert [s.name for s in symbols([3, floordiv(B, 2), A + B])] == ["b", "a"]


def test_a_symbol_without_a_value_is_named() -> None:
    with pytest.raises(KeyError, match="b"):
        evaluate(A + B, {"a": 1})


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="2\\*a"):
        bool(2 * A)


def test_expressions_and_ints_mix_on_both_sides() -> None:
    assert same(7 - (A - A) - A, 7 - A)
    assert str(7 // (A + 1)) == "floordiv(7, a + 1)"
    assert str(7 % (A + 1)) == "mod(7, a + 1)"
    assert isinstance(A - 1, Expr)


@pytest.mark.parametrize(("size", "factor", "expected"), [(10, 0.7, 7), (5, 0.6, 3), (3, 1 / 3, 1)])
def test_a_scaled_size_is_rounded_as_a_float32_product_is(size: int, factor: float, expected: int) -> None:
    single = struct.unpack("<f", struct.pack("<f", factor))[0]  # 0.7 as float32 is less than 0.7
    assert scale_dim(size, single) == expected
    assert evaluate(scale_dim(A, single), {"a": size}) == expected


def test_a_sum_that_is_a_factor_is_divided_out() -> None:
    rows, columns = floordiv(A + 1, 2) - 3, B - 2
    assert same(floordiv(rows * columns * 8, rows), 8 * columns)
    assert same(floordiv(rows * columns, columns * rows), 1)
    assert same(modulo(rows * columns, columns), 0)
    assert str(floordiv(A + B, A + 1)) == "floordiv(a + b, a + 1)"


def test_sizes_rounded_up_are_known_not_to_be_negative() -> None:
    assert least(ceildiv(A, 2)) == 0
    assert same(ceildiv(A, 2), floordiv(A - 1, 2) + 1)
    assert least(maximum(A, 3) * maximum(B, 2)) == 6


def test_expressions_that_share_parts_stay_small() -> None:
    dim: Dim = S
    for _ in range(200):  # written out, each one would be twice as long as the one before
        dim = maximum(dim * 2, dim + B)
    assert len(str(dim)) < 500
    assert evaluate(dim, {"s": 0, "b": 0}) == 0
    assert len(symbols([dim])) == 2


def test_a_product_of_many_sums_stays_small() -> None:
    """A model decides how many there are: multiplied out, these would be 2**40 products."""
    names = [f"n{k}" for k in range(40)]
    dim = product(symbol(name) + 1 for name in names)
    assert isinstance(dim, Expr)
    assert len(dim.terms) <= 128
    assert evaluate(dim, dict.fromkeys(names, 1)) == 2**40
    assert {found.name for found in symbols([dim])} == set(names)
    assert same(floordiv(dim * A, A), dim)


def test_a_size_that_is_squared_again_and_again_stays_small() -> None:
    dim: Dim = A + 1
    for _ in range(40):  # n**(2**40)
        dim = dim * dim
    assert isinstance(dim, Expr)
    assert len(dim.terms[0][0]) <= 64
    assert evaluate(dim, {"a": 0}) == 1
    assert least(dim) == 1


def test_a_sum_of_many_sizes_stays_small() -> None:
    names = [f"n{k}" for k in range(5000)]
    dim: Dim = 0
    for name in names:
        dim = dim + symbol(name)
    assert isinstance(dim, Expr)
    assert len(dim.terms) <= 128
    assert evaluate(dim, dict.fromkeys(names, 1)) == 5000
