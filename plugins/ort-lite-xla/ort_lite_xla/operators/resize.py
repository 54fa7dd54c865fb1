"""Resizing of images. Each element is a weighted sum of a few others, whose positions are known while tracing."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Node
from ort_lite_xla.along import only_first
from ort_lite_xla.registry import ALL, BYTES, FLOATS, INDICES, Array, XlaOp, lowering

Numbers = np.ndarray[Any, np.dtype[np.floating[Any]]]
NUMERIC = FLOATS | BYTES | {"int32"}
TIE = 1e-6
"""The distance from the middle between two elements within which a position counts as the middle."""


class ResizedAxis(NamedTuple):
    """One dimension: its size before and after, its scale, and the range that a crop selects."""

    size: int
    out: int
    scale: float
    start: float = 0.0
    end: float = 1.0


def _places(op: XlaOp, line: ResizedAxis, mode: str) -> Numbers:
    """Return, for each element of the result, its position among those of the operand.

    Computed in float32 for nearest, with corners at the actual size, as in ort_lite's CPU provider (decision 0076).
    """
    real: Any = np.float32 if mode == "nearest" else np.float64
    k: Any = np.arange(line.out, dtype=real)
    scale, half, last = real(line.scale), real(0.5), real(line.size - 1)
    return np.asarray(_map_positions(op, line, k, scale, half, last), real)


def _map_positions(op: XlaOp, line: ResizedAxis, k: Any, scale: Any, half: Any, last: Any) -> Any:
    """Return the positions of `k`, in its precision. Spec: ONNX Resize-19, coordinate_transformation_mode."""
    real = type(scale)
    match op.attr("coordinate_transformation_mode", "half_pixel"):
        case "asymmetric":
            return k / scale
        case "align_corners":
            return k * last / real(line.out - 1) if line.out > 1 else k * 0
        case "pytorch_half_pixel":
            return (k + half) / scale - half if line.out > 1 else k * 0
        case "half_pixel_symmetric":
            shift = real(line.size) / 2 * (1 - real(line.out) / (scale * real(line.size)))
            return shift + (k + half) / scale - half
        case "tf_crop_and_resize":
            if line.out == 1:
                return half * (real(line.start) + real(line.end)) * last + k
            return real(line.start) * last + k * (real(line.end) - real(line.start)) * last / real(line.out - 1)
    return (k + half) / scale - half


def _nearest(op: XlaOp, places: Numbers) -> Numbers:
    match op.attr("nearest_mode", "round_prefer_floor"):
        case "floor":
            return np.floor(places)
        case "ceil":
            return np.ceil(places)
        case "round_prefer_ceil":
            return np.floor(places) + (places - np.floor(places) >= 0.5 - TIE)
    return np.floor(places) + (places - np.floor(places) > 0.5 + TIE)


def _taps(op: XlaOp, mode: str, places: Numbers) -> tuple[Numbers, Numbers]:
    """Return the indices of the elements that contribute to each position, and their weights: (out, taps) each."""
    if mode == "nearest":
        return _nearest(op, places)[:, None], np.ones((len(places), 1))
    floor = np.floor(places)
    t = places - floor
    if mode == "linear":
        return np.stack([floor, floor + 1], 1), np.stack([1 - t, t], 1)
    a = op.attr("cubic_coeff_a", -0.75)
    near = np.stack([t, 1 - t])
    far = near + 1
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    return floor[:, None] + np.arange(-1, 3), np.stack([outer[0], inner[0], inner[1], outer[1]], 1)


def _resize_axis(op: XlaOp, x: Array, axis: int, line: ResizedAxis, mode: str) -> Array:
    """Resize one dimension of x."""
    places = _places(op, line, mode)
    taps, weights = _taps(op, mode, places)
    if op.attr("exclude_outside", 0):
        weights = np.where((taps < 0) | (taps >= line.size), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    index = np.clip(taps, 0, line.size - 1).astype(np.int64)
    if mode == "nearest":
        result = jnp.take(x, index[:, 0], axis)
    else:
        around = [1] * x.ndim
        around[axis] = -1
        result = sum(
            jnp.take(x, index[:, k], axis) * weights[:, k].astype(x.dtype).reshape(around) for k in range(index.shape[1])
        )
    if op.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        outside = ((places < 0) | (places > line.size - 1)).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        result = jnp.where(outside, np.array(op.attr("extrapolation_value", 0.0)).astype(x.dtype), result)
    return result


def _lines(op: XlaOp, x: Array, roi: Any, scales: Any, sizes: Sequence[int] | None) -> dict[int, ResizedAxis]:
    """Return the dimensions that are resized or cropped."""
    axes = [axis % x.ndim for axis in op.attr("axes") or range(x.ndim)]
    if sizes is not None:
        factors = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
        policy = op.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factors = [(min if policy == "not_larger" else max)(factors)] * len(axes)
            sizes = [int(np.floor(factors[0] * x.shape[axis] + 0.5)) for axis in axes]
    else:
        factors = [float(scale) for scale in scales]
        sizes = [int(np.floor(x.shape[axis] * np.float32(factor))) for axis, factor in zip(axes, scales, strict=True)]
    crops = op.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    found = {}
    for k, axis in enumerate(axes):
        part = (float(roi[k]), float(roi[k + len(axes)])) if crops else (0.0, 1.0)
        if factors[k] != 1 or part != (0.0, 1.0):
            found[axis] = ResizedAxis(x.shape[axis], sizes[k], factors[k], *part)
    return found


def _no_antialias(node: Node) -> str | None:
    return "antialias is not supported" if node.attr("antialias", 0) else None


@lowering(
    "Resize", since=11, types=(NUMERIC, FLOATS, FLOATS, INDICES), contents=(1, 2, 3), check=_no_antialias, along=only_first()
)
def resize(op: XlaOp, x: Array, roi: Array = None, scales: Array = None, sizes: Array = None) -> Array:
    """Resize by nearest, linear or cubic interpolation, one dimension after the other. Spec: ONNX Resize-19."""
    factors, wanted = op.contents(2), op.numbers(3)
    lines = _lines(op, x, op.contents(1), factors, wanted or None)
    mode = op.attr("mode", "nearest")
    crops = op.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    if mode != "cubic" and not crops and all(line.out == line.size for line in lines.values()):
        return x  # whatever the scales are
    wide = x if mode == "nearest" else x.astype(jnp.promote_types(x.dtype, np.float32))
    for axis, line in lines.items():
        wide = _resize_axis(op, wide, axis, line, mode)
    if not jnp.issubdtype(x.dtype, jnp.floating) and mode != "nearest":
        wide = jnp.clip(jnp.trunc(wide), np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    return wide.astype(x.dtype)


@lowering("Resize", since=10, types=(ALL, FLOATS), contents=(1,), along=only_first())
@lowering("Upsample", since=9, types=(ALL, FLOATS), contents=(1,), along=only_first())
def upsample(op: XlaOp, x: Array, scales: Array) -> Array:
    """Resize with positions k / scale; nearest rounds them down. Spec: ONNX Resize-10, Upsample-9."""
    for axis, scale in enumerate(np.ravel(op.contents(1))):
        size = x.shape[axis]
        if scale != 1:
            places = np.arange(int(np.floor(size * scale)), dtype=np.float64) / float(scale)
            below = np.minimum(np.floor(places).astype(np.int64), size - 1)
            part = jnp.take(x, below, axis)
            if op.attr("mode", "nearest") != "nearest":
                t = (places - below).astype(x.dtype).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
                part = part * (1 - t) + jnp.take(x, np.minimum(below + 1, size - 1), axis) * t
            x = part
    return x
