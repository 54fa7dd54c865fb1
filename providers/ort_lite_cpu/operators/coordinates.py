"""Coordinates of resized axes: the position of each output among the inputs."""

from typing import Any, NamedTuple

from ort_lite.native.lang import Static, cast, like

TIE = 1e-6
"""Coordinates that are so near to the middle between two positions are in the middle: what onnxruntime does."""


class AxisScale(NamedTuple):
    """The scale of an axis: `given`, or above / below if that is 0."""

    above: int
    below: int
    given: float


def source_coordinate(i: int, n: int, m: int, scale: Any, start: float, end: float, how: Static) -> Any:
    """Return the coordinate of output position i of m among the n input positions, in the precision of `scale`.

    Spec: ONNX Resize-19, coordinate_transformation_mode. Corners are aligned with the m positions that there are, as PyTorch and
    onnxruntime align them: decision 0076. "tf_half_pixel_for_nn" leaves an axis of scale 1 as it is, as onnxruntime does.
    """
    x, half = like(scale, i), like(scale, 0.5)
    if how == "asymmetric":
        return x / scale
    if how == "align_corners":
        return x * like(scale, n - 1) / like(scale, m - 1) if m != 1 else like(scale, 0)
    if how == "pytorch_half_pixel":
        return (x + half) / scale - half if m > 1 else like(scale, 0)
    if how == "tf_half_pixel_for_nn":
        return x if scale == 1 else (x + half) / scale
    if how == "half_pixel_symmetric":
        edge = like(scale, n) / like(scale, 2) * (like(scale, 1) - like(scale, m) / (scale * like(scale, n)))
        return like(scale, edge + (i + 0.5) / scale - 0.5)
    if how == "tf_crop_and_resize":
        first, last = like(scale, start), like(scale, end)
        if m > 1:
            return first * like(scale, n - 1) + x * (last - first) * like(scale, n - 1) / like(scale, m - 1)
        return half * (first + last) * like(scale, n - 1)
    return (x + half) / scale - half


def floor_of(v: Any) -> int:
    """Return the largest integer not above v."""
    whole: int = cast(v, "i64")  # of what is no such number the smallest: callers keep what comes of it inside of x
    return whole - 1 if v < whole else whole


def as_coordinate(v: Any, mode: Static) -> Any:
    """Return v in the precision of coordinates: float32 for the nearest, as in PyTorch and onnxruntime, else float64."""
    return cast(v, "f32") if mode == "nearest" else cast(v, "f64")


def nearest_of(v: Any, how: Static) -> int:
    """Return v rounded to an integer by the `nearest_mode` how."""
    down = floor_of(v)
    if how == "floor":
        return down
    if how == "ceil":
        return down if v == down else down + 1
    if how == "round_prefer_ceil":
        return down + 1 if v - down >= 0.5 - TIE else down
    return down + 1 if v - down > 0.5 + TIE else down
