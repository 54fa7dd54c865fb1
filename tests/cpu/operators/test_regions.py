"""RoiAlign and MaxRoiPool."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError, RuntimeException
from tests.cpu.check import check_op, ints, ramp, run_op

X = ramp((2, 3, 8, 7))
ROIS = np.array([[0, 0, 5, 6], [1.5, 2.25, 6, 3], [4, 4, 4, 4], [-3, -2, 20, 3]], np.float32)
BATCH = ints(0, 1, 1, 0)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("how", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("samples", [0, 2])
def test_roi_align_matches_the_reference(mode: str, how: str, samples: int) -> None:
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how, "sampling_ratio": samples}
    attributes |= {"output_height": 3, "output_width": 2, "spatial_scale": 0.75}
    check_op("RoiAlign", X, ROIS, BATCH, opset=16, atol=1e-5, **attributes)


def test_max_roi_pool_scales_and_cells_outside_are_zero() -> None:
    rois = np.array([[0, 40, 40, 50, 50], [0, 0, 0, 2, 2]], np.float32)
    [got] = run_op("MaxRoiPool", [X, rois], {"pooled_shape": [1, 1], "spatial_scale": 0.5})
    assert got[:, :, 0, 0].tolist() == [[0, 0, 0], X[0, :, :2, :2].max((1, 2)).tolist()]


@pytest.mark.parametrize(
    ("op", "inputs", "where"),
    [
        ("RoiAlign", [X, ROIS, ints(0, 1, 2, 0)], "2 at position 2 of 'in2'"),
        ("MaxRoiPool", [X, np.array([[0, 0, 0, 1, 1]] * 2 + [[2, 0, 0, 1, 1]], np.float32)], "2.0 at position 10 of 'in1'"),
    ],
)
def test_a_batch_index_out_of_range_is_named(op: str, inputs: list[Array], where: str) -> None:
    attributes = {"pooled_shape": [1, 1]} if op == "MaxRoiPool" else {}
    with pytest.raises(RuntimeException, match=rf"{op} 'node' .*batch index {where} is out of range \[0, 2\)"):
        run_op(op, inputs, attributes, opset=16)


SIZE = {"output_height": 2, "output_width": 2}


@pytest.mark.parametrize("how", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9])
def test_rectangles_of_anything_read_nothing_but_the_image(value: float, mode: str, how: str) -> None:
    rois = np.full((4, 4), value, np.float32)
    attributes = {"coordinate_transformation_mode": how, "mode": mode, "sampling_ratio": 2, **SIZE}
    [got] = run_op("RoiAlign", [X, rois, BATCH], attributes, opset=16)
    assert got.shape == (4, 3, 2, 2)
    if not np.isfinite(value):
        np.testing.assert_array_equal(got, 0)


def test_the_samples_of_a_huge_rectangle_are_limited() -> None:
    """Or it would take days."""
    rois = np.array([[0, 0, 1e15, 1e15]], np.float32)
    [got] = run_op("RoiAlign", [X[:, :1], rois, ints(0)], opset=16)
    assert np.isfinite(got).all()


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X[0], ROIS, BATCH], {}, "rank 3"),
        ([X, ROIS, BATCH[:3]], {}, "batch_indices, .* is 3, but R is 4"),
        ([X, ROIS[:, :3], BATCH], {}, "rois, .* is 3[,;] it should be 4"),
        ([X, ROIS, BATCH], {"mode": "sum"}, "mode 'sum'"),
        ([X, ROIS, BATCH], {"sampling_ratio": -1}, "sampling_ratio -1"),
        ([X, ROIS, BATCH], {"sampling_ratio": 2**31}, "sampling_ratio"),
        ([X, ROIS, BATCH], {"output_height": -1, "output_width": -1}, "regions of -1 cells"),
        ([X[:, :, :0], ROIS, BATCH], {}, "the images have no pixels"),
    ],
    ids=str,
)
def test_regions_that_do_not_fit_are_refused(inputs: list[Array], attributes: dict[str, Any], message: str) -> None:
    for fixed in (True, False):
        with pytest.raises(OrtLiteError, match=f"RoiAlign 'node'.*{message}"):
            run_op("RoiAlign", inputs, SIZE | attributes, opset=16, fixed=fixed)


@pytest.mark.parametrize(
    ("x", "rois", "shape", "message"),
    [
        (X, ramp((2, 4)), [2, 2], "rois, .* is 4[,;] it should be 5"),
        (X, ramp((2, 5)), [2], "pooled_shape"),
        (X, ramp((2, 5)), [-1, -2], "regions of -1 cells"),
        (X[:, :, :, :0], np.zeros((1, 5), np.float32), [1, 1], "no pixels"),
        (X[0], ramp((2, 5)), [2, 2], "rank 3"),
    ],
    ids=str,
)
def test_pooled_regions_that_do_not_fit_are_refused(x: Array, rois: Array, shape: list[int], message: str) -> None:
    with pytest.raises(OrtLiteError, match=f"MaxRoiPool 'node'.*{message}"):
        run_op("MaxRoiPool", [x, rois], {"pooled_shape": shape}, opset=16)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, -1e30])
def test_pooled_rectangles_of_anything_read_nothing_but_the_image(value: float) -> None:
    rois = np.array([[0, value, -value, value, value], [1, -value, 0, value, value]], np.float32)
    [got] = run_op("MaxRoiPool", [X, rois], {"pooled_shape": [2, 3]}, opset=16)
    assert set(got.reshape(-1)) <= {0.0, *X.reshape(-1)}
