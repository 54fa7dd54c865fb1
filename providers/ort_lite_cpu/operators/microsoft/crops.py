"""CropAndResize of com.microsoft: rectangles of images, each brought to one size. Activations are channels last."""

from typing import TYPE_CHECKING, Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    Ptr,
    Static,
    cast,
    ceil,
    failure_status,
    floor,
    like,
    native,
    read_once,
    span,
)
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.regions import LAST, Regions
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


def position(first: Any, last: Any, i: int, count: int, size: int) -> Any:
    """Return the place of sample i of `count` between two shares of an axis with `size` pixels; a single one lies in the middle."""
    whole = like(first, size - 1)
    if count == 1:
        return like(first, 0.5) * (first + last) * whole
    if i == 0:
        return first * whole
    if i == count - 1:
        return last * whole
    return first * whole + like(first, i) * ((last - first) * whole / like(first, count - 1))


def nearest_pixel(v: Any) -> Any:
    """Return the pixel at place v, 0 or more; of two that are equally near the later one."""
    below = floor(v)
    return cast(below, "i64") + (1 if v - below >= like(v, 0.5) else 0)


@native
@extents(x="g.n * g.height * g.width * g.c", rois="4 * count", index="count", y="count * g.rows * g.columns * g.c")
def crop_and_resize(
    x: Ptr, rois: Ptr, index: Ptr, y: Ptr, g: Regions, count: int, outside: float, nearest: Static, part: int, parts: int
) -> int:
    """y (count, rows, columns, c) = samples of x (n, height, width, c), between pixels or `nearest` to one; `outside` beyond images.

    rois (count, 4): top, left, bottom, right, as shares of the image's axes. index (count,): the image of each.
    """
    for job in span(count * g.rows * g.columns, part, parts):
        roi = job // (g.rows * g.columns)
        image = int(read_once(index, roi))
        if image < 0 or image >= g.n:
            return failure_status(INDEX_OUT_OF_RANGE, roi)
        top, left = read_once(rois, roi * 4), read_once(rois, roi * 4 + 1)
        bottom, right = read_once(rois, roi * 4 + 2), read_once(rois, roi * 4 + 3)
        v = position(top, bottom, job // g.columns % g.rows, g.rows, g.height)
        u = position(left, right, job % g.columns, g.columns, g.width)
        inside = v >= like(v, 0) and v <= like(v, g.height - 1) and u >= like(u, 0) and u <= like(u, g.width - 1)
        out, base = job * g.c, image * g.height * g.width
        if not inside:  # so are samples at NaN
            for q in range(g.c):
                y[out + q] = like(y, outside)
        elif nearest:
            h, w = nearest_pixel(v), nearest_pixel(u)
            for q in range(g.c):
                y[out + q] = x[(base + h * g.width + w) * g.c + q]
        else:
            h0, h1 = base + cast(floor(v), "i64") * g.width, base + cast(ceil(v), "i64") * g.width
            w0, w1 = cast(floor(u), "i64"), cast(ceil(u), "i64")
            _blend(
                x, y, (h0 + w0) * g.c, (h0 + w1) * g.c, (h1 + w0) * g.c, (h1 + w1) * g.c, out, g.c, v - floor(v), u - floor(u)
            )
    return OK


def _blend(x: Ptr, y: Ptr, p0: int, p1: int, p2: int, p3: int, out: int, c: int, down: Any, across: Any) -> None:
    """Write all channels of a sample between the pixels at p0 and p1, above, and p2 and p3, below."""
    for q in range(c):
        above = x[p0 + q] + (x[p1 + q] - x[p0 + q]) * across
        below = x[p2 + q] + (x[p3 + q] - x[p2 + q]) * across
        y[out + q] = above + (below - above) * down


@operator("CropAndResize", domain="com.microsoft", types=REAL)
def lower_crop_and_resize(op: NodeLowering) -> None:
    """Emit CropAndResize. Spec: onnxruntime CropAndResize-1."""
    mode = op.attr("mode", "bilinear").lower()
    if mode not in ("bilinear", "nearest"):
        raise op.reject(f"mode {mode!r}; it should be one of bilinear, nearest")
    x, y = op.input(0, LAST), op.output(0, LAST)
    sizes: Any = (*x.shape, *y.shape[2:])
    outside, nearest = float(op.attr("extrapolation_value", 0.0)), mode == "nearest"
    given: dict[str, Any] = {"g": Regions(*sizes), "count": y.shape[0], "outside": outside, "nearest": nearest}
    op.emit(crop_and_resize, [x, op.input(1), op.input(2), y], **given, work=y.size * 4, message=_no_image)


def _no_image(failure: "Failure") -> str:
    return failure.outside("image", 2, 0, failure.scalar("g.n"))
