"""Depthwise convolution, channels last: no matrix product, but sums of neighbouring pixels side by side in the registers.

An input vector is read once for all pixels of a tile that see it, and some rows of output follow each other at one place, so
that what they share of the input is still in the first cache level.
"""

import math
from collections.abc import Sequence
from typing import Any

from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, native, null, shift, span
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.kernels.gemm.microkernel import BIAS, CLIP, RESIDUAL
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.square import prefetch_second

ROWS = 2
"""Output rows that are computed at one place."""
FAR = 1 << 20
"""Elements of images that may not be in a cache any more: what the next rows see and write is fetched ahead."""
FAR_TAPS = 4
"""Wider kernels compute for longer than memory takes."""
MAX_TAPS = 64
"""Kernels up to this width are unrolled."""
MAX_STRIDE = 8
"""What the next tile will read is fetched ahead, one instruction a pixel: their number grows with the stride's square."""


def tile_of(target: Target, lanes: int, taps: int, channels: Any, width: Any) -> dict[str, Any]:
    """Statics. pixels: of a tile, in one line of output; vectors: of channels; held: whether there are registers for the weights of a
    line too, which else are read wherever they are used.

    As many sums as keep the multipliers busy; a multiplication that is not fused needs registers for more than these. Widths are
    multiples of 7 more often than of 8. A tile of 4 pixels reads less than one of 7 for 3 taps, and more for 5. AArch64 loads several
    inputs at once, for which there have to be registers. Where lines are long, few tiles are at an edge, and wide kernels keep their
    weights beside 4 pixels.
    """
    small = isinstance(width, int) and (width <= 4 or (taps > 5 and width > 32))
    wide = target.vector_registers == 32 and target.architecture == "x86_64"
    sevens = isinstance(width, int) and width % 7 == 0
    two = isinstance(channels, int) and channels >= (2 if wide else 4) * lanes
    if not target.has_fma:
        return {"pixels": 4, "vectors": 1, "held": False}
    if small or (not wide and two and (taps < 5 or not sevens)):
        pixels, vectors = 4, 2 if two else 1
    else:
        pixels, vectors = 7 if sevens else 8, 2 if two and wide else 1
    return {"pixels": pixels, "vectors": vectors, "held": vectors * (pixels + taps + 1) + 1 <= target.vector_registers}


@native
@extents(x="n * id_ * ih * iw * c", w="kh * kw * c", bias="c", residual="n * od * oh * ow * c", y="n * od * oh * ow * c")
def depthwise(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    g: ConvolutionShape,
    window: Window,
    act: ActivationParameters,
    kind: Static,
    taps: Static,
    stride: Static,
    dilation: Static,
    pixels: Static,
    vectors: Static,
    held: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, oh, ow, c) = kind(clip(conv(x (n, ih, iw, c), w (kh, kw, c)) + bias (c,) + residual, low, high)).

    Names as in ConvolutionShape and Window; depths are 1, o is c. taps, stride, dilation are kw, sw, dw. Parts share groups of rows.
    Spec: ONNX Conv-22 with group = C = M.
    """
    clips = act.low > -math.inf or act.high < math.inf
    mode = (0 if null(bias) else BIAS) + (0 if null(residual) else RESIDUAL) + (CLIP if clips else 0)
    bands = (g.oh + ROWS - 1) // ROWS
    count = min(g.ow, pixels)
    far = taps <= FAR_TAPS and g.n * (g.ih * g.iw + g.oh * g.ow) * g.c > FAR
    for job in span(g.n * bands, part, parts):
        image, top = job // bands, job % bands * ROWS
        bottom = min(top + ROWS, g.oh)
        for tile in range((g.ow + pixels - 1) // pixels):
            column = max(min(tile * pixels, g.ow - pixels), 0)
            start = column * stride - window.pw
            inside = start >= 0 and count == pixels and start + (pixels - 1) * stride + (taps - 1) * dilation < g.iw
            for row in range(top, bottom):
                h = row * window.sh - window.ph
                first = (-h + window.dh - 1) // window.dh if h < 0 else 0
                last = (
                    window.kh if h + (window.kh - 1) * window.dh < g.ih else max((g.ih - h + window.dh - 1) // window.dh, first)
                )
                if g.iw == 0:  # what lies outside of a line reads its first column
                    last = first
                at = ((image * g.oh + row) * g.ow + column) * g.c
                a, b = shift(x, (image * g.ih + h + first * window.dh) * g.iw * g.c), shift(w, first * taps * g.c)
                line, lines, rest, out = window.dh * g.iw * g.c, last - first, shift(residual, at), shift(y, at)
                if far:
                    below = (image * g.ih + h + (window.kh - 1) * window.dh + ROWS * window.sh) * g.iw + max(start, 0)
                    for i in range(window.sh):
                        _ask(shift(x, (below - i * g.iw) * g.c), count * stride * g.c)
                    _ask(shift(out, ROWS * g.ow * g.c), count * g.c)
                _channels(
                    a, line, start, g.iw, b, g.c, lines, bias, rest, out, count, inside, mode, act.low, act.high,
                    taps, stride, dilation, pixels, vectors, held, lanes,
                )  # fmt: skip
        if kind != "":
            activate(shift(y, (image * g.oh + top) * g.ow * g.c), 0, 1, (bottom - top) * g.ow * g.c, act.alpha, act.beta, kind)
    return OK


@native
def _ask(x: Ptr, count: int) -> None:
    """Fetches elements that are read or written when the next rows are computed; any address is allowed."""
    for i in range(0, count, 16):
        prefetch_second(shift(x, i))


@native(inline=False)
def _channels(
    x: Ptr,
    line: int,
    start: int,
    iw: int,
    w: Ptr,
    c: int,
    lines: int,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    count: int,
    inside: int,
    mode: int,
    low: float,
    high: float,
    taps: Static,
    stride: Static,
    dilation: Static,
    pixels: Static,
    vectors: Static,
    held: Static,
    lanes: Static,
) -> None:
    """One tile of pixels, all channels: the last ones with some that were computed before, so that they fill the vectors.

    A loop each for tiles inside and at an edge: in one, what both prepare would be prepared for every tile.
    """
    width, i = vectors * lanes, 0
    if inside and c >= width:
        while i < c:
            i = min(i, c - width)
            a, b, add, rest, out = shift(x, i), shift(w, i), shift(bias, i), shift(residual, i), shift(y, i)
            _tile(
                a, line, start, iw, b, c, lines, add, rest, out, count, mode, low, high,
                False, taps, stride, dilation, pixels, vectors, held, lanes,
            )  # fmt: skip
            i += width
    elif c >= width:
        while i < c:
            i = min(i, c - width)
            a, b, add, rest, out = shift(x, i), shift(w, i), shift(bias, i), shift(residual, i), shift(y, i)
            _tile(
                a, line, start, iw, b, c, lines, add, rest, out, count, mode, low, high,
                True, taps, stride, dilation, pixels, vectors, held, lanes,
            )  # fmt: skip
            i += width
    while i < c:
        a, b, add, rest, out = shift(x, i), shift(w, i), shift(bias, i), shift(residual, i), shift(y, i)
        _tile(
            a, line, start, iw, b, c, lines, add, rest, out, count, mode, low, high,
            True, taps, stride, dilation, pixels, 1, held, 1,
        )  # fmt: skip
        i += 1


@emitter("void(*F,i64,i64,i64,*F,i64,i64,*F,*F,*F,i64,i64,F,F,static,static,static,static,static,static,static,static)")
def _tile(
    builder: Any,
    x: Any,
    line: Any,
    start: Any,
    iw: Any,
    w: Any,
    c: Any,
    lines: Any,
    bias: Any,
    residual: Any,
    y: Any,
    count: Any,
    mode: Any,
    low: Any,
    high: Any,
    edge: bool,
    taps: int,
    stride: int,
    dilation: int,
    pixels: int,
    vectors: int,
    held: bool,
    lanes: int,
) -> None:
    """y[p] = sum over lines i and taps j of x[i * line + (start + p * stride + j * dilation) * c] * w[(i * taps + j) * c].

    Some vectors of channels. At an edge, columns outside [0, iw) count as zeros, and only `count` pixels are written.
    """
    emit = Vectors(builder, x.type.pointee, lanes)
    columns = sorted({p * stride + j * dilation for p in range(pixels) for j in range(taps)})
    places, inside = {}, {}
    for column in columns:
        place = builder.add(start, emit.integer(column))
        if edge:
            inside[column] = builder.icmp_unsigned("<", place, iw)
            place = builder.select(inside[column], place, emit.integer(0))
        places[column] = builder.mul(place, c)

    if not edge:
        for i in range(stride):
            below = emit.move(x, builder.mul(line, builder.sub(lines, emit.integer(1 + i))))
            for column in range(columns[-1] + 1, columns[-1] + 1 + pixels * stride):
                emit.prefetch(emit.move(below, builder.mul(builder.add(start, emit.integer(column)), c)))

    def load_weights(factors: Any, tap: int) -> list[Any]:
        return [emit.load(emit.move(factors, emit.mul(c, tap)), v * lanes) for v in range(vectors)]

    def along(i: Any, carried: Sequence[Any]) -> list[Any]:
        source, factors = emit.move(x, builder.mul(i, line)), emit.move(w, builder.mul(i, emit.mul(c, taps)))
        sums = list(carried)
        weights = [load_weights(factors, j) for j in range(taps)] if held else []
        for column in columns:
            used = [(p, j) for p, j in _meeting(column, pixels, stride, dilation) if 0 <= j < taps]
            own = [p * vectors + v for p, _ in used for v in range(vectors)]

            def add_column(
                sums: Sequence[Any], column: int = column, used: Sequence[tuple[int, int]] = tuple(used)
            ) -> list[Any]:
                place = emit.move(source, places[column])
                values = [emit.load(place, v * lanes) for v in range(vectors)]
                own = [weight for _, j in used for weight in (weights[j] if held else load_weights(factors, j))]
                return [emit.fma(values[n % vectors], own[n], total) for n, total in enumerate(sums)]

            before = [sums[n] for n in own]
            after = emit.when(inside[column], before, add_column) if edge else add_column(before)
            for n, total in zip(own, after, strict=True):
                sums[n] = total
        return sums

    sums = emit.loop(emit.integer(0), lines, 1, [emit.zero] * (pixels * vectors), along)[1]
    parts = [v * lanes for v in range(vectors)]
    sums = emit.when(emit.bit(mode, BIAS), sums, lambda s: emit.add_all(s, [emit.load(bias, at) for at in parts] * pixels))
    for p in range(pixels):
        own, at = sums[p * vectors : (p + 1) * vectors], emit.mul(c, p)
        if edge:
            with builder.if_then(builder.icmp_signed("<", emit.integer(p), count)):
                _finish(emit, own, at, mode, residual, y, low, high)
        else:
            _finish(emit, own, at, mode, residual, y, low, high)


def _meeting(column: int, pixels: int, stride: int, dilation: int) -> list[tuple[int, int]]:
    """(pixel of the tile, tap) that meet in a column."""
    pairs = [(p, divmod(column - p * stride, dilation)) for p in range(pixels)]
    return [(p, tap) for p, (tap, rest) in pairs if rest == 0]


def _finish(emit: Vectors, values: list[Any], at: Any, mode: Any, residual: Any, y: Any, low: Any, high: Any) -> None:
    """Residual, limits and store of one pixel."""
    offsets = [v * emit.lanes for v in range(len(values))]
    other, limits = emit.move(residual, at), (emit.splat(low), emit.splat(high))
    values = emit.when(emit.bit(mode, RESIDUAL), values, lambda v: emit.add_all(v, [emit.load(other, k) for k in offsets]))
    values = emit.when(emit.bit(mode, CLIP), values, lambda v: [emit.clip(value, *limits) for value in v])
    for value, offset in zip(values, offsets, strict=True):
        emit.store(value, emit.move(y, at), offset)
