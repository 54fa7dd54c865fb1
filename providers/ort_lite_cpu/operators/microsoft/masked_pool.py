"""MaxpoolWithMask of com.microsoft: MaxPool of pixels that a mask allows."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, select, shift, span
from ort_lite.shapes import equal, less, product
from ort_lite_cpu.kernels.gemm.geometry import Window
from ort_lite_cpu.lowering.attributes import check_fit, check_windows, volume, window_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.pooling import pads_of
from ort_lite_cpu.registry import REAL, operator

LEAST = {"float32": -3.4028234663852886e38, "float64": -1.7976931348623157e308}
"""The maximum of no pixels: the least finite number of each type."""


class MaskedPlanes(NamedTuple):
    """The number of planes of x and of the mask, and their sizes: x (planes, xd, xh, xw), y (planes, yd, yh, yw)."""

    planes: int
    masks: int
    xd: int
    xh: int
    xw: int
    yd: int
    yh: int
    yw: int


@native
@extents(x="g.planes * g.xd * g.xh * g.xw", mask="g.masks * g.xd * g.xh * g.xw", y="g.planes * g.yd * g.yh * g.yw")
def masked_max_pool(
    x: Ptr, mask: Ptr, y: Ptr, g: MaskedPlanes, window: Window, least: float, line: Static, part: int, parts: int
) -> int:
    """y (planes, yd, yh, yw) = maxima over windows of x (planes, xd, xh, xw); NaN does not count, nothing gives `least`.

    A row of a window ends at its first 0 in the mask. The mask of a plane begins at element (plane * size) % masks, as in onnxruntime:
    plane 0 of the mask serves all planes if it has one only. The mask of the first pixel counts in a `line` alone.
    """
    size = g.xd * g.xh * g.xw
    for row in span(g.planes * g.yd * g.yh, part, parts):
        plane = row // (g.yd * g.yh)
        pixels, allowed = shift(x, plane * size), shift(mask, plane * size % g.masks)
        d0 = row // g.yh % g.yd * window.sd - window.pd
        h0 = row % g.yh * window.sh - window.ph
        top, bottom, front, back = max(h0, 0), min(h0 + window.kh, g.xh), max(d0, 0), min(d0 + window.kd, g.xd)
        for column in range(g.yw):
            w0 = column * window.sw - window.pw
            left, right, best = max(w0, 0), min(w0 + window.kw, g.xw), like(x, least)
            for d in range(front, back):
                for h in range(top, bottom):
                    line_at = (d * g.xh + h) * g.xw
                    for here in range(line_at + left, line_at + right):
                        if allowed[here] == 0 and (line or here > 0):
                            break
                        best = select(pixels[here] > best, pixels[here], best)
            y[row * g.yw + column] = best
    return OK


@operator("MaxpoolWithMask", domain="com.microsoft", types=REAL)
def max_pool_with_mask(op: NodeLowering) -> None:
    """Emit MaxPool of pixels that an int32 mask allows. Spec: onnxruntime MaxpoolWithMask-1."""
    x, mask, y = op.input(0), op.input(1), op.output(0)
    kernel, rank = op.attr("kernel_shape"), len(x.shape) - 2
    check_windows(op, rank, y.shape[2:])
    check_fit(op, x.shape[2:], kernel, batch=x.shape[0])
    op.agree(mask.shape[2:], x.shape[2:], "mask and input differ in their spatial axes")
    planes, masks = (product(tensor.shape[:2]) for tensor in (x, mask))
    op.require(1 - less(0, planes) * equal(masks, 0), "the mask has {0} planes, the input {1}", masks, planes)
    strides = op.attr("strides") or [1] * rank
    before, _ = pads_of(op, x.shape[2:], kernel, strides)
    sizes: Any = (planes, masks, *volume(x.shape[2:]), *volume(y.shape[2:]))
    window = window_of(kernel, strides, before, [1] * rank)
    least, work = LEAST[x.dtype], y.size * product(kernel) // 2
    op.emit(masked_max_pool, [x, mask, y], g=MaskedPlanes(*sizes), window=window, least=least, line=rank == 1, work=work)
