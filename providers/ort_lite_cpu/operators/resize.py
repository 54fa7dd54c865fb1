"""Resize and Upsample: one axis after the other, channels last, nearest, linear and cubic."""

from collections.abc import Sequence

from ort_lite.native.lang import OK, Ptr, Static, cast, like, native, span
from ort_lite.shapes import product, same
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.tensor import channels_last

BYTES = frozenset({"int8", "uint8"})


def source_coordinate(i: int, n: int, m: int, scale: float, start: float, end: float, how: Static) -> float:
    """Where output position i of m lies among the n input positions. Spec: ONNX Resize-19, coordinate_transformation_mode."""
    x = float(i)
    if how == "asymmetric":
        return x / scale
    if how == "align_corners":
        return x * (n - 1) / (m - 1) if m > 1 else 0.0
    if how == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if m > 1 else 0.0
    if how == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if how == "half_pixel_symmetric":
        adjusted = m / (scale * n)
        return n / 2.0 * (1.0 - adjusted) + (x + 0.5) / scale - 0.5
    if how == "tf_crop_and_resize":
        if m > 1:
            return start * (n - 1) + x * (end - start) * (n - 1) / (m - 1)
        return 0.5 * (start + end) * (n - 1)
    return (x + 0.5) / scale - 0.5


def floor_of(v: float) -> int:
    whole = int(v)
    return whole - 1 if v < whole else whole


def nearest_of(v: float, how: Static) -> int:
    down = floor_of(v)
    if how == "floor":
        return down
    if how == "ceil":
        return down if v == down else down + 1
    if how == "round_prefer_ceil":
        return down + 1 if v - down >= 0.5 else down
    return down + 1 if v - down > 0.5 else down


def cubic_weight(distance: float, a: float) -> float:
    d = abs(distance)
    if d <= 1.0:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    if d < 2.0:
        return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return 0.0


@native
def resize_axis(
    x: Ptr, y: Ptr, outer: int, n: int, m: int, inner: int, given: float, start: float, end: float, a: float, outside: float,
    mode: Static, how: Static, nearest: Static, exclude: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """y (outer, m, inner) from x (outer, n, inner). `given`: the scale, 0 where sizes were given; `outside`: for cropping."""
    for row in span(outer * m, part, parts):
        i = row % m
        base = (row // m) * n * inner
        scale = given if given != 0.0 else m / n
        c = source_coordinate(i, n, m, scale, start, end, how)
        out = row * inner
        if how == "tf_crop_and_resize" and (c < 0.0 or c > n - 1):
            for j in range(inner):
                y[out + j] = like(y, outside)
        elif mode == "nearest":
            k = base + min(max(nearest_of(c, nearest), 0), n - 1) * inner
            for j in range(inner):
                y[out + j] = x[k + j]
        elif mode == "linear":
            c = min(max(c, 0.0), float(n - 1))
            low = min(floor_of(c), n - 1)
            high = min(low + 1, n - 1)
            w = like(1.0, c - low)
            p, q = base + low * inner, base + high * inner
            v = cast(w, "f32")
            for j in range(inner):
                y[out + j] = blend(x[p + j], x[q + j], v)
        else:
            cubic_row(x, y, base, out, n, inner, c, a, exclude)
    return OK


def blend(p: object, q: object, w: object) -> object:
    return like(p, p * (like(w, 1) - w) + q * w)  # type: ignore[operator]


def cubic_row(x: Ptr, y: Ptr, base: int, out: int, n: int, inner: int, c: float, a: float, exclude: Static) -> int:
    low = floor_of(c)
    total = 0.0
    for t in range(-1, 3):
        if not exclude or (low + t >= 0 and low + t < n):
            total += cubic_weight(c - (low + t), a)
    for j in range(inner):
        y[out + j] = like(y, 0)
    for t in range(-1, 3):
        k = low + t
        w = cubic_weight(c - k, a) / total
        if exclude and (k < 0 or k >= n):
            w = 0.0
        p = base + min(max(k, 0), n - 1) * inner
        v = like(y, w)
        for j in range(inner):
            y[out + j] += x[p + j] * v
    return 0


@operator("Resize", "Upsample", types=REAL | BYTES)
def resize(op: Op) -> None:
    """Scales or sizes, which are constants or known from the shapes. antialias is not there yet."""
    if op.attr("antialias", 0):
        raise op.reject("antialias 1")
    mode = op.attr("mode", "nearest")
    legacy = op.node.op_type == "Upsample" or op.version < 11
    how = "asymmetric" if legacy else op.attr("coordinate_transformation_mode", "half_pixel")
    nearest = "floor" if legacy else op.attr("nearest_mode", "round_prefer_floor")
    if op.raw(0).dtype in BYTES and mode == "cubic":
        raise op.reject("cubic resizing of bytes")
    rank = len(op.raw(0).shape)
    order = channels_last(rank) if rank > 2 else tuple(range(rank))
    x = op.input(0, order)
    shape = op.info().shape
    assert shape is not None
    scales = _scales(op, rank)
    roi = op.constant(1) if how == "tf_crop_and_resize" else None
    changed = [axis for axis in order if not same(x.shape[axis], shape[axis]) or (roi is not None and axis in _axes(op, rank))]
    if not changed:
        op.set(0, x)
        return
    statics = {"mode": mode, "how": how, "nearest": nearest, "exclude": bool(op.attr("exclude_outside", 0))}
    current = list(x.shape)
    for axis in changed:
        n = current[axis]
        current[axis] = shape[axis]
        y = op.output(0, order) if axis == changed[-1] else op.lowering.new(x.dtype, tuple(current), order)
        stored, at = y.stored_shape, order.index(axis)
        start, end = (0.0, 1.0) if roi is None else _range(roi.tolist(), _axes(op, rank), axis)
        numbers = (product(stored[:at]), n, shape[axis], product(stored[at + 1 :]))
        floats = (scales[axis], start, end, float(op.attr("cubic_coeff_a", -0.75)), float(op.attr("extrapolation_value", 0.0)))
        op.emit(resize_axis, [x, y], *numbers, *floats, statics=statics, work=y.size)
        x = y


def _axes(op: Op, rank: int) -> list[int]:
    return [axis % rank for axis in op.attr("axes", range(rank))]


def _scales(op: Op, rank: int) -> list[float]:
    """A scale for every axis; 0 where sizes say what it is."""
    found = [0.0] * rank
    if op.node.op_type == "Upsample" and op.version < 9:
        values: Sequence[float] | None = op.attr("scales")
    else:
        index = 1 if op.version < 11 else 2
        array = op.constant(index)
        if array is None and op.has(index) and not op.has(3):
            raise op.reject("scales that are computed")
        values = None if array is None or array.size == 0 else array.tolist()
    if values is not None and not op.has(3):
        for axis, value in zip(_axes(op, rank), values, strict=True):
            found[axis] = float(value)
    return found


def _range(roi: Sequence[float], axes: Sequence[int], axis: int) -> tuple[float, float]:
    if axis not in axes:
        return 0.0, 1.0
    k = list(axes).index(axis)
    return float(roi[k]), float(roi[k + len(axes)])
