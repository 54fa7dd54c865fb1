"""RoiAlign and MaxRoiPool."""

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import RuntimeException
from tests.cpu.check import check_op, ints, ramp, run_op

X = ramp((2, 3, 8, 7))
ROIS = np.array([[0, 0, 5, 6], [1.5, 2.25, 6, 3], [4, 4, 4, 4], [-3, -2, 20, 3]], np.float32)
BATCH = ints(0, 1, 1, 0)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("how", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("samples", [0, 2])
def test_roi_align_matches_the_reference(mode: str, how: str, samples: int) -> None:
    check_op(
        "RoiAlign", X, ROIS, BATCH, opset=16, atol=1e-5, mode=mode, coordinate_transformation_mode=how, output_height=3,
        output_width=2, sampling_ratio=samples, spatial_scale=0.75,
    )  # fmt: skip


def test_before_opset_16_nothing_is_shifted_by_half_a_pixel() -> None:
    size = {"output_height": 2, "output_width": 2}
    [old] = run_op("RoiAlign", [X, ROIS, BATCH], size, opset=10)
    [new] = run_op("RoiAlign", [X, ROIS, BATCH], {**size, "coordinate_transformation_mode": "output_half_pixel"}, opset=16)
    assert np.array_equal(old, new)


def max_pooled(x: Array, rois: Array, pooled_shape: list[int]) -> Array:
    y = np.zeros((len(rois), x.shape[1], *pooled_shape), np.float32)
    for k, (batch, left, top, right, bottom) in enumerate(rois.astype(int)):
        for i, rows in enumerate(np.array_split(np.arange(top, bottom + 1), pooled_shape[0])):
            for j, columns in enumerate(np.array_split(np.arange(left, right + 1), pooled_shape[1])):
                y[k, :, i, j] = x[batch][:, rows][:, :, columns].max((1, 2))
    return y


def test_max_roi_pool_takes_the_largest_of_each_cell() -> None:
    rois = np.array([[0, 0, 0, 5, 7], [1, 1, 2, 4, 5]], np.float32)
    check_op("MaxRoiPool", X, rois, pooled_shape=[2, 2], expected=max_pooled)


def test_max_roi_pool_scales_and_cells_outside_are_zero() -> None:
    rois = np.array([[0, 40, 40, 50, 50], [0, 0, 0, 2, 2]], np.float32)
    [got] = run_op("MaxRoiPool", [X, rois], {"pooled_shape": [1, 1], "spatial_scale": 0.5})
    assert got[:, :, 0, 0].tolist() == [[0, 0, 0], X[0, :, :2, :2].max((1, 2)).tolist()]


@pytest.mark.parametrize(("op", "inputs", "where"), [
    ("RoiAlign", [X, ROIS, ints(0, 1, 2, 0)], "2 at position 2 of 'in2'"),
    ("MaxRoiPool", [X, np.array([[0, 0, 0, 1, 1]] * 2 + [[2, 0, 0, 1, 1]], np.float32)], "2.0 at position 10 of 'in1'"),
])  # fmt: skip
def test_a_batch_index_out_of_range_is_named(op: str, inputs: list[Array], where: str) -> None:
    attributes = {"pooled_shape": [1, 1]} if op == "MaxRoiPool" else {}
    with pytest.raises(RuntimeException, match=rf"{op} 'node' .*batch index {where} is out of range \[0, 2\)"):
        run_op(op, inputs, attributes, opset=16)
