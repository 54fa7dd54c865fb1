"""GatherBlockQuantized, against onnxruntime."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op
from tests.hostile.building import operator_model

Shape = tuple[int, ...]
FLOATS = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"]


def codes(shape: Shape, dtype: str) -> Array:
    """Return elements of the whole range, of which those below 8 bits use the low ones."""
    found = np.random.default_rng(len(shape)).integers(0, 256, shape, np.uint8)
    if dtype == "uint8":
        return found
    four = found % 16
    signed = {"int4": (four.astype(np.int8) - 8), "uint4": four}
    made: Array = signed[dtype].astype(dtype) if dtype in signed else (four if "4_" in dtype else found).view(dtype)
    return made


def operands(shape: Shape, dtype: str, along: int, zeros: bool, *, size: int = 16, bits: int = 4) -> list[Array | None]:
    """Return data, scales and zero points, whose sizes follow from the number of elements `shape` along each axis."""
    share, blocks = 8 // bits if dtype == "uint8" else 1, -(-shape[along] // size)
    data, parameters, points = list(shape), list(shape), list(shape)
    data[along], parameters[along], points[along] = shape[along] // share, blocks, -(-blocks // share)
    scales = np.random.default_rng(0).uniform(0.1, 2, parameters).astype(np.float32)
    return [codes(tuple(data), dtype), scales, codes(tuple(points), dtype)[..., ::-1].copy() if zeros else None]


def check(data: Array | None, indices: Any, scales: Array | None, zeros: Array | None, **attributes: int) -> None:
    inputs = [data, np.asarray(indices), scales, zeros]
    constants = [0, 2] if zeros is None else [0, 2, 3]
    want = ort_op("GatherBlockQuantized", inputs, attributes, constants=constants, **HOW)
    how: dict[str, Any] = {"expected": want, "constants": constants, "rtol": 0, "atol": 0}
    check_op("GatherBlockQuantized", *inputs, **how, **attributes, **HOW)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("shape", "size"), [((5, 48), 16), ((3, 2, 80), 32), ((7, 8), 16), ((4, 256), 64)])
def test_bytes(shape: Shape, size: int, bits: int, zeros: bool) -> None:
    data, scales, points = operands(shape, "uint8", len(shape) - 1, zeros, size=size, bits=bits)
    how = {"bits": bits, "block_size": size, "quantize_axis": -1}
    check(data, np.array([[2, -1, 0], [-3, 1, 1]], np.int64), scales, points, **how)
    check(data, np.array([1, -2], np.int32), scales, points, gather_axis=-len(shape), **how)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("along", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_four_bits_along_any_axes(axis: int, along: int, dtype: str, zeros: bool) -> None:
    shape = tuple([18 if k == along else 4 + k for k in range(3)])
    data, scales, points = operands(shape, dtype, along, zeros)
    how = {"gather_axis": axis, "quantize_axis": along - 3, "block_size": 16}
    check(data, np.array([[2, -1], [0, 3]], np.int64), scales, points, **how)
    check(data, np.array([-4], np.int32), scales, points, **how)


@pytest.mark.parametrize("dtype", FLOATS)
def test_small_floats(dtype: str) -> None:
    data, scales, _ = operands((9, 40), dtype, 1, False)
    check(data, np.arange(-9, 9), scales, None, block_size=16)


def test_one_index_and_none() -> None:
    data, scales, points = operands((5, 48), "uint8", 1, True)
    check(data, np.array(-2, np.int64), scales, points, block_size=16)
    check(data, np.zeros((0, 3), np.int64), scales, points, block_size=16)


@pytest.mark.parametrize("index", [5, -6, 2**40])
def test_an_index_out_of_range_is_named(index: int) -> None:
    data, scales, points = operands((5, 48), "uint8", 1, True)
    inputs = [data, np.array([0, 4, index], np.int64), scales, points]
    with pytest.raises(InvalidArgument, match=rf"index {index} at position 2 of 'in1' is out of range \[-5, 5\)"):
        run_op("GatherBlockQuantized", inputs, {"block_size": 16}, **HOW)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("index", "given", "message"),
    [
        (2, np.ones((5, 2), np.float32), "data and scales do not fit: 2 against 3"),
        (2, np.ones(15, np.float32), "data and scales do not fit: 1 axes against 2"),
        (3, np.ones((5, 3), np.uint8), "scales and zero points do not fit: 3 against 2"),
    ],
)
def test_parameters_of_other_sizes_are_refused(index: int, given: Array, message: str, fixed: bool) -> None:
    data, scales, points = operands((5, 48), "uint8", 1, True)
    inputs = [data, np.zeros(1, np.int64), scales, points]
    inputs[index] = given
    with pytest.raises(InvalidArgument, match=message):
        run_op("GatherBlockQuantized", inputs, {"block_size": 16}, fixed=fixed, **HOW)


@pytest.mark.parametrize(
    ("dtype", "zeros", "more", "message"),
    [
        ("uint8", False, {"block_size": 8}, "block_size 8, takes powers of two from 16 on"),
        ("int4", False, {"block_size": 17}, "block_size 17"),
        ("uint8", False, {"bits": 3}, "3 bits of uint8, takes 2, 4 and 8"),
        ("uint4", False, {"bits": 8}, "8 bits of uint4, takes 4"),
        ("float8_e5m2", True, {}, "zero points with data of float8_e5m2"),
        ("uint8", False, {"quantize_axis": 0}, "gather_axis 0 and quantize_axis 0 with uint8 of rank 2"),
        ("uint8", False, {"gather_axis": 1}, "gather_axis 1 and quantize_axis 1 with uint8 of rank 2"),
    ],
    ids=str,
)
def test_what_no_kernel_takes_is_refused(dtype: str, zeros: bool, more: dict[str, int], message: str) -> None:
    data, scales, points = operands((5, 48), dtype, 1, zeros)
    inputs = [data, np.zeros(1, np.int64), scales, points]
    with pytest.raises(NotSupported, match=message):
        op_program("GatherBlockQuantized", inputs, {"block_size": 16, **more}, **HOW)


def test_data_of_rank_1_is_refused() -> None:
    inputs = [codes((48,), "int4"), np.zeros(1, np.int64), np.ones(3, np.float32)]
    with pytest.raises(NotSupported, match="data of rank 1, takes 2 or more"):
        op_program("GatherBlockQuantized", inputs, {"block_size": 16, "quantize_axis": 0}, **HOW)


@pytest.mark.parametrize("axis", [2, -3])
@pytest.mark.parametrize(("name", "error"), [("gather_axis", InvalidArgument), ("quantize_axis", NotSupported)])
def test_axes_out_of_range_are_refused(name: str, error: type[Exception], axis: int) -> None:
    data, scales, _ = operands((5, 48), "int4", 1, False)
    with pytest.raises(error, match=f"axis {axis} "):
        run_op("GatherBlockQuantized", [data, np.zeros(1, np.int64), scales], {"block_size": 16, name: axis}, **HOW)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "uint8", "float8_e4m3fn"])
def test_sessions_take_float16_scales(dtype: str) -> None:
    data, scales, points = operands((5, 48), dtype, 1, dtype not in FLOATS)
    assert scales is not None
    arrays = [data, np.array([3, -1], np.int64), scales.astype(np.float16), *([] if points is None else [points])]
    constants = [k for k in range(len(arrays)) if k != 1]
    model = operator_model("GatherBlockQuantized", arrays, constants=constants, block_size=16, **HOW).SerializeToString()
    apis: list[Any] = [ort_lite, onnxruntime]
    sessions = [api.InferenceSession(model, providers=["CPUExecutionProvider"]) for api in apis]
    [got], [want] = (session.run(None, {"in1": arrays[1]}) for session in sessions)
    assert got.dtype == np.float16
    assert np.array_equal(got, want)
