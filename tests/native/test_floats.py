"""Floating-point functions of the language against NumPy and the C library in higher precision."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from ort_lite.native.cpu import Target, host
from tests.native.calls import HASWELL, SKYLAKE_AVX512, TARGETS, Array, evaluate, ulps

FLOATS: tuple[type[np.floating], ...] = (np.float32, np.float64)
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, 4e-4, 1e-10, -1e-10)


def samples(dtype: type[np.floating], low: float, high: float) -> Array:
    """Special values, ends of the range, powers of two, and a ramp from low to high."""
    info = np.finfo(dtype)
    ends = [info.max, info.tiny, info.smallest_subnormal, info.tiny * 0.75, info.eps]
    powers = 2.0 ** np.arange(info.minexp, info.maxexp)
    with np.errstate(over="ignore"):
        values = np.concatenate([SPECIAL, ends, np.negative(ends), powers, -powers, np.linspace(low, high, 40_000)])
    return values.astype(dtype)


def pairs(values: tuple[float, ...], dtype: type[np.floating]) -> tuple[Array, Array]:
    """Every value with every other."""
    column: Array = np.array(values, dtype)
    return np.repeat(column, column.size), np.tile(column, column.size)


def erf(x: Array) -> Array:
    return np.array([math.erf(value) for value in x])


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1.0) / (1.0 + np.exp(-np.abs(x)))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "exact", "low", "high", "limit"),
    [
        ("exp", np.exp, -110, 95, 1.5),
        ("log", np.log, 0, 1000, 1.5),
        ("log", np.log, 0.5, 2, 1.5),
        ("log1p", np.log1p, -1, 1000, 2),
        ("log1p", np.log1p, -0.01, 0.01, 2),
        ("log1p", np.log1p, 0, 1, 2),
        ("tanh", np.tanh, -10, 10, 5),
        ("tanh", np.tanh, -1, 1, 3),
        ("erf", erf, -5, 5, 2),
        ("erf", erf, -0.01, 0.01, 2),
        ("erf", erf, 0.94, 1.0, 2),
        ("sigmoid", sigmoid, -110, 20, 3),
        ("sin", np.sin, -10, 10, 2.5),
        ("cos", np.cos, -10, 10, 2.5),
    ],
)
def test_transcendental_functions_are_accurate(
    name: str, exact: Callable[[Array], Array], low: float, high: float, limit: float, dtype: type[np.floating], target: Target
) -> None:
    x = samples(dtype, low, high)
    with np.errstate(all="ignore"):
        expected = exact(x.astype(np.float64))
    distance = ulps(evaluate(f"{name}(x)", dtype, x, target=target), expected)
    worst = int(np.argmax(distance))
    assert distance[worst] <= limit, f"{name}({x[worst]!r}) is {distance[worst]} ulp from {expected[worst]!r}"


@pytest.mark.skipif(not host().has("avx512f"), reason="needs AVX-512")
@pytest.mark.parametrize("name", ["exp", "sigmoid"])
def test_powers_of_two_are_multiplied_alike_with_and_without_an_instruction(name: str) -> None:
    x = samples(np.float32, -110, 95)
    by_instruction, by_factors = (evaluate(f"{name}(x)", np.float32, x, target=target) for target in (SKYLAKE_AVX512, HASWELL))
    np.testing.assert_array_equal(by_instruction, by_factors)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize(("name", "exact"), [("sin", np.sin), ("cos", np.cos)])
def test_angles_of_any_size_are_accurate(name: str, exact: np.ufunc, target: Target) -> None:
    """Each exponent, those close to a multiple of pi / 2, and every finite number at a stride."""
    turns = (np.arange(1, 100_000) * (math.pi / 2)).astype(np.float32)
    strided: Array = np.arange(0, 0x7F800000, 4999, dtype=np.uint32).view(np.float32)
    close = np.array([16367173.0 * 2.0**72, 5.3449e22, 6.3e15, 3.4028235e38], np.float32)
    x: Array = np.concatenate([strided, turns, np.nextafter(turns, np.float32(0)), close])
    x = np.concatenate([x, -x])
    assert ulps(evaluate(f"{name}(x)", np.float32, x, target=target), exact(x.astype(np.float64))).max() <= 2.5


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize(
    ("name", "low", "high"), [("exp", -105, 89), ("erf", -4.5, 4.5), ("erf", 0.5, 1.5), ("sigmoid", -105, 20)]
)
def test_what_grows_never_falls(name: str, low: float, high: float, target: Target) -> None:
    """Where one polynomial takes over from another, too."""
    y = evaluate(f"{name}(x)", np.float32, np.linspace(low, high, 400_000).astype(np.float32), target=target)
    assert (y[1:] >= y[:-1]).all()
    assert y[0] < y[-1]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sqrt", "floor", "ceil", "trunc", "rint", "fabs", "isnan", "isinf"])
def test_exact_functions_equal_numpys(name: str, dtype: type[np.floating], target: Target) -> None:
    x = samples(dtype, -20, 20)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    np.testing.assert_array_equal(evaluate(f"{name}(x)", expected.dtype, x, target=target), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "exact"),
    [("fmin", np.minimum), ("fmax", np.maximum), ("min", np.minimum), ("max", np.maximum), ("copysign", np.copysign)],
)
def test_functions_of_two_equal_numpys_nan_included(name: str, exact: np.ufunc, dtype: type[np.floating]) -> None:
    x, y = pairs(SPECIAL, dtype)
    np.testing.assert_array_equal(evaluate(f"{name}(x, y)", dtype, x, y), exact(x, y))


C_LIBRARY = "tan asin acos atan sinh cosh asinh acosh atanh exp2 expm1 log2 log10 cbrt"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", C_LIBRARY.split())
def test_functions_of_the_c_library_keep_their_accuracy(name: str, dtype: type[np.floating]) -> None:
    x: Array = np.array([*SPECIAL, *np.linspace(-3, 3, 101)], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.float64))
    assert ulps(evaluate(f"{name}(x)", dtype, x), expected).max() <= 4


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "exact"), [("power", np.power), ("atan2", np.arctan2), ("fmod_trunc", np.fmod)])
def test_functions_of_two_from_the_c_library(name: str, exact: np.ufunc, dtype: type[np.floating]) -> None:
    x, y = pairs((*SPECIAL, 3.0, 7.25, -7.25), dtype)
    with np.errstate(all="ignore"):
        expected = exact(x, y).astype(np.float64)
    assert ulps(evaluate(f"{name}(x, y)", dtype, x, y), expected).max() <= 2


def test_fma_multiplies_and_adds() -> None:
    x = np.linspace(-2, 2, 33, dtype=np.float32)
    np.testing.assert_allclose(evaluate("fma(x, y, z)", np.float32, x, x + 1, x + 2), x * (x + 1) + x + 2, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_and_back(dtype: type[np.floating]) -> None:
    x = samples(dtype, -1, 1)
    pattern = x.view(f"u{x.itemsize}")
    np.testing.assert_array_equal(evaluate("bits(x)", pattern.dtype, x), pattern)
    np.testing.assert_array_equal(evaluate("from_bits(x)", dtype, pattern).view(pattern.dtype), pattern)
