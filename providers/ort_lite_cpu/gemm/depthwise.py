"""Depthwise convolution, channels last: no matrix product, but as many sums side by side as hide the multipliers' latency."""

import math
from typing import Any

from ort_lite.native.lang import OK, Ptr, Static, emitted, native, null, shift, span
from ort_lite_cpu.gemm.activation import activate
from ort_lite_cpu.gemm.microkernel import BIAS, CLIP, RESIDUAL, Vectors

PIXELS = 8
"""Output pixels that one pass over the taps computes, for one vector of channels."""


@native
def depthwise(
    x: Ptr, w: Ptr, bias: Ptr, residual: Ptr, y: Ptr, n: int, c: int, id_: int, ih: int, iw: int, o: int, od: int, oh: int, ow: int,
    kd: int, kh: int, kw: int, sd: int, sh: int, sw: int, pd: int, ph: int, pw: int, dd: int, dh: int, dw: int,
    low: float, high: float, alpha: float, beta: float, kind: Static, lanes: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """y (n, oh, ow, c) = kind(clip(conv(x (n, ih, iw, c), w (kh, kw, c)) + bias (c,) + residual, low, high)).

    Names as in `convolution.conv`; depth axes are 1. Rows of y are shared. Spec: ONNX Conv-22 with group = C = M.
    """
    mode = (0 if null(bias) else BIAS) + (0 if null(residual) else RESIDUAL) + (CLIP if low > -math.inf or high < math.inf else 0)
    for row in span(n * oh, part, parts):
        h = row % oh * sh - ph
        first, last = _inside(h, ih, dh, kh)
        top = ((row // oh) * ih + h + first * dh) * iw
        taps = shift(w, first * kw * c)
        at = 0
        while at < ow:
            start = at * sw - pw
            left, right = _inside(start, iw, dw, kw)
            count = 1
            if right - left == kw and at + PIXELS <= ow and (start + (PIXELS - 1) * sw) + (kw - 1) * dw < iw:
                count = PIXELS
            target = (row * ow + at) * c
            source = shift(x, (top + start + left * dw) * c)
            factors = shift(taps, left * c)
            _channels(
                source, sw * c, dh * iw * c, dw * c, factors, kw * c, c, last - first, right - left, bias, shift(residual, target),
                shift(y, target), mode, low, high, count, lanes,
            )  # fmt: skip
            at += count
        if kind != "":
            activate(shift(y, row * ow * c), 0, 1, ow * c, alpha, beta, kind)
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
    x: Ptr, pixel: int, line: int, tap: int, w: Ptr, w_line: int, c: int, lines: int, taps: int, bias: Ptr, residual: Ptr,
    y: Ptr, mode: int, low: float, high: float, count: int, lanes: Static,
) -> None:  # fmt: skip
    """`count` output pixels, 1 or PIXELS, all channels."""
    i = 0
    if count == PIXELS:
        while i + lanes <= c:
            _pixels(
                shift(x, i), pixel, line, tap, shift(w, i), w_line, c, lines, taps, shift(bias, i), shift(residual, i),
                shift(y, i), mode, low, high, PIXELS, lanes,
            )  # fmt: skip
            i += lanes
        while i < c:
            _pixels(
                shift(x, i), pixel, line, tap, shift(w, i), w_line, c, lines, taps, shift(bias, i), shift(residual, i),
                shift(y, i), mode, low, high, PIXELS, 1,
            )  # fmt: skip
            i += 1
    else:
        while i + lanes <= c:
            _pixels(
                shift(x, i), pixel, line, tap, shift(w, i), w_line, c, lines, taps, shift(bias, i), shift(residual, i),
                shift(y, i), mode, low, high, 1, lanes,
            )  # fmt: skip
            i += lanes
        while i < c:
            _pixels(
                shift(x, i), pixel, line, tap, shift(w, i), w_line, c, lines, taps, shift(bias, i), shift(residual, i),
                shift(y, i), mode, low, high, 1, 1,
            )  # fmt: skip
            i += 1


@emitted("void(*F,i64,i64,i64,*F,i64,i64,i64,i64,*F,*F,*F,i64,F,F,static,static)")
def _pixels(
    builder: Any, x: Any, pixel: Any, line: Any, tap: Any, w: Any, w_line: Any, c: Any, lines: Any, taps: Any, bias: Any,
    residual: Any, y: Any, mode: Any, low: Any, high: Any, pixels: int, lanes: int,
) -> None:  # fmt: skip
    """y[p] = sum over lines and taps of x[p * pixel + i * line + j * tap] * w[i * w_line + j * c], one vector of channels."""
    emit = Vectors(builder, x.type.pointee, lanes)

    def along(i: Any, sums: Any) -> list[Any]:
        row, factors = emit.move(x, builder.mul(i, line)), emit.move(w, builder.mul(i, w_line))

        def step(j: Any, sums: Any) -> list[Any]:
            factor = emit.load(emit.move(factors, builder.mul(j, c)), 0)
            start = emit.move(row, builder.mul(j, tap))
            values = [emit.load(emit.move(start, emit.mul(pixel, p)), 0) for p in range(pixels)]
            return [emit.fma(value, factor, total) for value, total in zip(values, sums, strict=True)]

        return emit.loop(emit.integer(0), taps, 1, sums, step)[1]

    sums = emit.loop(emit.integer(0), lines, 1, [emit.zero] * pixels, along)[1]
    at = [emit.mul(c, p) for p in range(pixels)]
    sums = emit.when(emit.bit(mode, BIAS), sums, lambda v: emit.add_all(v, [emit.load(bias, 0)] * pixels))
    sums = emit.when(
        emit.bit(mode, RESIDUAL), sums, lambda v: emit.add_all(v, [emit.load(emit.move(residual, p), 0) for p in at])
    )
    sums = emit.when(emit.bit(mode, CLIP), sums, lambda v: [emit.clip(t, emit.splat(low), emit.splat(high)) for t in v])
    for total, p in zip(sums, at, strict=True):
        emit.store(total, emit.move(y, p), 0)

