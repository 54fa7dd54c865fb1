"""MaxUnpool, Col2Im and CenterCropPad: images put together from pieces."""

from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import INTEGERS
from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, like, native, read_once, span
from ort_lite.shapes import equal, floordiv, less, maximum, minimum, product, select
from ort_lite_cpu.kernels.gemm.geometry import Window
from ort_lite_cpu.lowering.attributes import Volume, check_windows, volume, window_of
from ort_lite_cpu.lowering.lowered import SERIAL
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.operators.fill import emit_fill
from ort_lite_cpu.registry import MOVABLE, REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


@native
@extents(x="count", index="count", y="planes * whole.d * whole.h * whole.w")
def max_unpool(
    x: Ptr, index: Ptr, y: Ptr, count: int, planes: int, pooled: Volume, whole: Volume, part: int, parts: int
) -> int:
    """y[index[i]] = x[i]; index counts in (planes, *pooled), a part of y (planes, *whole). Later ones win: one part.

    d, h and w of `pooled` are positive where there are indices: `lower_max_unpool`.
    """
    d, h, w = pooled.d, pooled.h, pooled.w
    yd, yh, yw = whole.d, whole.h, whole.w
    for i in span(count, part, parts):
        at = read_once(index, i)
        column, row, slab, plane = at % w, at // w % h, at // (w * h) % d, at // (w * h * d)
        if at < 0 or plane >= planes or column >= yw or row >= yh or slab >= yd:
            return failure_status(INDEX_OUT_OF_RANGE, i)
        y[((plane * yd + slab) * yh + row) * yw + column] = x[i]
    return OK


@operator("MaxUnpool", since=9, types=REAL)
def lower_max_unpool(op: NodeLowering) -> None:
    """Emit MaxUnpool. Indices count in the shape that `kernel_shape` implies; a larger output_shape adds zeros behind.

    Spec: ONNX MaxUnpool-22.
    """
    x, index, y = op.input(0), op.input(1), op.output(0)
    window = op.attr("kernel_shape")
    rank = len(window)
    check_windows(op, rank, y.shape)
    if len(x.shape) != rank + 2:
        raise op.reject(f"kernel_shape {list(window)} for an input of rank {len(x.shape)}")
    op.agree([len(y.shape), *y.shape[:2]], [rank + 2, *x.shape[:2]], "rank, batch and channels of input and output differ")
    strides, pads = op.attr("strides") or [1] * rank, op.attr("pads") or [0] * 2 * rank
    dims = [(x.shape[k + 2] - 1) * strides[k] + window[k] - pads[k] - pads[rank + k] for k in range(rank)]
    for dim in dims:
        fits = select(equal(x.size, 0), 1, less(0, dim))
        op.require(fits, "indices cannot count in an axis of {0} elements, which kernel_shape, strides and pads make", dim)
    emit_fill(op, y, 0)
    planes = product(x.shape[:2])
    pooled, whole = volume(dims), volume(y.shape[2:])
    sizes: dict[str, Any] = {"count": x.size, "planes": planes, "pooled": pooled, "whole": whole}
    op.emit(max_unpool, [x, index, y], **sizes, work=x.size * 6, slices=SERIAL, message=_no_place)


def _no_place(failure: "Failure") -> str:
    planes = failure.scalar("planes")
    d, h, w, yd, yh, yw = (failure.scalar(f"{name}.{axis}") for name in ("pooled", "whole") for axis in "dhw")
    if not 0 <= failure.element(1) < planes * d * h * w:
        return failure.outside("index", 1, 0, planes * d * h * w)
    return f"index {failure.element(1)} at position {failure.at} of {failure.name(1)!r} lies outside of the output, {yd} x {yh} x {yw}"


@native
@extents(
    x="planes * window.kd * window.kh * window.kw * blocks.d * blocks.h * blocks.w",
    y="planes * image.d * image.h * image.w",
)
def col2im(x: Ptr, y: Ptr, planes: int, image: Volume, blocks: Volume, window: Window, part: int, parts: int) -> int:
    """y (planes, *image): each pixel the sum of those of x (planes, kd, kh, kw, *blocks) that were taken from it.

    blocks: how many lie along each axis. Strides and dilations are positive: `check_windows`.
    """
    kd, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw = window
    d, h, w = image.d, image.h, image.w
    nd, nh, nw = blocks.d, blocks.h, blocks.w
    for row in span(planes * d * h, part, parts):
        r, slab, plane = row % h, row // h % d, row // (h * d)
        for column in range(w):
            total = like(x, 0)
            for a in range(kd):
                u = slab + pd - a * dd
                if u < 0 or u % sd != 0 or u // sd >= nd:
                    continue
                for b in range(kh):
                    v = r + ph - b * dh
                    if v < 0 or v % sh != 0 or v // sh >= nh:
                        continue
                    for e in range(kw):
                        t = column + pw - e * dw
                        if t >= 0 and t % sw == 0 and t // sw < nw:
                            block = ((plane * kd + a) * kh + b) * kw + e
                            total += x[((block * nd + u // sd) * nh + v // sh) * nw + t // sw]
            y[row * w + column] = total
    return OK


@operator("Col2Im", since=18, types=REAL | INTEGERS | {"bool"})
def lower_col2im(op: NodeLowering) -> None:
    """Emit Col2Im. Integers wrap; the sum of bools is True if one of them is. Spec: ONNX Col2Im-18."""
    image, block = op.contents(1), op.contents(2)
    x, rank = op.input(0), len(image)
    check_windows(op, rank, image)
    if len(block) != rank or len(x.shape) != 3:
        raise op.reject(
            f"an input of rank {len(x.shape)}, {rank} axes of the image, {len(block)} of the block; they should be 3, n, n"
        )
    strides, dilations = op.attr("strides") or [1] * rank, op.attr("dilations") or [1] * rank
    pads = op.attr("pads") or [0] * 2 * rank
    blocks = [
        floordiv(image[k] + pads[k] + pads[rank + k] - dilations[k] * (block[k] - 1) - 1, strides[k]) + 1 for k in range(rank)
    ]
    for count in blocks:
        op.require(1 - less(count, 0), "{0} blocks fit into the image along an axis", count)
    op.agree([product(blocks)], [x.shape[2]], "the number of blocks that fit into the image differs from that of the columns")
    window = window_of(block, strides, pads, dilations)
    shape = op.info().shape
    assert shape is not None
    op.agree([shape[1] * product(block)], [x.shape[1]], "the rows of the columns are no multiple of the block")
    dtype = "int32" if x.dtype == "bool" else x.dtype
    y = op.builder.new(dtype, shape)
    sizes: dict[str, Any] = {"planes": product(shape[:2]), "image": volume(image), "blocks": volume(blocks), "window": window}
    op.emit(col2im, [op.cast(x, dtype), y], **sizes, work=y.size * 8)
    op.set(0, op.cast(y, x.dtype))


@operator("CenterCropPad", since=18, types=MOVABLE, moves=True)
def center_crop_pad(op: NodeLowering) -> None:
    """Copy the middle of x to the middle of zeros; the larger half of an odd difference is behind. Spec: ONNX CenterCropPad-18."""
    x, y = op.input(0), op.output(0)
    for dim in y.shape:
        op.require(1 - less(dim, 0), "an axis of {0} elements", dim)
    emit_fill(op, y, 0)
    own, out = contiguous(x.shape), contiguous(y.shape)
    skipped = [floordiv(maximum(a - b, 0), 2) for a, b in zip(x.shape, y.shape, strict=True)]
    padded = [floordiv(maximum(b - a, 0), 2) for a, b in zip(x.shape, y.shape, strict=True)]
    dims = tuple(minimum(a, b) for a, b in zip(x.shape, y.shape, strict=True))
    x_at, y_at = (
        sum((k * s for k, s in zip(at, steps, strict=True)), start=0) for at, steps in ((skipped, own), (padded, out))
    )
    emit_strided_copy(op, x, y, dims, own, out, x_at, y_at)
