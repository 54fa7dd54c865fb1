"""Convolution of 8-bit integers as a matrix product, channels last: what a block of output pixels sees is widened into a scratch.

The depth is ordered (kd, kh, kw, channel), as in `convolution`. Padding is the zero point, which widened is 0.
"""

from typing import Any

from ort_lite.dtypes import Array
from ort_lite.native.lang import OK, Ptr, Static, arithmetic, like, native, shift, span
from ort_lite_cpu.gemm.convolution import Sizes
from ort_lite_cpu.gemm.gemm import grid
from ort_lite_cpu.gemm.integer import block_rows, centred, integer_panel, pairs, widen, zero_point


def integer_filters(weight: Array, groups: int, width: int) -> Array:
    """(O, C / groups, *kernel), int16 -> pairs of (groups, taps * C / groups, O / groups)."""
    outputs, channels = weight.shape[:2]
    grouped = weight.reshape(groups, outputs // groups, channels, -1)
    return pairs(grouped.transpose(0, 3, 2, 1).reshape(groups, -1, outputs // groups), width)


@native
def integer_conv(
    x: Ptr, zero: Ptr, w: Ptr, y: Ptr, scratch: Ptr, n: int, c: int, id_: int, ih: int, iw: int, o: int, od: int, oh: int, ow: int,
    kd: int, kh: int, kw: int, sd: int, sh: int, sw: int, pd: int, ph: int, pw: int, dd: int, dh: int, dw: int,
    groups: int, flip: int, size: int, rows: Static, vectors: Static, lanes: Static, madd: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """y (n, od, oh, ow, o), int32, = conv(x (n, id, ih, iw, c) - zero, w), w from `integer_filters`.

    Names as in Sizes; scratch (parts, size). Parts share blocks of pixels and panels. Spec: ONNX ConvInteger-10.
    """
    g = Sizes(c, id_, ih, iw, o, od, oh, ow, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw, c // groups, o // groups)
    width, depth = vectors * lanes, kd * kh * kw * g.channels
    across, half, pixels = (g.outputs + width - 1) // width, (depth + 1) // 2, n * od * oh * ow
    block = block_rows(pixels, 2 * half, rows, parts)
    away = zero_point(zero, 0, flip)
    scratch = shift(scratch, part * size)
    first, last, left, right = grid((pixels + block - 1) // block, groups * across, part, parts)
    for number in range(first, last):
        top = number * block
        count = min(block, pixels - top)
        for group in range(left // across, (right + across - 1) // across):
            for pixel in range(count):
                target = shift(scratch, pixel * 2 * half)
                _gather(shift(x, group * g.channels), target, g, kd * kh, top + pixel, away, flip)
                if depth < 2 * half:
                    target[depth] = like(target, 0)
            for p in range(max(left - group * across, 0), min(right - group * across, across)):
                panel = shift(w, (group * across + p) * half * width * 2)
                corner = shift(y, top * o + group * g.outputs + p * width)
                integer_panel(scratch, panel, corner, o, count, g.outputs - p * width, half, rows, vectors, lanes, madd)
    return OK


@native(inline=False)
def _gather(x: Ptr, out: Ptr, g: Sizes, lines: int, pixel: int, away: int, flip: int) -> None:
    """out (lines, kw, channels): what one output pixel sees."""
    row = pixel // g.ow
    w = pixel % g.ow * g.sw - g.pw
    h, d, batch = row % g.oh * g.sh - g.ph, row // g.oh % g.od * g.sd - g.pd, row // (g.oh * g.od)
    run = g.kw * g.channels
    for line in range(lines):
        target = shift(out, line * run)
        di, hi = d + line // g.kh * g.dd, h + line % g.kh * g.dh
        source = shift(x, ((batch * g.id_ + di) * g.ih + hi) * g.iw * g.c)
        if di < 0 or di >= g.id_ or hi < 0 or hi >= g.ih:
            _zeros(target, 0, run)
        elif g.dw == 1 and g.channels == g.c:
            left = min(max(-w, 0), g.kw)
            right = max(min(g.iw - w, g.kw), left)
            _zeros(target, 0, left * g.c)
            widen(shift(source, (w + left) * g.c), shift(target, left * g.c), (right - left) * g.c, away, flip)
            _zeros(target, right * g.c, run)
        else:
            for tap in range(g.kw):
                wi = w + tap * g.dw
                if wi < 0 or wi >= g.iw:
                    _zeros(target, tap * g.channels, (tap + 1) * g.channels)
                else:
                    widen(shift(source, wi * g.c), shift(target, tap * g.channels), g.channels, away, flip)


@native
def _zeros(out: Ptr, first: int, last: int) -> None:
    for i in range(first, last):
        out[i] = like(out, 0)


@native
def integer_depthwise(
    x: Ptr, zero: Ptr, w: Ptr, y: Ptr, n: int, c: int, id_: int, ih: int, iw: int, o: int, od: int, oh: int, ow: int,
    kd: int, kh: int, kw: int, sd: int, sh: int, sw: int, pd: int, ph: int, pw: int, dd: int, dh: int, dw: int,
    flip: int, part: int, parts: int,
) -> int:  # fmt: skip
    """y (n, oh, ow, c), int32, = conv(x (n, ih, iw, c) - zero, w (kh, kw, c), int16), channel by channel; rows are shared.

    Names as in Sizes; depth axes are 1. Spec: ONNX ConvInteger-10 with group = C = M.
    """
    away = zero_point(zero, 0, flip)
    for row in span(n * oh, part, parts):
        top = row % oh * sh - ph
        for column in range(ow):
            target = shift(y, (row * ow + column) * c)
            for q in range(c):
                target[q] = like(target, 0)
            for i in range(kh):
                h = top + i * dh
                for j in range(kw):
                    left = column * sw - pw + j * dw
                    if 0 <= h < ih and 0 <= left < iw:
                        _add_tap(
                            shift(x, ((row // oh * ih + h) * iw + left) * c), shift(w, (i * kw + j) * c), target, c, away, flip
                        )
    return OK


@native
def _add_tap(x: Ptr, w: Ptr, y: Ptr, c: int, away: int, flip: int) -> None:
    for q in range(c):
        y[q] = _multiplied(y[q], centred(x[q], flip, away), w[q])


@arithmetic("i32(i32,i16,i16)")
def _multiplied(total: Any, x: Any, y: Any) -> Any:
    """total + x * y, in 32 bits."""
    return total + x.to("i32") * y.to("i32")
