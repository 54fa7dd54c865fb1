"""Resize and Upsample, against onnx.reference (which works in float64), and against onnxruntime where roundings decide."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, ShapeInferenceError
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, op_program, ramp, run_op
from tests.cpu.ort import ort_op

X = ramp((1, 2, 4, 5))
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


@pytest.mark.parametrize("coordinates", ["align_corners", "tf_crop_and_resize"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [1.7, 0.6])
def test_corners_are_those_that_there_are(scale: float, mode: str, coordinates: str) -> None:
    """By a scale that does not divide, against onnxruntime."""
    x, scales = ramp((1, 1, 3, 4)), floats(1, 1, 1, scale)
    roi = floats(0, 0, 0, 0, 1, 1, 1, 1) if coordinates == "tf_crop_and_resize" else None
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    [wanted] = ort_op("Resize", [x, roi, scales], attributes, opset=19)
    check_op("Resize", x, roi, scales, constants=[1, 2] if roi is not None else [2], expected=wanted, **attributes, **CLOSE)
    assert (wanted[..., -1] == x[..., -1]).all()


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_infinities_without_weight_do_not_count(mode: str) -> None:
    """Every other column is one of x, which has no neighbors; rows stay."""
    x = floats(1, -np.inf, 2, 3, 5, 4).reshape(1, 1, 2, 3)
    attributes = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    [y] = run_op("Resize", [x, None, None, np.array([1, 1, 2, 5])], attributes, opset=19)
    np.testing.assert_array_equal(y[..., ::2], x)
    assert not np.isfinite(y[0, 0, 0, 1::2]).any()


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 5), (1, 2, 3, 2, 2)], ids=str)
def test_of_any_rank(shape: tuple[int, ...]) -> None:
    check_op("Resize", ramp(shape), None, floats(*[1.5] * len(shape)), mode="linear", constants=[2], **CLOSE)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_bytes_are_rounded_and_kept_in_range(dtype: str) -> None:
    x = ramp((1, 2, 4, 5), dtype)
    check_op("Resize", x, None, floats(1, 1, 2, 2), constants=[2])
    x[0, 0, 0] = np.iinfo(dtype).max
    check_op("Resize", x, None, floats(1, 1, 1.5, 2), mode="cubic", constants=[2])


def test_scales_may_come_with_the_run() -> None:
    program = op_program("Resize", [X, None, floats(1, 1, 2, 2)])
    for factor in (1, 2, 3, 2):
        [got] = program([X, floats(1, 1, factor, 1)])
        np.testing.assert_array_equal(got, np.repeat(X, factor, 2))


def test_nothing_cannot_be_resized() -> None:
    program = op_program("Resize", [X, None, None, ints(1, 2, 3, 8)], constants=[3])
    with pytest.raises(InvalidArgument, match=r"Resize 'node' .*: axis 3 has no elements to resize"):
        program([X[:, :, :, :0]])


def test_positions_may_begin_half_a_pixel_later() -> None:
    attributes: dict[str, Any] = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
    expected = np.repeat(X, 2, 3)
    check_op("Resize", X, None, floats(1, 1, 1, 2), opset=11, constants=[2], expected=expected, **attributes)


@pytest.mark.parametrize("nearest_mode", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_axes_that_keep_their_size_begin_where_they_did(nearest_mode: str) -> None:
    attributes: dict[str, Any] = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": nearest_mode}
    x = ramp((1, 2, 3, 1))
    check_op("Resize", x, None, floats(1, 1, 1, 2), opset=11, constants=[2], expected=np.repeat(x, 2, 3), **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("dtype", ["int16", "uint32", "int64", "bool"])
def test_integers_of_any_size(dtype: str, mode: str) -> None:
    x = ramp((1, 2, 3, 4), dtype)
    scales = floats(1, 1, 2, 1.5)
    floating = np.float64 if x.itemsize > 2 else np.float32  # ties fall as they do in the type that is computed in
    [wide] = run_op("Resize", [x.astype(floating), None, scales], {"mode": mode}, constants=[2])
    want = wide != 0 if dtype == "bool" else np.rint(wide).astype(dtype)
    check_op("Resize", x, None, scales, mode=mode, constants=[2], expected=want)


def test_integers_end_where_their_type_does() -> None:
    for dtype in ("int16", "int64", "uint64"):
        limits = np.iinfo(dtype)
        x = np.array([[[limits.min, limits.max, limits.max, limits.min]]], dtype)
        got = run_op("Resize", [x, None, floats(1, 1, 4)], {"mode": "cubic"}, constants=[2])[0].astype(float)
        assert got.min() == float(limits.min) and got.max() >= float(limits.max) * 0.999999


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("region", [(np.nan, np.nan), (np.inf, 1), (-np.inf, np.inf), (1e30, -1e30)], ids=str)
def test_regions_of_anything_read_nothing_but_the_image(region: tuple[float, float], mode: str) -> None:
    roi = np.array([0, 0, 0, region[0], 1, 1, 1, region[1]], np.float32)
    attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
    [got] = run_op("Resize", [X, roi, None, ints(1, 2, 4, 7)], attributes, constants=[1, 3])
    assert got.shape == (1, 2, 4, 7)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"mode": "area"}, "mode 'area'"),
        ({"nearest_mode": "up"}, "nearest_mode 'up'"),
        ({"coordinate_transformation_mode": "x"}, "coordinate_transformation_mode 'x'"),
        ({"keep_aspect_ratio_policy": "x"}, "keep_aspect_ratio_policy 'x'"),
    ],
    ids=str,
)
def test_unknown_modes_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=f"Resize 'node' .*{message}"):
        op_program("Resize", [X, None, None, ints(1, 2, 4, 7)], attributes, constants=[3])


@pytest.mark.parametrize("roi", [None, np.zeros(0, np.float32), np.zeros(7, np.float32)], ids=["none", "empty", "short"])
def test_a_region_is_given_for_every_axis(roi: Array | None) -> None:
    how = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    with pytest.raises(NotSupported, match=r"Resize 'node' .*a region of . numbers, 4 axes"):
        op_program("Resize", [X, roi, None, ints(1, 2, 4, 7)], how, constants=[1, 3])


@pytest.mark.parametrize(("op", "opset", "message"), [("Resize", 19, "neither scales nor sizes"), ("Upsample", 9, "no scales")])
def test_what_is_given_no_size_is_refused(op: str, opset: int, message: str) -> None:
    with pytest.raises(ShapeInferenceError, match=f"{op} 'node': {message} are given"):
        op_program(op, [X], opset=opset)
