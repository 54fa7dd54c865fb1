"""Elementwise operators and broadcasting, any shapes, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from tests.conformance.drawing import HOWS, SEEDS, How, Shape, broadcastable, drawn, numbers, shapes
from tests.conformance.random_models import Link, check, check_chain

Function = Callable[..., Any]


def quiet(function: Function, *arrays: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(function(*arrays))


def truncated(a: Array, b: Array) -> Array:
    """Integer division as C has it; by zero 0."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = np.floor_divide(a, safe)
    up = (np.mod(a, safe) != 0) & ((a < 0) != (safe < 0))
    return np.where(b == 0, 0, quotient + up).astype(a.dtype)


ARITHMETIC: dict[str, Function] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "Equal": np.equal,
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}
TYPES = ("float32", "int32", "uint8")


@drawn(
    30,
    op=st.sampled_from(list(ARITHMETIC)),
    dtype=st.sampled_from(TYPES),
    both=broadcastable(2),
    seed=SEEDS,
    how=HOWS,
    special=st.booleans(),
)
def test_two_operands(op: str, dtype: str, both: tuple[Shape, ...], seed: int, how: How, special: bool) -> None:
    a, b = (numbers(shape, dtype, seed + k, special=special) for k, shape in enumerate(both))
    check(op, [a, b], [quiet(ARITHMETIC[op], a, b)], how)


@drawn(
    15, op=st.sampled_from(["Div", "Mod", "fmod"]), dtype=st.sampled_from(TYPES), both=broadcastable(2), seed=SEEDS, how=HOWS
)
def test_division(op: str, dtype: str, both: tuple[Shape, ...], seed: int, how: How) -> None:
    a, b = (numbers(shape, dtype, seed + k, special=dtype != "float32" or op == "Div") for k, shape in enumerate(both))
    if op == "Div":
        check("Div", [a, b], [quiet(np.true_divide if dtype == "float32" else truncated, a, b)], how)
    else:
        b[b == 0] = 1
        fmod = int(op == "fmod" or dtype == "float32")
        check("Mod", [a, b], [quiet(np.fmod if fmod else np.mod, a, b)], how, fmod=fmod, atol=1e-5)


LOGICAL: dict[str, Function] = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
BITWISE: dict[str, Function] = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}


@drawn(15, op=st.sampled_from([*LOGICAL, *BITWISE]), both=broadcastable(2), seed=SEEDS, how=HOWS)
def test_bits_and_truths(op: str, both: tuple[Shape, ...], seed: int, how: How) -> None:
    a, b = (numbers(shape, "bool" if op in LOGICAL else "int32", seed + k, special=True) for k, shape in enumerate(both))
    check(op, [a, b], [{**LOGICAL, **BITWISE}[op](a, b)], how)


@drawn(
    10, left=st.booleans(), dtype=st.sampled_from(["uint8", "uint32", "uint64"]), both=broadcastable(2), seed=SEEDS, how=HOWS
)
def test_shifts(left: bool, dtype: str, both: tuple[Shape, ...], seed: int, how: How) -> None:
    a = numbers(both[0], dtype, seed, special=True)
    b = numbers(both[1], dtype, seed + 1, high=np.iinfo(dtype).bits - 1)
    check("BitShift", [a, b], [(np.left_shift if left else np.right_shift)(a, b)], how, direction="LEFT" if left else "RIGHT")


@drawn(15, dtype=st.sampled_from(["float32", "int64", "bool"]), all_three=broadcastable(3), seed=SEEDS, how=HOWS)
def test_where(dtype: str, all_three: tuple[Shape, ...], seed: int, how: How) -> None:
    condition = numbers(all_three[0], "bool", seed)
    a, b = (numbers(shape, dtype, seed + k, special=True) for k, shape in enumerate(all_three[1:]))
    check("Where", [condition, a, b], [np.where(condition, a, b)], how)


@drawn(10, op=st.sampled_from(["Sum", "Max", "Mean"]), all_three=broadcastable(3), seed=SEEDS, how=HOWS)
def test_three_operands(op: str, all_three: tuple[Shape, ...], seed: int, how: How) -> None:
    a, b, c = (numbers(shape, "float32", seed + k) for k, shape in enumerate(all_three))
    wanted = np.maximum(np.maximum(a, b), c) if op == "Max" else (a + b + c) / np.float32(3 if op == "Mean" else 1)
    check(op, [a, b, c], [np.asarray(wanted)], how, atol=1e-5)


@drawn(
    10,
    dtype=st.sampled_from(["float32", "int32"]),
    shape=shapes(),
    seed=SEEDS,
    how=HOWS,
    low=st.none() | st.integers(-5, 5),
    high=st.none() | st.integers(-5, 5),
)
def test_clip(dtype: str, shape: Shape, seed: int, how: How, low: int | None, high: int | None) -> None:
    x = numbers(shape, dtype, seed, special=True)
    bounds = [None if bound is None else np.array(bound, dtype) for bound in (low, high)]
    wanted = x if bounds[0] is None else np.maximum(x, bounds[0])
    wanted = wanted if bounds[1] is None else np.minimum(wanted, bounds[1])
    check("Clip", [x, *bounds], [np.asarray(wanted)], how)


@drawn(
    12,
    base=st.sampled_from(["float32", "int32"]),
    by=st.sampled_from(["float32", "int64"]),
    both=broadcastable(2),
    seed=SEEDS,
    how=HOWS,
)
def test_powers(base: str, by: str, both: tuple[Shape, ...], seed: int, how: How) -> None:
    x = numbers(both[0], base, seed)
    n = np.asarray(np.abs(numbers(both[1], by, seed + 1).round()))
    check("Pow", [x, n], [quiet(np.power, x.astype(np.float64), n).astype(base)], how)


def _erf(x: Array) -> Array:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x) if x.size else x


UNARY: dict[str, Function] = {
    "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Tanh": np.tanh, "Floor": np.floor, "Round": np.rint, "Neg": np.negative,
    "Abs": np.abs, "Sign": np.sign, "Relu": lambda x: np.maximum(x, 0), "Reciprocal": np.reciprocal, "Erf": _erf,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Sin": np.sin, "Atan": np.arctan, "IsNaN": np.isnan, "IsInf": np.isinf,
}  # fmt: skip


@drawn(25, op=st.sampled_from(list(UNARY)), shape=shapes(), seed=SEEDS, how=HOWS, special=st.booleans())
def test_functions_of_one(op: str, shape: Shape, seed: int, how: How, special: bool) -> None:
    x = numbers(shape, "float32", seed, special=special and op != "Sin")
    made = quiet(UNARY[op], x.astype(np.float64))
    check(op, [x], [made if made.dtype == bool else quiet(lambda x: x.astype(np.float32), made)], how)


@drawn(
    10,
    op=st.sampled_from(["Neg", "Abs", "Sign", "Relu", "BitwiseNot"]),
    dtype=st.sampled_from(["int8", "int64"]),
    shape=shapes(),
    seed=SEEDS,
    how=HOWS,
)
def test_functions_of_one_integer(op: str, dtype: str, shape: Shape, seed: int, how: How) -> None:
    x = numbers(shape, dtype, seed, special=True)
    check(op, [x], [quiet(np.invert if op == "BitwiseNot" else UNARY[op], x).astype(dtype)], how)


@drawn(
    12,
    dtype=st.sampled_from(["float16", "bfloat16"]),
    op=st.sampled_from(["Add", "Mul", "Less", "Max"]),
    both=broadcastable(2),
    seed=SEEDS,
    how=HOWS,
)
def test_sixteen_bit_floats(dtype: str, op: str, both: tuple[Shape, ...], seed: int, how: How) -> None:
    a, b = (numbers(shape, dtype, seed + k) for k, shape in enumerate(both))
    wide = quiet(ARITHMETIC[op], a.astype(np.float32), b.astype(np.float32))
    check(op, [a, b], [wide if op == "Less" else wide.astype(a.dtype)], how)


STEPS: dict[str, Function] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, np.float32(0)),
    "Tanh": np.tanh,
    "Abs": np.abs,
}


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[Link], dict[str, Array], Array]:
    """Three to five nodes over two inputs and earlier results."""
    both = draw(broadcastable(2))
    seed = draw(SEEDS)
    inputs = {f"x{k}": numbers(shape, "float32", seed + k) for k, shape in enumerate(both)}
    values = dict(inputs)
    links: list[Link] = []
    for k in range(draw(st.integers(3, 5))):
        op = draw(st.sampled_from(list(STEPS)))
        count = 1 if op in ("Neg", "Relu", "Tanh", "Abs") else 2
        latest = [f"t{k - 1}"] if k else []
        given = tuple([*latest, *[draw(st.sampled_from(list(values))) for _ in range(count)]][:count])
        values[f"t{k}"] = np.asarray(quiet(STEPS[op], *[values[name] for name in given]))
        links.append((op, given, {}))
    return links, inputs, values[f"t{len(links) - 1}"]


@pytest.mark.slow
@drawn(12, chain=chains(), how=HOWS)
def test_chains(chain: tuple[list[Link], dict[str, Array], Array], how: How) -> None:
    links, inputs, wanted = chain
    check_chain(links, inputs, wanted, how, atol=1e-4)
