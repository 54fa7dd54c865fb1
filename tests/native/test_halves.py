"""float16 and bfloat16 conversions: every bit pattern, by instructions and by integers."""

import ml_dtypes
import numpy as np
import pytest

from tests.native.calls import Array, evaluate

KERNELS = "tests.native.kernels"
EVERY_PATTERN = np.arange(65536, dtype=np.uint16)
HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def floats_near(dtype: np.dtype[np.generic]) -> Array:
    """All values of a half type, midpoints between neighbours, and what lies next to them."""
    exact = EVERY_PATTERN.view(dtype).astype(np.float32)
    exact = np.sort(exact[np.isfinite(exact)])
    middle = ((exact[1:].astype(np.float64) + exact[:-1]) / 2).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 65519.996, 65520, 65536, 3.4e38, 1e-45, -1e-45, 5.9e-8], np.float32)
    with np.errstate(over="ignore"):
        return np.concatenate(
            [exact, middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9)), special]
        )


def same_floats(got: Array, expected: Array) -> bool:
    """Equal bits, or both NaN."""
    return bool(((got == expected) & (np.signbit(got) == np.signbit(expected)) | (np.isnan(got) & np.isnan(expected))).all())


@pytest.mark.parametrize("function", ["f16_to_f32", "_widen_f16", "bf16_to_f32"])
def test_widening_is_exact(function: str) -> None:
    expected = EVERY_PATTERN.view(HALVES["bf16" if "bf16" in function else "f16"]).astype(np.float32)
    assert same_floats(evaluate(f"{function}(x)", np.float32, EVERY_PATTERN, module=KERNELS), expected)


@pytest.mark.parametrize("function", ["f32_to_f16", "_narrow_f16", "f32_to_bf16"])
def test_narrowing_rounds_to_nearest_even_and_keeps_nan(function: str) -> None:
    dtype = HALVES["bf16" if "bf16" in function else "f16"]
    x = floats_near(dtype)
    with np.errstate(over="ignore"):
        expected = x.astype(dtype).astype(np.float32)
    got = evaluate(f"{function}(x)", np.uint16, x, module=KERNELS).view(dtype).astype(np.float32)
    assert same_floats(got, expected)
