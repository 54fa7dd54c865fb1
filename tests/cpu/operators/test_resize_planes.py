"""Resize of planes, rows and columns at once, against onnxruntime: sizes of every kind, storage orders, and what is no number."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from tests.cpu.check import check_op, ints, ramp, run_op
from tests.cpu.ort import ort_op

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
SIZES = [
    ((7, 9), (13, 31)),
    ((16, 16), (64, 64)),
    ((31, 40), (9, 11)),
    ((1, 1), (3, 5)),
    ((5, 1), (2, 7)),
    ((4, 6), (1, 1)),
    ((8, 9), (5, 30)),
    ((12, 40), (24, 80)),
]


def resized(x: Array, *sizes: int, **attributes: Any) -> None:
    """Compare with onnxruntime."""
    operands = [x, None, None, ints(*sizes)]
    [wanted] = ort_op("Resize", operands, attributes, opset=19)
    check_op("Resize", *operands, constants=[3], expected=wanted, **attributes, **CLOSE)


@pytest.mark.parametrize("how", COORDINATES)
@pytest.mark.parametrize(("old", "new"), SIZES, ids=str)
def test_planes_of_all_sizes(old: tuple[int, int], new: tuple[int, int], how: str) -> None:
    resized(ramp((2, 3, *old)), 2, 3, *new, mode="linear", coordinate_transformation_mode=how)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize(("old", "new"), SIZES, ids=str)
def test_nearest_in_planes(old: tuple[int, int], new: tuple[int, int], nearest: str) -> None:
    resized(ramp((2, 3, *old)), 2, 3, *new, mode="nearest", nearest_mode=nearest)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("channels", [1, 3, 15, 16, 40])
def test_axes_in_the_middle(channels: int, mode: str) -> None:
    """Columns of few elements have a table of their own; those of many have a loop each."""
    x = ramp((2, 6, 7, channels))
    wide = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    [wanted] = ort_op("Resize", [wide, None, None, ints(2, channels, 11, 5)], {"mode": mode}, opset=19)
    check_op(
        "Resize",
        x,
        None,
        None,
        ints(11, 5),
        axes=[1, 2],
        mode=mode,
        constants=[3],
        expected=wanted.transpose(0, 2, 3, 1),
        **CLOSE,
    )


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_one_axis(axis: int, mode: str) -> None:
    x = ramp((3, 4, 5, 18))
    check_op("Resize", x, None, None, ints(7), axes=[axis], mode=mode, constants=[3], **CLOSE)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_volumes(mode: str) -> None:
    check_op("Resize", ramp((1, 2, 3, 4, 5)), None, None, ints(1, 2, 5, 3, 9), mode=mode, constants=[3], **CLOSE)


@pytest.mark.parametrize("new", [(8, 9), (2, 9), (3, 2)], ids=str)
def test_what_is_no_number_stays_where_it_is(new: tuple[int, int]) -> None:
    x = ramp((1, 1, 4, 5))
    x[0, 0, 1, 2], x[0, 0, 3, 4] = np.nan, np.inf
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    [got] = run_op("Resize", [x, None, None, ints(1, 1, *new)], attributes, constants=[3], opset=19)
    [clean] = run_op(
        "Resize", [np.nan_to_num(x, nan=0, posinf=0), None, None, ints(1, 1, *new)], attributes, constants=[3], opset=19
    )
    finite = np.isfinite(got)
    assert finite.any() and not finite.all()
    np.testing.assert_array_equal(got[finite], clean[finite])


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (1, 0, 3, 4)], ids=str)
def test_nothing(shape: tuple[int, ...], mode: str) -> None:
    sizes = ints(*shape[:2], 6, 5)
    check_op(
        "Resize", np.zeros(shape, np.float32), None, None, sizes, mode=mode, constants=[3], expected=np.zeros(sizes, np.float32)
    )
