"""Depthwise convolution of 8-bit integers, channels last: a vector of channels, several pixels side by side, sums in registers."""

from typing import Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, native, null, shift, span
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.kernels.gemm.integer import IntegerVectors

PIXELS = 8
"""Output pixels that one pass over the taps computes, for one vector of channels."""


@native
@extents(x="n * id_ * ih * iw * c", zero="1", w="kh * kw * c", y="n * od * oh * ow * c")
def integer_depthwise(
    x: Ptr, zero: Ptr, w: Ptr, y: Ptr, g: ConvolutionShape, window: Window, lanes: Static, signed: Static, part: int, parts: int
) -> int:
    """y (n, oh, ow, c), int32, = conv(x (n, ih, iw, c) - zero, w (kh, kw, c), int16), channel by channel; rows are shared.

    Names as in ConvolutionShape and Window; depth axes are 1, c is o, strides and dilations are positive: the lowering of
    ConvInteger. Spec: ONNX ConvInteger-10 with group = C = M.
    """
    away, pixel, step, pitch = 0 if null(zero) else int(zero[0]), window.sw * g.c, window.dw * g.c, window.dh * g.iw * g.c
    for row in span(g.n * g.oh, part, parts):
        h = row % g.oh * window.sh - window.ph
        top, bottom = _inside(h, g.ih, window.dh, window.kh)
        line = (row // g.oh * g.ih + h + top * window.dh) * g.iw
        at = 0
        while at < g.ow:
            start = at * window.sw - window.pw
            left, right = _inside(start, g.iw, window.dw, window.kw)
            count = 1
            if (
                right - left == window.kw
                and at + PIXELS <= g.ow
                and start + (PIXELS - 1) * window.sw + (window.kw - 1) * window.dw < g.iw
            ):
                count = PIXELS
            source, factors = shift(x, (line + start + left * window.dw) * g.c), shift(w, (top * window.kw + left) * g.c)
            target = shift(y, (row * g.ow + at) * g.c)
            lines, taps = bottom - top, right - left
            _channels(
                source, pixel, pitch, step, factors, window.kw * g.c, g.c, lines, taps, away, target, count, lanes, signed
            )
            at += count
    return OK


@native
def _inside(start: int, size: int, dilation: int, taps: int) -> tuple[int, int]:
    """The taps first..last (exclusive) whose positions start + tap * dilation lie in [0, size)."""
    first = 0
    while first < taps and start + first * dilation < 0:
        first += 1
    last = first
    while last < taps and start + last * dilation < size:
        last += 1
    return first, last


@native(inline=False)
def _channels(
    x: Ptr,
    pixel: int,
    line: int,
    tap: int,
    w: Ptr,
    w_line: int,
    c: int,
    lines: int,
    taps: int,
    away: int,
    y: Ptr,
    count: int,
    lanes: Static,
    signed: Static,
) -> None:
    """`count` output pixels, 1 or PIXELS, all channels; the last vector of channels overlaps the one before it."""
    if c < lanes:
        for i in range(c):
            for p in range(count):
                source = shift(x, p * pixel + i)
                _pixels(source, pixel, line, tap, shift(w, i), w_line, c, lines, taps, away, shift(y, p * c + i), 1, 1, signed)
    else:
        for first in range(0, c, lanes):
            i = min(first, c - lanes)
            source, factors, target = shift(x, i), shift(w, i), shift(y, i)
            if count == PIXELS:
                _pixels(source, pixel, line, tap, factors, w_line, c, lines, taps, away, target, PIXELS, lanes, signed)
            else:
                _pixels(source, pixel, line, tap, factors, w_line, c, lines, taps, away, target, 1, lanes, signed)


@emitter("void(*I,i64,i64,i64,*i16,i64,i64,i64,i64,i32,*i32,static,static,static)")
def _pixels(
    builder: Any,
    x: Any,
    pixel: Any,
    line: Any,
    tap: Any,
    w: Any,
    w_line: Any,
    c: Any,
    lines: Any,
    taps: Any,
    away: Any,
    y: Any,
    pixels: int,
    lanes: int,
    signed: bool,
) -> None:
    """y[p * c] = sum over lines and taps of (x[p * pixel + i * line + j * tap] - away) * w[i * w_line + j * c], a vector each.

    The zero point is taken off at the end: it is the same for all taps, whose factors are summed beside.
    """
    emit = IntegerVectors(builder, lanes)

    def along(i: Any, sums: Any) -> list[Any]:
        row, factors = emit.move(x, builder.mul(i, line)), emit.move(w, builder.mul(i, w_line))

        def step(j: Any, sums: Any) -> list[Any]:
            factor = emit.load_as(emit.move(factors, builder.mul(j, c)), emit.type)
            start = emit.move(row, builder.mul(j, tap))
            values = [emit.load_as(emit.move(start, emit.mul(pixel, p)), emit.type, signed) for p in range(pixels)]
            products = [builder.mul(value, factor) for value in values]
            return [builder.add(total, term) for total, term in zip(sums, [*products, factor], strict=True)]

        return emit.loop(emit.integer(0), taps, 1, sums, step)[1]

    *sums, factors = emit.loop(emit.integer(0), lines, 1, [emit.zero] * (pixels + 1), along)[1]
    excess = builder.mul(factors, emit.splat(away))
    for p, total in enumerate(sums):
        emit.store(builder.sub(total, excess), emit.move(y, emit.mul(c, p)), 0)
