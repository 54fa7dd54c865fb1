"""Softmax, LogSoftmax, Hardmax."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.native import Spec
from ort_lite.native.cpu import host
from ort_lite_cpu.kernels.softmax import vectors_for
from ort_lite_cpu.operators.softmax import softmax as kernel
from tests.cpu.check import check_op, op_program, ramp
from tests.native.calls import call

Shape = tuple[int, ...]


def softmax(x: Array, axis: int = -1) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
        return np.asarray((e / e.sum(axis, keepdims=True)).astype(x.dtype))


def log_softmax(x: Array, axis: int = -1) -> Array:
    wide = x.astype(np.float64) - x.max(axis, keepdims=True)
    return np.asarray((wide - np.log(np.exp(wide).sum(axis, keepdims=True))).astype(x.dtype))


ORACLES = {"Softmax": softmax, "LogSoftmax": log_softmax}


@pytest.mark.parametrize("op", ["Softmax", "Hardmax"])
def test_no_rows_and_rows_of_nothing(op: str) -> None:
    for shape in ((0, 3), (3, 0)):
        check_op(op, np.zeros(shape, np.float32), expected=np.zeros(shape, np.float32))


def test_large_and_infinite_numbers() -> None:
    x = np.array([[1e30, 1e30, 0], [-np.inf, 0, 0], [np.nan, 1, 2], [-1e30, 0, 1e30]], np.float32)
    check_op("Softmax", x, expected=softmax)
    check_op("LogSoftmax", np.array([[1e30, 0], [88, -88]], np.float32), expected=log_softmax)
    check_op("Softmax", np.array([[-np.inf, -np.inf], [np.inf, 0]], np.float32), expected=softmax)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("n", [1, 3, 16, 17, 63, 130, 2049])
def test_rows_of_any_length_however_many_a_thread_has(op: str, n: int) -> None:
    """Threads with few rows, and long rows, take another way, to the same bits."""
    x = np.random.default_rng(n).normal(0, 5, (8, n)).astype(np.float32)
    check_op(op, x, expected=ORACLES[op], rtol=4e-6, atol=0 if op == "Softmax" else 4e-6)


@pytest.mark.parametrize("n", [5, 40])
def test_not_a_number_fills_its_row_alone(n: int) -> None:
    x = ramp((6, n), low=-5, high=9)
    x[1, 2], x[3, n - 1], x[4, 0] = np.nan, np.inf, -np.inf
    x[5] = [-np.inf] * (n - 1) + [np.nan]
    check_op("Softmax", x, expected=softmax)


def test_what_is_no_normal_number_beside_the_largest_is_zero() -> None:
    x = np.array([[0, -87.3, -87.4, -100, -1e30, -np.inf]], np.float32)
    check_op("Softmax", x, expected=np.array([[1, np.exp(-87.3), 0, 0, 0, 0]], np.float32), rtol=1e-5, atol=0)


@pytest.mark.parametrize("n", [7, 37])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_in_place(op: str, n: int) -> None:
    x = ramp((5, n), low=-5, high=9)
    expected = ORACLES[op](x)
    spec = Spec(kernel, ("f32", "f32"), {"logarithm": op == "LogSoftmax", **vectors_for("f32", host())})
    assert call(spec, [x, x], [5, n]) == 0
    np.testing.assert_allclose(x, expected, rtol=2e-6, atol=1e-6)


def test_of_doubles_and_of_a_scalar() -> None:
    check_op("Softmax", ramp((3, 4), "float64"), expected=softmax, rtol=1e-14)
    check_op("Softmax", np.array(3, np.float32), expected=np.array(1, np.float32))


def by_steps(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


@pytest.mark.parametrize(
    ("dtype", "shape", "axis"), [(np.float16, (40, 8), -1), (bfloat16, (40, 8), -1), (bfloat16, (3, 5, 4), 1)], ids=str
)
def test_sixteen_bits_are_rounded_at_every_step(dtype: type, shape: Shape, axis: int) -> None:
    x = ramp(shape, low=-5, high=9).astype(dtype)
    check_op("Softmax", x, axis=axis, expected=by_steps(x, axis), rtol=0, atol=0, steps=True)


def test_a_long_sum_of_bfloat16_goes_on_growing() -> None:
    """As bfloat16 it would stop at 256: adding 1 to that changes nothing."""
    check_op(
        "Softmax", np.zeros((2, 4096), bfloat16), expected=np.full((2, 4096), 1 / 4096, bfloat16), rtol=0, atol=0, steps=True
    )
    x = ramp((1, 5000), low=-2, high=2).astype(bfloat16)
    check_op("Softmax", x, expected=softmax(x.astype(np.float64)).astype(bfloat16), rtol=2**-6, steps=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_the_first_nan_of_hardmax_counts_as_the_largest(dtype: str) -> None:
    x = np.array([[1, np.nan, 3], [np.nan, np.inf, 2], [3, np.nan, np.nan]], dtype)
    check_op("Hardmax", x, expected=np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0]], dtype))


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_an_axis_that_is_not_there_is_refused(op: str, opset: int) -> None:
    for axis in (2, -3, 2**62):
        with pytest.raises(InvalidArgument, match=f"{op} 'node' .*axis {axis} is out of range"):
            op_program(op, [ramp((3, 4))], {"axis": axis}, opset=opset)
