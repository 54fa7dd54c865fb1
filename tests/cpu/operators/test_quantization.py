"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

import math

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidGraph
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def test_ties_are_rounded_to_even() -> None:
    x = f32(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, np.nan, np.inf, -np.inf)
    check_op(
        "QuantizeLinear", x, f32(1), np.array([4], np.int8), expected=np.array([2, 2, 4, 4, 6, 6, -128, 127, -128], np.int8)
    )


# --- DynamicQuantizeLinear


def test_extremes_of_a_large_tensor() -> None:
    x = ramp((300, 700))
    x[299, 699], x[7, 7] = 100, -50
    check_op("DynamicQuantizeLinear", x, outputs=3)


def test_zeros_have_the_scale_one() -> None:
    expected = [np.zeros(5, np.uint8), np.float32(1), np.uint8(0)]
    check_op("DynamicQuantizeLinear", np.zeros(5, np.float32), outputs=3, expected=expected)


@pytest.mark.parametrize("nan", [math.nan, -math.nan])
def test_the_scale_of_a_nan_is_nan(nan: float) -> None:
    x = ramp((3, 700))
    x[2, 1] = nan
    _, scale, _ = run_op("DynamicQuantizeLinear", [x], outputs=3)
    assert np.isnan(scale)


def test_scales_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="QuantizeLinear 'node'"):
        run_op("QuantizeLinear", [ramp((3, 4)), ramp((5,)), np.zeros(5, np.uint8)])


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("scale", "zero", "message"),
    [
        ((3, 2, 2), (3, 2, 2), "blocks of input 1: 2 against 3"),
        ((3, 3, 2), (3, 1, 2), "blocks of input 2: 1 against 3"),
        ((2, 3, 2), (3, 3, 2), "blocks of input 1: 2 against 3"),
        ((3, 2), (3, 3, 2), "blocks of input 1: 2 axes against 3"),
    ],
    ids=str,
)
def test_blocks_that_do_not_cover_the_axis_are_refused(
    op_type: str, scale: tuple[int, ...], zero: tuple[int, ...], message: str, fixed: bool
) -> None:
    inputs = [ramp((3, 7, 2), "float32" if op_type[0] == "Q" else "uint8"), ramp(scale, low=1), ramp(zero, "uint8")]
    with pytest.raises(InvalidArgument, match=message):
        run_op(op_type, inputs, {"axis": 1, "block_size": 3}, opset=25, fixed=fixed)


def test_blocks_and_axes_that_there_are_not_are_refused() -> None:
    inputs = [ramp((3, 7, 2)), ramp((3, 7, 2), low=1)]
    with pytest.raises(NotSupported, match="block_size -1"):
        run_op("QuantizeLinear", inputs, {"axis": 1, "block_size": -1}, opset=25)
    with pytest.raises(NotSupported, match=r"axis 3 is out of range \[-3, 3\)"):
        run_op("QuantizeLinear", inputs, {"axis": 3, "block_size": 3}, opset=25)
    with pytest.raises(NotSupported, match=r"axis 1 is out of range \[0, 0\)"):
        run_op("QuantizeLinear", [f32(1)[0], ramp((7,), low=1)], {"axis": 1, "block_size": 3}, opset=25)
    with pytest.raises(NotSupported, match=r"axis 4 is out of range \[-3, 3\)"):
        run_op("QuantizeLinear", [ramp((3, 7, 2)), ramp((7,), low=1)], {"axis": 4}, opset=25, fixed=True)


@pytest.mark.parametrize("constants", [(), (1,)], ids=["computed", "constant"])
def test_scales_may_be_powers_of_two_without_a_mantissa(constants: tuple[int, ...]) -> None:
    scales = np.array([0.5, 2, 0.25], np.float32)
    given = scales.astype(ml_dtypes.float8_e8m0fnu)
    x = ramp((3, 4), "int8")
    want = [x.astype(np.float32) * scales[:, None]]
    check_op("DequantizeLinear", x, given, expected=want, axis=0, output_dtype=1, opset=25, constants=constants)
    check_op("QuantizeLinear", want[0], given, expected=[x], axis=0, output_dtype=3, opset=25, constants=constants)


def test_bytes_are_not_made_of_bytes() -> None:
    with pytest.raises(InvalidGraph, match=r"output 0 \(y, 'out0'\) is tensor\(uint8\); DequantizeLinear-25 gives"):
        run_op("DequantizeLinear", [ramp((3, 4), "uint8"), f32(0.5)[0]], {"output_dtype": 2}, opset=25)


@settings(max_examples=60)
@given(st.floats(2.0**-59, 2.0**59, width=32), st.sampled_from(["uint8", "int8"]))
@example(0.5, "uint8")
@example(float(np.nextafter(np.float32(2), np.float32(0))), "int8")  # a mantissa of ones
def test_numbers_around_every_half_are_rounded_as_by_a_division(scale: float, dtype: str) -> None:
    """A constant scale is not divided by; numbers next to a tie tell."""
    step, half = np.float32(scale), (np.arange(-300, 300) + np.float32(0.5)).astype(np.float32)
    ties = half * step
    near = [ties]
    for direction in (np.float32(-np.inf), np.float32(np.inf)):
        moved = ties
        for _ in range(4):
            moved = np.nextafter(moved, direction)
            near.append(moved)
    x = np.concatenate([*near, np.array([0, -0.0, np.inf, -np.inf, 3e38, -3e38, 1e-45], np.float32)])
    zero, info = np.array(3, dtype), np.iinfo(dtype)
    with np.errstate(over="ignore"):
        levels = np.rint(x / step) + np.float32(3)
    want = np.clip(levels, info.min, info.max).astype(dtype)
    (got,) = run_op("QuantizeLinear", [x, np.asarray(step), zero], constants=[1, 2])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
def test_the_default_axis_of_a_vector_matters_only_to_several_scales(op_type: str) -> None:
    """Axis 1 is beyond a vector. How many scales there are only the run shows."""
    quantizes = op_type == "QuantizeLinear"
    own, result = ("float", "uint8") if quantizes else ("uint8", "float")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    main ({own}[N] x, float[S] scale, uint8[S] zero) => ({result}[N] y) {{ y = {op_type} (x, scale, zero) }}"""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"])
    x, scale, zero = np.array([2, 3], np.float32 if quantizes else np.uint8), f32(0.5), np.array([1], np.uint8)
    [got] = session.run(None, {"x": x, "scale": scale, "zero": zero})
    assert got.tolist() == ([5, 7] if quantizes else [0.5, 1.0])
    with pytest.raises(InvalidArgument, match="axis 1 is out of range, and the scale has 2 elements"):
        session.run(None, {"x": x, "scale": scale.repeat(2), "zero": zero.repeat(2)})
