"""Depthwise convolution of 8-bit integers, channels last: a vector of channels, several pixels side by side, sums in registers."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, native, null, shift, span
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.kernels.gemm.integer import IntegerVectors
from ort_lite_cpu.kernels.gemm.integer_epilogue import Ending, IntegerEpilogue, Rescaling

PIXELS = 8
"""The output pixels that one pass over the taps computes, for one vector of channels."""


class VisibleTaps(NamedTuple):
    """The lines x taps of a window that lie inside the image: element (p, i, j) of pixel p is x[p * pixel + i * line + j * tap]."""

    pixel: int
    line: int
    tap: int
    lines: int
    taps: int


class Channels(NamedTuple):
    """The factors of taps, lines of them `line` apart, those of the next tap `c` channels further, and the addends of channels."""

    taps: Ptr
    line: int
    c: int
    addends: Ptr


@native
@extents(
    x="g.n * g.id_ * g.ih * g.iw * g.c",
    zero="1",
    w="window.kh * window.kw * g.c",
    addends="g.c",
    factors="(g.c if out.spread else 1) if out.form else 0",
    y="g.n * g.od * g.oh * g.ow * g.c",
)
def integer_depthwise(
    x: Ptr,
    zero: Ptr,
    w: Ptr,
    addends: Ptr,
    factors: Ptr,
    y: Ptr,
    g: ConvolutionShape,
    window: Window,
    out: Rescaling,
    lanes: Static,
    signed: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, oh, ow, c) = out(conv(x (n, ih, iw, c) - zero, w (kh, kw, c), int16) + addends (c,)), channel by channel.

    Parts share rows. Depth axes are 1, c is o, and strides and dilations are positive. Spec: ONNX ConvInteger-10 with group = C = M.
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
            count, most = 1, start + (PIXELS - 1) * window.sw + (window.kw - 1) * window.dw
            if right - left == window.kw and at + PIXELS <= g.ow and most < g.iw:
                count = PIXELS
            source, taps = shift(x, (line + start + left * window.dw) * g.c), shift(w, (top * window.kw + left) * g.c)
            target = shift(y, (row * g.ow + at) * g.c)
            seen = VisibleTaps(pixel, pitch, step, bottom - top, right - left)
            channels = Channels(taps, window.kw * g.c, g.c, addends)
            end = Ending(factors, factors, out.spread, out.zero)
            _channels(source, seen, channels, end, away, target, count, out.form, lanes, signed)
            at += count
    return OK


@native
def _inside(start: int, size: int, dilation: int, taps: int) -> tuple[int, int]:
    """Return (first, last), exclusive, of the taps whose positions start + tap * dilation lie in [0, size)."""
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
    seen: VisibleTaps,
    w: Channels,
    end: Ending,
    away: int,
    y: Ptr,
    count: int,
    form: Static,
    lanes: Static,
    signed: Static,
) -> None:
    """y (count, c) = end(conv(x - away, w)), `count` pixels, 1 or PIXELS; the last vector of channels overlaps the one before it."""
    if w.c < lanes:
        for i in range(w.c):
            own, ending = _from_channel(w, i), Ending(shift(end.factors, i * end.spread), end.bias, end.spread, end.zero)
            for p in range(count):
                _pixels(shift(x, p * seen.pixel + i), seen, own, ending, away, shift(y, p * w.c + i), 1, form, 1, signed)
    else:
        for first in range(0, w.c, lanes):
            i = min(first, w.c - lanes)
            own, ending = _from_channel(w, i), Ending(shift(end.factors, i * end.spread), end.bias, end.spread, end.zero)
            if count == PIXELS:
                _pixels(shift(x, i), seen, own, ending, away, shift(y, i), PIXELS, form, lanes, signed)
            else:
                _pixels(shift(x, i), seen, own, ending, away, shift(y, i), 1, form, lanes, signed)


@native
def _from_channel(w: Channels, i: int) -> Channels:
    return Channels(shift(w.taps, i), w.line, w.c, shift(w.addends, i))


@emitter("void(*I,i64,i64,i64,i64,i64,*i16,i64,i64,*i32,*f32,*f32,i64,f32,i32,*A,static,static,static,static)")
def _pixels(
    builder: Any, x: Any, seen: Any, w: Any, end: Any, away: Any, y: Any, pixels: int, form: int, lanes: int, signed: bool
) -> None:
    """y[p * c] = end(the sum over lines and taps of (x[p * pixel + i * line + j * tap] - away) * w[i * line + j * c]), a vector each.

    The zero point is the same for all taps, so it is subtracted at the end, times the sum of the factors.
    """
    emit = IntegerVectors(builder, lanes)

    def along(i: Any, sums: Any) -> list[Any]:
        row, factors = emit.move(x, builder.mul(i, seen.line)), emit.move(w.taps, builder.mul(i, w.line))

        def step(j: Any, sums: Any) -> list[Any]:
            factor = emit.load_as(emit.move(factors, builder.mul(j, w.c)), emit.type)
            start = emit.move(row, builder.mul(j, seen.tap))
            values = [emit.load_as(emit.move(start, emit.mul(seen.pixel, p)), emit.type, signed) for p in range(pixels)]
            products = [builder.mul(value, factor) for value in values]
            return [builder.add(total, term) for total, term in zip(sums, [*products, factor], strict=True)]

        return emit.loop(emit.integer(0), seen.taps, 1, sums, step)[1]

    *sums, factors = emit.loop(emit.integer(0), seen.lines, 1, [emit.zero] * (pixels + 1), along)[1]
    start = builder.sub(emit.load_as(w.addends, emit.type), builder.mul(factors, emit.splat(away)))
    epilogue = IntegerEpilogue(emit, end, form, 1, emit.integer(lanes))
    for p, total in enumerate(sums):
        epilogue.store([builder.add(total, start)], emit.move(y, emit.mul(w.c, p)), True)
