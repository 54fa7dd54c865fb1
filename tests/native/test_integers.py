"""Integer operations and conversions of the language: defined for every operand."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from tests.native.calls import Array, call, element, evaluate, expression_spec

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*INTEGERS, "float32", "float64")


def pairs(dtype: str) -> tuple[Array, Array]:
    """Every combination of the ends, small values and a few others."""
    info = np.iinfo(dtype)
    values = {info.min, info.min + 1, info.max, info.max - 1, info.max // 3, *(v for v in range(-4, 5) if v >= info.min)}
    column = np.array(sorted(values), dtype)
    return np.repeat(column, column.size), np.tile(column, column.size)


def truncated(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def wrapped(values: list[int], dtype: str) -> Array:
    """Python integers modulo 2**bits."""
    width = 8 * np.dtype(dtype).itemsize
    return np.array([value % 2**width for value in values], f"uint{width}").astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    ("expression", "exact"),
    [
        ("idiv(x, y)", truncated),
        ("imod(x, y)", lambda x, y: 0 if y == 0 else x - y * truncated(x, y)),
        ("ifloormod(x, y)", lambda x, y: 0 if y == 0 else x % y),
        ("wadd(x, y)", lambda x, y: x + y),
        ("wsub(x, y)", lambda x, y: x - y),
        ("wmul(x, y)", lambda x, y: x * y),
        ("wneg(x)", lambda x, y: -x),
        ("iabs(x)", lambda x, y: abs(x)),
        ("imin(x, y)", min),
        ("imax(x, y)", max),
        ("min(x, y)", min),
        ("max(x, y, x)", max),
        ("x + y", lambda x, y: x + y),
        ("x * y", lambda x, y: x * y),
    ],
)
def test_operations_equal_pythons_wrapped(expression: str, exact: Callable[[int, int], int], dtype: str) -> None:
    x, y = pairs(dtype)
    expected = wrapped([exact(int(a), int(b)) for a, b in zip(x, y, strict=True)], dtype)
    np.testing.assert_array_equal(evaluate(expression, dtype, x, y), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("direction", ["shl", "shr"])
def test_shifts_are_defined_for_every_count(direction: str, dtype: str) -> None:
    x, y = pairs(dtype)
    width = 8 * np.dtype(dtype).itemsize
    counts = [int(count) if 0 <= count < width else width for count in y]
    shifted = [int(a) << n if direction == "shl" else int(a) >> n for a, n in zip(x, counts, strict=True)]
    np.testing.assert_array_equal(evaluate(f"{direction}(x, y)", dtype, x, y), wrapped(shifted, dtype))


@pytest.mark.parametrize("target", NUMBERS)
@pytest.mark.parametrize("source", NUMBERS)
def test_conversions_in_range_equal_numpys(source: str, target: str) -> None:
    values = np.array([0, 1, 2, 3, 100, 127], source)
    if np.dtype(source).kind != "u" and np.dtype(target).kind != "u":
        values = np.concatenate([values, -values])
    if np.dtype(source).kind == "f":
        values = np.concatenate([values, values * np.array(0.75, source)])
    expected = values.astype(target)
    np.testing.assert_array_equal(evaluate(f'cast(x, "{element(target)}")', target, values), expected)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_conversions_between_integers_keep_the_low_bits(source: str, target: str) -> None:
    x, _ = pairs(source)
    np.testing.assert_array_equal(evaluate("like(y, x)", target, x, np.zeros(x.shape, target)), x.astype(target))


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("target", INTEGERS)
def test_floats_out_of_range_become_what_x86_code_makes_of_them(source: str, target: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 300.0, -300.0, -1.5, 70_000.0, 3e9, -3e9, -2147483648.0], source)
    width = 64 if target in ("int64", "uint64", "uint32") else 32
    inside = (x >= -(2.0 ** (width - 1))) & (x < 2.0 ** (width - 1))
    whole = np.where(inside, np.trunc(np.where(inside, x, 0)), -(2.0 ** (width - 1))).astype(np.int64)
    if target == "uint64":  # one bit more: values from 2**63 on are shifted down and back
        whole[[1, 3]] = 0
    np.testing.assert_array_equal(evaluate("like(y, x)", target, x, np.zeros(x.shape, target)), whole.astype(target))
    np.testing.assert_array_equal(evaluate("int(x)", "int64", x), np.where(np.abs(x) < 2.0**63, whole64(x), -(2**63)))


def whole64(x: Array) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nan_to_num(x, nan=0, posinf=0, neginf=0).clip(-(2.0**62), 2.0**62).astype(np.int64)


@pytest.mark.parametrize(("n", "parts"), [(10, 3), (0, 4), (3, 8), (7, 1)])
def test_span_covers_every_index_once(n: int, parts: int) -> None:
    x, out = np.arange(n, dtype=np.int64), np.zeros(n, np.int64)
    spec = expression_spec("out[i] + 1", "i64", "i64")
    sizes = []
    for part in range(parts):
        before = out.sum()
        assert call(spec, [x, x, x, out], [n], part, parts) == 0
        sizes.append(out.sum() - before)
    assert (out == 1).all()
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("dtype", NUMBERS)
def test_select_takes_one_of_two(dtype: str) -> None:
    x = np.arange(9).astype(dtype)
    np.testing.assert_array_equal(evaluate("select(x > y, x, y)", dtype, x, x[::-1]), np.maximum(x, x[::-1]))
