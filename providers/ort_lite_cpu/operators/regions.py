"""RoiAlign and MaxRoiPool: rectangles of images, brought to one size. Activations are channels last."""

from typing import TYPE_CHECKING, Any, NamedTuple

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
    fmax,
    imax,
    imin,
    like,
    native,
    read_once,
    span,
)
from ort_lite.shapes import equal, less, product, select
from ort_lite_cpu.lowering.attributes import choice
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, channels_last
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

LAST = channels_last(4)
MOST_SAMPLES, MOST_IMAGES = 1024, 8
"""A side of a cell has at most so many samples by `sampling_ratio`; without it, as many as so many images and a few pixels have."""


class Regions(NamedTuple):
    """Sizes of images (n, height, width, c), and of regions with cells (rows, columns)."""

    n: int
    c: int
    height: int
    width: int
    rows: int
    columns: int


@native
@extents(x="g.n * g.height * g.width * g.c", rois="4 * count", index="count", y="count * g.rows * g.columns * g.c")
def roi_align(
    x: Ptr,
    rois: Ptr,
    index: Ptr,
    y: Ptr,
    g: Regions,
    count: int,
    samples: int,
    scale: float,
    offset: float,
    kind: Static,
    part: int,
    parts: int,
) -> int:
    """y (count, rows, columns, c) = means (kind "avg") or maxima of bilinear samples of x (n, height, width, c).

    rois (count, 4): left, top, right, bottom. samples: a side of a cell has, 0: as many as it has pixels, within
    reason: rectangles may be of any size. Images have pixels where there are cells, which read one even where no sample is in
    the image: `_images`.
    """
    for job in span(count * g.rows * g.columns, part, parts):
        roi = job // (g.rows * g.columns)
        batch = read_once(index, roi)
        if batch < 0 or batch >= g.n:
            return failure_status(INDEX_OUT_OF_RANGE, roi)
        s, o = like(x, scale), like(x, offset)
        left, top = read_once(rois, roi * 4) * s - o, read_once(rois, roi * 4 + 1) * s - o
        w, h = read_once(rois, roi * 4 + 2) * s - o - left, read_once(rois, roi * 4 + 3) * s - o - top
        if offset == 0.0:  # before half_pixel came, rectangles were a pixel wide at least
            w, h = fmax(w, like(x, 1)), fmax(h, like(x, 1))
        w, h = w / like(x, g.columns), h / like(x, g.rows)
        across = samples if samples > 0 else imin(cast(ceil(w), "i64"), MOST_IMAGES * (g.width + MOST_IMAGES))
        down = samples if samples > 0 else imin(cast(ceil(h), "i64"), MOST_IMAGES * (g.height + MOST_IMAGES))
        left += like(x, job % g.columns) * w
        top += like(x, job // g.columns % g.rows) * h
        out = job * g.c
        for q in range(g.c):
            y[out + q] = like(y, 0)
        for i in range(down):
            v = top + like(x, i + 0.5) * h / like(x, down)
            for k in range(across):
                u = left + like(x, k + 0.5) * w / like(x, across)
                _sample(x, y, out, batch * g.height * g.width * g.c, g.c, g.height, g.width, v, u, i + k == 0, kind)
        if kind == "avg":
            for q in range(g.c):
                y[out + q] = y[out + q] / like(y, imax(across * down, 1))
    return OK


def _sample(
    x: Ptr, y: Ptr, out: int, base: int, c: int, height: int, width: int, v: Any, u: Any, first: bool, kind: Static
) -> int:
    """Join the sample at row v, column u into all channels of the output position; 0 beyond a pixel outside."""
    one, zero = like(v, 1), like(v, 0)
    beyond = not (v >= -one and v <= like(v, height) and u >= -one and u <= like(v, width))  # so are those that are NaN
    v, u = fmax(v, zero), fmax(u, zero)
    top, left = imin(cast(v, "i64"), height - 1), imin(cast(u, "i64"), width - 1)
    bottom, right = imin(top + 1, height - 1), imin(left + 1, width - 1)
    fv = zero if top == bottom else v - like(v, top)
    fu = zero if left == right else u - like(v, left)
    w0, w1, w2, w3 = (one - fv) * (one - fu), (one - fv) * fu, fv * (one - fu), fv * fu
    if beyond:
        w0, w1, w2, w3 = zero, zero, zero, zero
        top, left, bottom, right = 0, 0, 0, 0
    p0, p1 = base + (top * width + left) * c, base + (top * width + right) * c
    p2, p3 = base + (bottom * width + left) * c, base + (bottom * width + right) * c
    for q in range(c):
        if kind == "avg":
            y[out + q] += x[p0 + q] * w0 + x[p1 + q] * w1 + x[p2 + q] * w2 + x[p3 + q] * w3
        else:
            best = fmax(fmax(x[p0 + q] * w0, x[p1 + q] * w1), fmax(x[p2 + q] * w2, x[p3 + q] * w3))
            y[out + q] = best if first else fmax(y[out + q], best)
    return 0


@operator("RoiAlign", since=10, types=REAL)
def lower_roi_align(op: NodeLowering) -> None:
    """Emit RoiAlign. Mode "max" takes the largest weighted pixel, as onnxruntime does. Spec: ONNX RoiAlign-22."""
    x, y = _images(op, 4)
    half = op.attr("coordinate_transformation_mode", "half_pixel" if op.version >= 16 else "output_half_pixel") == "half_pixel"
    samples, kind = op.attr("sampling_ratio", 0), choice(op, "mode", "avg", ("avg", "max"))
    if not 0 <= samples <= MOST_SAMPLES:
        raise op.reject(f"sampling_ratio {samples} is out of range [0, {MOST_SAMPLES}]")
    operands, offset, work = [x, op.input(1), op.input(2), y], 0.5 if half else 0.0, y.size * max(samples, 2) ** 2
    given = _sizes(op, x, y)
    op.emit(roi_align, operands, **given, samples=samples, offset=offset, kind=kind, work=work, message=_no_image)


def _images(op: NodeLowering, numbers: int) -> tuple[Tensor, Tensor]:
    """Return input and output. Requires pixels if there are results, and `numbers` numbers in each rectangle, input 1."""
    x, y = op.input(0, LAST), op.output(0, LAST)
    for dim in y.shape[2:]:
        op.require(less(0, dim), "regions of {0} cells along an axis", dim)
    op.require(select(equal(y.size, 0), 1, less(0, product(x.shape[2:]))), "the images have no pixels")
    return x, y


def _sizes(op: NodeLowering, x: Tensor, y: Tensor) -> dict[str, Any]:
    """Return the sizes of images and results and their scale, keyed by the kernels' parameter names."""
    sizes: Any = (*x.shape, *y.shape[2:])
    return {"g": Regions(*sizes), "count": y.shape[0], "scale": float(op.attr("spatial_scale", 1.0))}


def _no_image(failure: "Failure") -> str:
    return failure.outside("batch index", 2, 0, failure.scalar("g.n"))


@native
@extents(x="g.n * g.height * g.width * g.c", rois="5 * count", y="count * g.rows * g.columns * g.c")
def max_roi_pool(x: Ptr, rois: Ptr, y: Ptr, g: Regions, count: int, scale: float, part: int, parts: int) -> int:
    """y (count, rows, columns, c) = maxima over cells of rois (count, 5): batch, left, top, right, bottom; 0 for empty ones."""
    for job in span(count * g.rows * g.columns, part, parts):
        roi = job // (g.rows * g.columns)
        batch = cast(read_once(rois, roi * 5), "i64")
        if batch < 0 or batch >= g.n:
            return failure_status(INDEX_OUT_OF_RANGE, roi)
        left, right = _edge(read_once(rois, roi * 5 + 1), scale), _edge(read_once(rois, roi * 5 + 3), scale)
        top, bottom = _edge(read_once(rois, roi * 5 + 2), scale), _edge(read_once(rois, roi * 5 + 4), scale)
        i, k = job // g.columns % g.rows, job % g.columns
        h, w = imax(bottom - top + 1, 1), imax(right - left + 1, 1)
        h0, h1 = imax(top + i * h // g.rows, 0), imin(top + ((i + 1) * h + g.rows - 1) // g.rows, g.height)
        w0, w1 = imax(left + k * w // g.columns, 0), imin(left + ((k + 1) * w + g.columns - 1) // g.columns, g.width)
        out = job * g.c
        empty = h1 <= h0 or w1 <= w0
        for q in range(g.c):
            y[out + q] = like(y, 0) if empty else x[((batch * g.height + h0) * g.width + w0) * g.c + q]
        for a in range(h0, h1):
            for b in range(w0, w1):
                p = ((batch * g.height + a) * g.width + b) * g.c
                for q in range(g.c):
                    y[out + q] = fmax(y[out + q], x[p + q])
    return OK


def _edge(v: Any, scale: float) -> int:
    """Return v, scaled and rounded, half away from zero, as C's round."""
    scaled = v * like(v, scale)
    half = like(v, 0.5)
    edge: int = cast(floor(scaled + half) if scaled >= like(v, 0) else ceil(scaled - half), "i64")
    return edge


@operator("MaxRoiPool", types=REAL)
def lower_max_roi_pool(op: NodeLowering) -> None:
    """Emit MaxRoiPool. Spec: ONNX MaxRoiPool-22."""
    if len(op.attr("pooled_shape")) != 2:
        raise op.reject(f"pooled_shape {op.attr('pooled_shape')}; it should be two numbers")
    x, y = _images(op, 5)
    op.emit(max_roi_pool, [x, op.input(1), y], **_sizes(op, x, y), work=y.size * 16, message=_no_pooled_image)


def _no_pooled_image(failure: "Failure") -> str:
    return failure.outside("batch index", 1, 0, failure.scalar("g.n"), at=5 * failure.at)
