"""Convolution of 8-bit integers as a matrix product, channels last: what a block of output pixels sees is widened into a scratch.

The depth is ordered (kd, kh, kw, channel), as in `convolution`. Padding is the zero point, which widened is 0.
"""

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, shift
from ort_lite_cpu.kernels.gemm.convolution import Sizes
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.integer import CAPACITY, block_rows, integer_panel, pairs, widen, zero_point  # noqa: F401  in extents


def integer_filters(weight: Array, groups: int, width: int) -> Array:
    """(O, C / groups, *kernel), int16 -> pairs of (groups, taps * C / groups, O / groups)."""
    outputs, channels = weight.shape[:2]
    grouped = weight.reshape(groups, outputs // groups, channels, -1)
    return pairs(grouped.transpose(0, 3, 2, 1).reshape(groups, -1, outputs // groups), width)


@native
@extents(
    x="n * id_ * ih * iw * c",
    zero="1",
    w="groups * ceildiv(o // groups, vectors * lanes) * ceildiv(kd * kh * kw * (c // groups), 2) * vectors * lanes * 2",
    y="n * od * oh * ow * o",
    scratch="(parts - 1) * size + min(max(CAPACITY, rows * 2 * ceildiv(kd * kh * kw * (c // groups), 2)),"
    " ceildiv(n * od * oh * ow, rows) * rows * 2 * ceildiv(kd * kh * kw * (c // groups), 2))",
)
def integer_conv(
    x: Ptr,
    zero: Ptr,
    w: Ptr,
    y: Ptr,
    scratch: Ptr,
    n: int,
    c: int,
    id_: int,
    ih: int,
    iw: int,
    o: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    sd: int,
    sh: int,
    sw: int,
    pd: int,
    ph: int,
    pw: int,
    dd: int,
    dh: int,
    dw: int,
    groups: int,
    flip: int,
    size: int,
    rows: Static,
    vectors: Static,
    lanes: Static,
    madd: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, od, oh, ow, o), int32, = conv(x (n, id, ih, iw, c) - zero, w), w from `integer_filters`.

    Names as in Sizes; scratch (parts, size), see `scratch_size`. Parts share blocks of pixels and panels. Strides and dilations are
    positive, c and o multiples of groups: the lowering of ConvInteger. Spec: ONNX ConvInteger-10.
    """
    g = Sizes(c, id_, ih, iw, o, od, oh, ow, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw, c // groups, o // groups)
    width, depth = vectors * lanes, kd * kh * kw * g.channels
    across, half, pixels = (g.outputs + width - 1) // width, (depth + 1) // 2, n * od * oh * ow
    block = block_rows(pixels, 2 * half, rows, parts)
    away = zero_point(zero, 0, flip)
    scratch = shift(scratch, part * size)
    first, last, left, right = grid((pixels + block - 1) // block, groups * across, 1, 0, part, parts)
    for number in range(first, last):
        top = number * block
        count = min(block, pixels - top)
        for group in range(left // across, (right + across - 1) // across):
            _gather(shift(x, group * g.channels), scratch, g, kd, top, count, 2 * half, away, flip)
            for p in range(max(left - group * across, 0), min(right - group * across, across)):
                panel = shift(w, (group * across + p) * half * width * 2)
                corner = shift(y, top * o + group * g.outputs + p * width)
                integer_panel(scratch, panel, corner, o, count, g.outputs - p * width, half, rows, vectors, lanes, madd)
    return OK


@native(inline=False)
def _gather(x: Ptr, out: Ptr, g: Sizes, kd: int, top: int, count: int, depth: int, away: int, flip: int) -> None:
    """out (count, depth): what the output pixels from `top` on see, (kd, kh, kw, channels), and zeros behind it."""
    run = g.kw * g.channels
    pixel = 0
    while pixel < count:
        row, first = (top + pixel) // g.ow, (top + pixel) % g.ow
        h, d, batch = row % g.oh * g.sh - g.ph, row // g.oh % g.od * g.sd - g.pd, row // (g.oh * g.od)
        last = min(g.ow, first + count - pixel)
        for i in range(kd):
            for j in range(g.kh):
                di, hi = d + i * g.dd, h + j * g.dh
                inside = 0 <= di < g.id_ and 0 <= hi < g.ih
                source = shift(x, ((batch * g.id_ + di) * g.ih + hi) * g.iw * g.c)
                target = shift(out, pixel * depth + (i * g.kh + j) * run)
                for column in range(first, last):
                    _line(source, target, g, column * g.sw - g.pw, inside, away, flip)
                    target = shift(target, depth)
        used = kd * g.kh * run
        for p in range(pixel, pixel + last - first):
            _zeros(shift(out, p * depth), used, depth)
        pixel += last - first


@native
def _line(x: Ptr, out: Ptr, g: Sizes, w: int, inside: bool, away: int, flip: int) -> None:
    """out (kw, channels): what a pixel whose first tap is at w sees of a line of x."""
    run = g.kw * g.channels
    if not inside:
        _zeros(out, 0, run)
    elif g.dw == 1 and g.channels == g.c:
        left = min(max(-w, 0), g.kw)
        right = max(min(g.iw - w, g.kw), left)
        _zeros(out, 0, left * g.c)
        widen(shift(x, (w + left) * g.c), shift(out, left * g.c), (right - left) * g.c, away, flip)
        _zeros(out, right * g.c, run)
    else:
        for tap in range(g.kw):
            wi = w + tap * g.dw
            if wi < 0 or wi >= g.iw:
                _zeros(out, tap * g.channels, (tap + 1) * g.channels)
            else:
                widen(shift(x, wi * g.c), shift(out, tap * g.channels), g.channels, away, flip)


@native
def _zeros(out: Ptr, first: int, last: int) -> None:
    for i in range(first, last):
        out[i] = like(out, 0)
