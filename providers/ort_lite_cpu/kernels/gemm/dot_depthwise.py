"""Depthwise convolution of bytes, channel by channel, by instructions that multiply four of them: those of four lines of a window."""

from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, native, shift, span
from ort_lite_cpu.kernels.gemm.byte_dots import ByteDots
from ort_lite_cpu.kernels.gemm.byte_tile import VECTOR_NEEDS
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape
from ort_lite_cpu.kernels.gemm.integer_epilogue import Ending, IntegerEpilogue, Rescaling

MANY, SOME = 8, 4
"""The output pixels of a row that are computed together: their sums stay in registers, and they share columns of the image."""
LINES = 4
"""The lines of a window that one instruction multiplies."""


MOST_LINES = 12
"""The most lines of a window: they are unrolled."""


class DepthwiseWindow(NamedTuple):
    """The window of a depthwise convolution: its lines and taps, and the step from one pixel to the next; and the vector's lanes."""

    lines: StaticInt
    taps: StaticInt
    stride: StaticInt
    lanes: StaticInt


def tap_words(w: Array) -> Array:
    """Return (C, kh, kw), int8, as (ceil(kh / 4), kw, C, 4): four lines beside each other, with zeros at the end."""
    channels, lines, taps = w.shape
    padded = np.zeros((channels, -(-lines // LINES) * LINES, taps), np.int8)
    padded[:, :lines] = w
    return np.ascontiguousarray(padded.reshape(channels, -1, LINES, taps).transpose(1, 3, 0, 2))


@native
@extents(
    x="g.n * max((g.oh - 1) * step + (form.lines - 1) * dilation + 1, 0) * max((g.ow - 1) * form.stride + form.taps, 0) * g.c",
    w="ceildiv(form.lines, 4) * form.taps * g.c * 4",
    starts="g.c",
    factors="(g.c if out.spread else 1) if out.form else 0",
    y="g.n * g.oh * g.ow * g.c",
)
def dot_depthwise(
    x: Ptr,
    w: Ptr,
    starts: Ptr,
    factors: Ptr,
    y: Ptr,
    g: ConvolutionShape,
    step: int,
    dilation: int,
    out: Rescaling,
    form: DepthwiseWindow,
    part: int,
    parts: int,
) -> int:
    """y (n, oh, ow, c) = out(conv(x, w) + starts (c,)), channel by channel, x from `pad_image`, w from `tap_words`.

    step, dilation: the lines of x between rows of y, and between lines of the window; taps are adjacent. c is at least the vector's
    lanes. Parts share rows. Spec: ONNX ConvInteger-10 with group = C = M.
    """
    pitch = ((g.ow - 1) * form.stride + form.taps) * g.c
    h = (g.oh - 1) * step + (form.lines - 1) * dilation + 1
    for row in span(g.n * g.oh, part, parts):
        source, target = shift(x, (row // g.oh * h + row % g.oh * step) * pitch), shift(y, row * g.ow * g.c)
        for first in range(0, g.c, form.lanes):
            i = min(first, g.c - form.lanes)
            end = Ending(shift(factors, i * out.spread), factors, out.spread, out.zero)
            at = DepthwiseVector(shift(w, 4 * i), shift(starts, i), dilation * pitch, g.c)
            _row(shift(source, i), at, end, shift(target, i), g.ow, out.form, form)
    return OK


class DepthwiseVector(NamedTuple):
    """The factors and starts of a vector of channels, the bytes from one line of a window to the next, and the number of channels."""

    w: Ptr
    starts: Ptr
    line: int
    c: int


@native(inline=False)
def _row(x: Ptr, at: DepthwiseVector, end: Ending, y: Ptr, count: int, kind: Static, form: DepthwiseWindow) -> None:
    """y (count, c) = end(the pixels of a row), a vector of channels of each; the last pixels overlap those before them."""
    step = form.stride * at.c
    if count >= MANY:
        for first in range(0, count, MANY):
            p = min(first, count - MANY)
            _pixels(shift(x, p * step), at, end, shift(y, p * at.c), MANY, form.lines, form.taps, form.stride, form.lanes, kind)
    elif count >= SOME:
        for first in range(0, count, SOME):
            p = min(first, count - SOME)
            _pixels(shift(x, p * step), at, end, shift(y, p * at.c), SOME, form.lines, form.taps, form.stride, form.lanes, kind)
    else:
        for p in range(count):
            _pixels(shift(x, p * step), at, end, shift(y, p * at.c), 1, form.lines, form.taps, form.stride, form.lanes, kind)


@emitter(
    "void(*u8,*i8,*i32,i64,i64,*f32,*f32,i64,f32,*A,static,static,static,static,static,static)",
    needs=VECTOR_NEEDS,
)
def _pixels(
    builder: Any,
    x: Any,
    at: Any,
    end: Any,
    y: Any,
    pixels: int,
    lines: int,
    taps: int,
    stride: int,
    lanes: int,
    kind: int,
) -> None:
    """y[p * c] = end(starts + sum over lines and taps of x[i * line + (p * stride + j) * c] * w), a vector each."""
    emit = ByteDots(builder, lanes)
    sums = [emit.load(at.starts, 0)] * pixels
    words = emit.words(at.w)
    for group in range(0, lines, LINES):
        factors = [emit.load(emit.move(words, emit.mul(at.c, group // LINES * taps + j)), 0) for j in range(taps)]
        for column in range((pixels - 1) * stride + taps):
            uses = [(p, column - p * stride) for p in range(pixels) if 0 <= column - p * stride < taps]
            if uses:
                word = _join_lines(emit, x, at, range(group, min(group + LINES, lines)), column)
                for p, j in uses:
                    sums[p] = emit.dot(word, factors[j], sums[p])
    epilogue = IntegerEpilogue(emit, end, kind, 1, emit.integer(lanes))
    for p, total in enumerate(sums):
        epilogue.store([total], emit.move(y, emit.mul(at.c, p)), True)


def _join_lines(emit: ByteDots, x: Any, at: Any, lines: range, column: int) -> Any:
    """Return the bytes of a column in several lines, beside each other in words, the first in the lowest bits."""
    builder, joined = emit.builder, emit.zero
    for k, line in enumerate(lines):
        place = emit.move(x, builder.add(emit.mul(at.line, line), emit.mul(at.c, column)))
        value = emit.load_as(place, emit.type, False)
        shifted = builder.shl(value, emit.ir.Constant(emit.type, [8 * k] * emit.lanes)) if k else value
        joined = builder.or_(joined, shifted) if k else shifted
    return joined
