"""Resize and Upsample: one axis after the other, channels last: nearest, linear and cubic, with antialiasing."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import INTEGERS, itemsize
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, span
from ort_lite.shapes import equal, less, product, same, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.attributes import choice
from ort_lite_cpu.lowering.expression import formula_tensor
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, channels_last, storage_order
from ort_lite_cpu.operators.coordinates import AxisScale, as_coordinate, floor_of, nearest_of, source_coordinate
from ort_lite_cpu.operators.interpolation import ResizedAxes, resize_planes
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.types import NATIVE_TYPES

WIDE = frozenset({"int32", "int64", "uint32", "uint64"})
BOOL = frozenset({"bool"})
MODES = ("nearest", "linear", "cubic")
CROP = "tf_crop_and_resize"
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    CROP,
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def weight(distance: float, a: float, mode: Static) -> float:
    """Return the weight of a sample at this distance, in units of the filter."""
    d = abs(distance)
    if mode == "linear":
        return max(1.0 - d, 0.0)
    if d <= 1.0:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    if d < 2.0:
        return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return 0.0


class AxisLengths(NamedTuple):
    """The lengths n of an axis and m of the resized one, with `outer` positions in front and `inner` behind."""

    outer: int
    n: int
    m: int
    inner: int


class Crop(NamedTuple):
    """The region of an axis that is resized when cropping."""

    start: float
    end: float
    """In units of the axis's length, like `start`."""
    outside: float
    """The value of elements outside of x."""


@native
@extents(x="g.outer * g.n * g.inner", y="g.outer * g.m * g.inner")
def resize_axis(
    x: Ptr,
    y: Ptr,
    g: AxisLengths,
    scale: AxisScale,
    crop: Crop,
    a: float,
    unchanged: int,
    mode: Static,
    how: Static,
    nearest: Static,
    exclude: Static,
    antialias: Static,
    part: int,
    parts: int,
) -> int:
    """y (outer, m, inner) = x (outer, n, inner), resized.

    unchanged: 1 if the positions are those of x. exclude: samples outside of x have no weight; else they repeat its edge.
    n is positive where m is: the lowering of Resize.
    """
    outer, n, m, inner, start, end = g.outer, g.n, g.m, g.inner, crop.start, crop.end
    given, above, below = scale.given, scale.above, scale.below
    factor = as_coordinate(given, mode) if given != 0.0 else as_coordinate(above, mode) / as_coordinate(below, mode)
    for row in span(outer * m, part, parts):
        base = (row // m) * n * inner
        c = like(factor, row % m) if unchanged else source_coordinate(row % m, n, m, factor, start, end, how)
        out = row * inner
        if how == "tf_crop_and_resize" and (c < 0.0 or c > n - 1):
            for j in range(inner):
                y[out + j] = like(y, crop.outside)
        elif mode == "nearest":
            k = base + min(max(nearest_of(c, nearest), 0), n - 1) * inner
            for j in range(inner):
                y[out + j] = x[k + j]
        elif mode == "linear" and not antialias:
            c = min(max(c, 0.0), float(n - 1))
            low = min(max(floor_of(c), 0), n - 1)
            p, q = base + low * inner, base + min(low + 1, n - 1) * inner
            w = like(y, c - low)
            if w == like(w, 0):  # an infinity without weight does not count
                for j in range(inner):
                    y[out + j] = x[p + j]
            else:
                for j in range(inner):
                    y[out + j] = x[p + j] * (like(w, 1) - w) + x[q + j] * w
        else:
            filter_sample(x, y, base, out, n, inner, c, min(factor, 1.0) if antialias else 1.0, a, mode, exclude)
    return OK


def filter_sample(
    x: Ptr, y: Ptr, base: int, out: int, n: int, inner: int, c: float, stretch: float, a: float, mode: Static, exclude: Static
) -> int:
    """y[out:] (inner,) = the weighted mean of the samples around c, the filter stretched to 1 / stretch."""
    reach = (1.0 if mode == "linear" else 2.0) / stretch
    first, last = floor_of(c - reach), floor_of(c + reach) + 1
    total = 0.0
    for k in range(first, last + 1):
        if not exclude or (k >= 0 and k < n):
            total += weight((k - c) * stretch, a, mode)
    for j in range(inner):
        y[out + j] = like(y, 0)
    for k in range(first, last + 1):
        if not exclude or (k >= 0 and k < n):
            v = like(y, weight((k - c) * stretch, a, mode) / total)
            p = base + min(max(k, 0), n - 1) * inner
            if v != like(v, 0):
                for j in range(inner):
                    y[out + j] += x[p + j] * v
    return 0


TIMES = {"nearest": (5.0, 0.02), "linear": (12.0, 0.02), "cubic": (25.0, 0.045), "antialias": (12.0, 0.05)}
"""The nanoseconds of a position along an axis, and of a byte behind it."""


@operator("Resize", "Upsample", types=REAL | INTEGERS | BOOL, moves=True)
def resize(op: NodeLowering) -> None:
    """Resize by scales, to sizes, or a region of the input. Integers are interpolated as floats and rounded. Spec: ONNX Resize-19."""
    mode = "linear" if op.attr("mode", "nearest") == "bilinear" else choice(op, "mode", "nearest", MODES)
    legacy = op.node.op_type == "Upsample" or op.version < 11
    how = "asymmetric" if legacy else choice(op, "coordinate_transformation_mode", "half_pixel", COORDINATES)
    shape = op.info().shape
    assert shape is not None
    rank = len(shape)
    scales = _scales(op, op.raw(0).shape, shape)
    regions = _regions(op, rank) if how == "tf_crop_and_resize" else [(0.0, 1.0)] * rank
    dtype = op.raw(0).dtype
    rules = _rules(op, mode, how, legacy)
    if legacy and not any(0 < scale.given < 1 for scale in scales):
        rules["nearest"] = "floor"
    planes = how != CROP and not rules["antialias"] and (mode == "linear" or (mode == "nearest" and rules["nearest"] != ""))
    order = channels_last(rank) if rank > 2 and not (planes and storage_order(op.raw(0)) is None) else tuple(range(rank))
    x = op.input(0, order)
    x = x if mode == "nearest" else as_float(op, x)
    # PyTorch and onnxruntime copy where no size changes, whatever the scales are; PyTorch does not for cubic and antialiasing.
    copies = mode != "cubic" and how != CROP and not rules["antialias"]
    rules["unchanged"] = product([equal(n, m) for n, m in zip(x.shape, shape, strict=True)]) if copies else 0
    same_sizes = [same(n, m) and scale.given in (0.0, 1.0) for n, m, scale in zip(x.shape, shape, scales, strict=True)]
    axes = [axis for axis in order if not (same_sizes[axis] and regions[axis] == (0.0, 1.0))]
    for axis in axes:
        op.require(x.shape[axis] + equal(shape[axis], 0), f"axis {axis} has no elements to resize")
    work = ResizedAxes(op, shape, order, axes, scales, rules)
    x = resize_planes(work, x) if planes else _resize_axes(work, x, regions, legacy)
    op.pass_on(round_to_type(op, x, dtype))


def _resize_axes(work: ResizedAxes, x: Tensor, regions: Sequence[tuple[float, float]], legacy: bool) -> Tensor:
    """Return x, resized along one axis after the other."""
    op, dims, outside = work.op, list(x.shape), float(work.op.attr("extrapolation_value", 0.0))
    for axis in work.axes:
        n, dims[axis], scale, rules = dims[axis], work.shape[axis], work.scales[axis], dict(work.rules)
        y = op.builder.new(x.dtype, tuple(dims), work.order)
        stored, at = y.storage_shape, work.order.index(axis)
        if legacy:  # the example of Resize-10 has the last element of two thirds: onnxruntime rounds up where it makes smaller
            rules["nearest"] = "ceil" if 0 < scale.given < 1 else "floor"
        sizes: Any = (product(stored[:at]), n, work.shape[axis], product(stored[at + 1 :]))
        given = {"scale": scale, "crop": Crop(*regions[axis], outside), "work": _work_of(y, sizes, rules), **rules}
        op.emit(resize_axis, [x, y], g=AxisLengths(*sizes), **given)
        x = y
    return x


def _work_of(y: Tensor, sizes: Sequence[Dim], rules: Mapping[str, Any]) -> Dim:
    """Return the work of one axis: its positions, each for all that lies in front of it, and the bytes behind them."""
    position, byte = TIMES["antialias" if rules["antialias"] else rules["mode"]]
    outer, _, count, _ = sizes
    return linear_work(outer * count, position) + linear_work(y.size * itemsize(y.dtype), byte)


def _rules(op: NodeLowering, mode: str, how: str, legacy: bool) -> dict[str, Any]:
    """Return the options that apply to every axis, keyed by the kernel's parameter names."""
    return {
        "mode": mode,
        "how": how,
        "nearest": "" if legacy else choice(op, "nearest_mode", "round_prefer_floor", NEAREST),
        "exclude": bool(op.attr("exclude_outside", 0)),
        "antialias": bool(op.attr("antialias", 0)) and mode != "nearest",
        "a": float(op.attr("cubic_coeff_a", -0.75)),
    }


def as_float(op: NodeLowering, x: Tensor) -> Tensor:
    """Return x as floats that can be interpolated; integers of more than 53 bits are rounded."""
    return x if x.dtype in REAL else op.cast(x, "float64" if x.dtype in WIDE else "float32")


def round_to_type(op: NodeLowering, x: Tensor, dtype: str) -> Tensor:
    """Return floats as the nearest integers, clipped to the type's limits; as bool, True for numbers that are not 0."""
    if x.dtype == dtype:
        return x
    if dtype == "bool":
        return op.cast(x, dtype)
    limits = np.iinfo(dtype)
    most = float(limits.max)
    most = most if int(most) == limits.max else float(np.nextafter(most, 0))
    formula = f'cast(rint(fmin(fmax({{0}}, {{s0}}), {{s1}})), "{NATIVE_TYPES[dtype]}")'
    return formula_tensor(dtype, x, formula, [x], [float(limits.min), most])


def _axes(op: NodeLowering, rank: int) -> list[int]:
    """Return the axes that scales, sizes and regions name."""
    return [axis % rank for axis in op.attr("axes", range(rank))]


def _scales(op: NodeLowering, old: Sequence[Dim], new: Sequence[Dim]) -> list[AxisScale]:
    """Return the scale of every axis; 1 by default."""
    sizes: Any = zip(new, old, strict=True)
    found = [AxisScale(m, n, 0.0) for m, n in sizes]
    if op.has(3):
        policy = choice(op, "keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))
        if policy != "stretch":
            common = _common(old, op.contents(3), _axes(op, len(old)), smallest=policy == "not_larger")
            for axis in _axes(op, len(old)):
                found[axis] = common
        return found
    for axis, value in zip(_axes(op, len(old)), _read_scales(op), strict=True):
        found[axis] = AxisScale(1, 1, float(value))
    return found


def _read_scales(op: NodeLowering) -> Sequence[float]:
    if op.node.op_type == "Upsample" and op.version < 9:
        return op.attr("scales") or [1.0, 1.0, op.attr("height_scale", 1.0), op.attr("width_scale", 1.0)]
    values: Sequence[float] = op.read_array(1 if op.version < 11 else 2).tolist()
    return values


def _common(old: Sequence[Dim], sizes: Sequence[Dim], axes: Sequence[int], smallest: bool) -> AxisScale:
    """Return the smallest (largest) of the ratios sizes[k] / old[axes[k]]."""
    above: Any = sizes[0]
    below: Any = old[axes[0]]
    for axis, size in zip(axes[1:], sizes[1:], strict=True):
        left, right = (size * below, above * old[axis]) if smallest else (above * old[axis], size * below)
        better = less(left, right)
        above, below = select(better, size, above), select(better, old[axis], below)
    return AxisScale(above, below, 0.0)


def _regions(op: NodeLowering, rank: int) -> list[tuple[float, float]]:
    """Return start and end along every axis, in units of its length."""
    axes, roi = _axes(op, rank), op.read_array(1).reshape(-1).tolist() if op.has(1) else []
    if len(roi) != 2 * len(axes):
        raise op.reject(f"a region of {len(roi)} numbers, {len(axes)} axes are resized; there should be two for each")
    found = [(0.0, 1.0)] * rank
    for k, axis in enumerate(axes):
        found[axis] = (float(roi[k]), float(roi[k + len(axes)]))
    return found
