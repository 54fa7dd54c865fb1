"""Cast from and to types narrower than 16 bits."""

from typing import Any

import numpy as np
import pytest
from onnx.numpy_helper import saturate_cast

from ort_lite.dtypes import Array, to_numpy, to_onnx
from tests.cpu.check import check_op, run_op

CODES = {"float4_e2m1fn": 16, "float6_e2m3fn": 64, "float6_e3m2fn": 64}
FLOATS = [*(f"float8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")), *CODES]
INTEGERS = {"int4": 16, "uint4": 16, "int2": 4, "uint2": 4}


def codes(dtype: str) -> Array:
    """Every value of the type."""
    return np.arange((CODES | INTEGERS).get(dtype, 256), dtype=np.uint8).view(to_numpy(dtype))


def around(dtype: str) -> Array:
    """Every finite value of a float type, what lies halfway between two, and their neighbours in float32."""
    values = np.unique(codes(dtype).astype(np.float32))
    values = values[np.isfinite(values)]
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2, values[-1:] * 2, [np.float32(1e-30), np.float32(-1e-30)]])
    return np.concatenate([points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))])


def cast(x: Array, dtype: str, **attributes: Any) -> Array:
    [got] = run_op("Cast", [x], {"to": to_onnx(dtype), **attributes}, opset=28)
    return np.asarray(got)


@pytest.mark.parametrize("dtype", [*FLOATS, "float8_e8m0fnu", *INTEGERS])
def test_every_value_is_widened_exactly(dtype: str) -> None:
    check_op("Cast", codes(dtype), opset=28, to=to_onnx("float32"), expected=codes(dtype).astype(np.float32))


@pytest.mark.parametrize("dtype", FLOATS)
def test_to_the_nearest_with_ties_to_even(dtype: str) -> None:
    x = around(dtype)
    x = x[np.abs(x) <= np.abs(x).max() / 2]
    assert cast(x, dtype).view(np.uint8).tolist() == x.astype(to_numpy(dtype)).view(np.uint8).tolist()


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS[:4])
def test_what_is_too_large(dtype: str, saturate: int) -> None:
    x = np.array([1e6, -1e6, np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    with np.errstate(over="ignore"):
        wanted = saturate_cast(x, to_numpy(dtype)) if saturate else x.astype(to_numpy(dtype))
    got = cast(x, dtype, saturate=saturate)
    assert np.array_equal(got.astype(np.float32), wanted.astype(np.float32), equal_nan=True)


def test_four_bit_floats_have_no_infinity() -> None:
    x = np.array([6.9, np.inf, -np.inf, 1e30], np.float32)
    assert cast(x, "float4_e2m1fn").astype(np.float32).tolist() == [6, 6, -6, 6]


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("up", [0, 1, 127, 128, 128, 128, 254]),
        ("down", [0, 0, 127, 127, 127, 127, 254]),
        ("nearest", [0, 1, 127, 127, 128, 128, 254]),
    ],
)
def test_powers_of_two_by_rounding_mode(mode: str, wanted: list[int]) -> None:
    x = np.array([0, 1.9 * 2.0**-127, 1, 1.2, 1.5, 1.9, 3e38], np.float32)
    assert cast(x, "float8_e8m0fnu", round_mode=mode).view(np.uint8).tolist() == wanted


def test_powers_of_two_without_saturation_have_nan() -> None:
    x = np.array([0, 1e-45, np.inf, 3.4e38, np.nan, 2], np.float32)
    assert cast(x, "float8_e8m0fnu", round_mode="nearest", saturate=0).view(np.uint8).tolist() == [255, 255, 255, 255, 255, 128]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", ["float32", "int64"])
def test_integers_keep_their_low_bits(dtype: str, source: str) -> None:
    x = np.arange(-40, 40).astype(source)
    bits = x.astype(np.int64) & (INTEGERS[dtype] - 1)
    assert cast(x, dtype).view(np.uint8).tolist() == bits.tolist()
