"""DeformConv: a convolution whose taps are moved by offsets, and weighted."""

from typing import Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, REDUCE, Ptr, cast, floor, like, native, null, read_once, span
from ort_lite.shapes import product
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import channels_last
from ort_lite_cpu.operators.conv import geometry
from ort_lite_cpu.registry import REAL, operator


@native
@extents(
    x="g.n * g.c * g.ih * g.iw",
    offset="2 * g.n * moved * window.kh * window.kw * g.oh * g.ow",
    mask="g.n * moved * window.kh * window.kw * g.oh * g.ow",
    y="g.n * g.oh * g.ow * g.c * window.kh * window.kw",
)
def gather_taps(
    x: Ptr,
    offset: Ptr,
    mask: Ptr,
    y: Ptr,
    g: ConvolutionShape,
    window: Window,
    moved: int,
    part: int,
    parts: int,
) -> int:
    """y (n, oh, ow, c, kh * kw) = the elements of x (n, c, ih, iw) that taps read, between pixels; zero outside.

    offset (n, moved, kh * kw, 2, oh, ow): rows, columns; mask (n, moved, kh * kw, oh, ow), or null: ones. c is a multiple of
    `moved`, the groups of channels that move alike: `lower_deform_conv`.
    """
    c, height, width, oh, ow = g.c, g.ih, g.iw, g.oh, g.ow
    kh, kw, sh, sw, ph, pw, dh, dw = window.kh, window.kw, window.sh, window.sw, window.ph, window.pw, window.dh, window.dw
    taps, area = kh * kw, oh * ow
    for row in span(g.n * area, part, parts):
        batch, at = row // area, row % area
        for channel in range(c):
            base = (batch * c + channel) * height * width
            for tap in range(taps):
                shift = (batch * moved + channel // (c // moved)) * taps + tap
                v = read_once(offset, 2 * shift * area + at) + like(x, at // ow * sh - ph + tap // kw * dh)
                u = read_once(offset, (2 * shift + 1) * area + at) + like(x, at % ow * sw - pw + tap % kw * dw)
                value = between(x, base, height, width, v, u)
                if not null(mask):
                    value *= mask[shift * area + at]
                y[(row * c + channel) * taps + tap] = value
    return OK


def between(x: Ptr, base: int, height: int, width: int, v: Any, u: Any) -> Any:
    """Return the plane at `base`, read at row v and column u: linear between pixels, zero outside."""
    if not (v > like(v, -1) and v < like(v, height) and u > like(v, -1) and u < like(v, width)):
        return like(v, 0)
    top, left = cast(floor(v), "i64"), cast(floor(u), "i64")
    fv, fu = v - floor(v), u - floor(u)
    total = like(v, 0)
    for i in range(2):
        for k in range(2):
            r, c = top + i, left + k
            if r >= 0 and r < height and c >= 0 and c < width:
                total += x[base + r * width + c] * (fv if i == 1 else like(v, 1) - fv) * (fu if k == 1 else like(v, 1) - fu)
    return total


@native(fastmath=REDUCE)
@extents(x="rows * groups * run", w="m * run", bias="m", y="rows * m")
def weigh_taps(x: Ptr, w: Ptr, bias: Ptr, y: Ptr, rows: int, m: int, run: int, groups: int, part: int, parts: int) -> int:
    """y (rows, m) = x (rows, groups, run) times w (m, run), by groups, plus bias (m). m is a multiple of groups: as above."""
    for row in span(rows, part, parts):
        for k in range(m):
            base = (row * groups + k // (m // groups)) * run
            total = like(x, 0)
            for i in range(run):
                total += x[base + i] * w[k * run + i]
            y[row * m + k] = total if null(bias) else total + bias[k]
    return OK


@operator("DeformConv", since=19, types=REAL)
def lower_deform_conv(op: NodeLowering) -> None:
    """Emit DeformConv over two axes, as in onnxruntime. Needs memory for all taps of all positions. Spec: ONNX DeformConv-22."""
    x, w, offset, bias, mask = op.input(0), op.input(1), op.input(2), op.optional(3), op.optional(4)
    y = op.output(0, channels_last(4))
    sizes, moved = geometry(op, x.shape, w.shape, y.shape), op.attr("offset_group", 1)
    op.agree(op.attr("kernel_shape") or w.shape[2:], w.shape[2:], "kernel_shape and weight differ")
    op.agree(offset.shape[2:], y.shape[2:], "the offsets differ in shape from the output")
    taps = op.temporary(x.dtype, (sizes.pixels, sizes.channels * product(w.shape[2:])))
    operands = [x, offset, mask, taps]
    op.emit(gather_taps, operands, g=sizes.shape, window=sizes.window, moved=moved, work=taps.size * 8)
    m, run = sizes.outputs, product(w.shape[1:])
    op.emit(weigh_taps, [taps, w, bias, y], rows=sizes.pixels, m=m, run=run, groups=sizes.groups, work=y.size * 16)
