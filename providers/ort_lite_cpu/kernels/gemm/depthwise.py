"""Depthwise convolution, channels last: no matrix product, but sums of neighbouring pixels side by side in the registers.

An input vector is read once for all pixels of a tile that see it, and some rows of output follow each other at one place, so
that what they share of the input is still in the first cache level.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, native, shift, span
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.kernels.gemm.microkernel import BIAS, TileEpilogue, add_and_clip, further, mode_of
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.square import prefetch_run

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


class DepthwiseForm(NamedTuple):
    """The compile-time sizes of the kernel: a line of the window, and the tile of pixels in one line of output."""

    taps: StaticInt
    stride: StaticInt
    dilation: StaticInt
    pixels: StaticInt
    vectors: StaticInt
    """Vectors of channels."""
    held: StaticInt
    """1 if there are registers for the weights of a line, too, which are read wherever they are used otherwise."""
    lanes: StaticInt


def form_for(target: Target, lanes: int, line: tuple[int, int, int], channels: Any, width: Any) -> DepthwiseForm:
    """Return the form for a line of (taps, stride, dilation), for images of so many channels and lines of `width` pixels.

    As many sums as keep the multipliers busy; a multiplication that is not fused needs registers for more than these. Widths are
    multiples of 7 more often than of 8. A tile of 4 pixels reads less than one of 7 for 3 taps, and more for 5. AArch64 loads several
    inputs at once, for which there have to be registers. Where lines are long, few tiles are at an edge, and wide kernels keep their
    weights beside 4 pixels.
    """
    taps = line[0]
    small = isinstance(width, int) and (width <= 4 or (taps > 5 and width > 32))
    wide = target.vector_registers == 32 and target.architecture == "x86_64"
    sevens = isinstance(width, int) and width % 7 == 0
    two = isinstance(channels, int) and channels >= (2 if wide else 4) * lanes
    if not target.has_fma:
        return DepthwiseForm(*line, 4, 1, 0, lanes)
    if small or (not wide and two and (taps < 5 or not sevens)):
        pixels, vectors = 4, 2 if two else 1
    else:
        pixels, vectors = 7 if sevens else 8, 2 if two and wide else 1
    held = vectors * (pixels + taps + 1) + 1 <= target.vector_registers
    return DepthwiseForm(*line, pixels, vectors, int(held), lanes)


class SeenLines(NamedTuple):
    """Lines of an image that a tile sees: line i is at[i * step:], `width` pixels long, and the tile begins at its pixel `start`."""

    at: Ptr
    step: int
    lines: int
    start: int
    width: int


@native
@extents(
    x="g.n * g.id_ * g.ih * g.iw * g.c",
    w="window.kh * window.kw * g.c",
    bias="g.c",
    residual="g.n * g.od * g.oh * g.ow * g.c",
    y="g.n * g.od * g.oh * g.ow * g.c",
)
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
    form: DepthwiseForm,
    part: int,
    parts: int,
) -> int:
    """y (n, oh, ow, c) = kind(clip(conv(x (n, ih, iw, c), w (kh, kw, c)) + bias (c,) + residual, low, high)).

    Depths are 1, o is c, and the line of the form is that of the window. Parts share groups of rows.
    Spec: ONNX Conv-22 with group = C = M.
    """
    mode = mode_of(True, True, bias, residual, act.low, act.high)
    bands = (g.oh + ROWS - 1) // ROWS
    pixels, stride = form.pixels, form.stride
    count = min(g.ow, pixels)
    far = form.taps <= FAR_TAPS and g.n * (g.ih * g.iw + g.oh * g.ow) * g.c > FAR
    for job in span(g.n * bands, part, parts):
        image, top = job // bands, job % bands * ROWS
        bottom = min(top + ROWS, g.oh)
        for tile in range((g.ow + pixels - 1) // pixels):
            column = max(min(tile * pixels, g.ow - pixels), 0)
            start = column * stride - window.pw
            inside = start >= 0 and count == pixels and start + (pixels - 1) * stride + (form.taps - 1) * form.dilation < g.iw
            for row in range(top, bottom):
                h = row * window.sh - window.ph
                first = (-h + window.dh - 1) // window.dh if h < 0 else 0
                last = (
                    window.kh if h + (window.kh - 1) * window.dh < g.ih else max((g.ih - h + window.dh - 1) // window.dh, first)
                )
                if g.iw == 0:  # what lies outside of a line reads its first column
                    last = first
                at = ((image * g.oh + row) * g.ow + column) * g.c
                a, b = shift(x, (image * g.ih + h + first * window.dh) * g.iw * g.c), shift(w, first * form.taps * g.c)
                seen, out = SeenLines(a, window.dh * g.iw * g.c, last - first, start, g.iw), shift(y, at)
                if far:
                    below = (image * g.ih + h + (window.kh - 1) * window.dh + ROWS * window.sh) * g.iw + max(start, 0)
                    for i in range(window.sh):
                        prefetch_run(shift(x, (below - i * g.iw) * g.c), count * stride * g.c)
                    prefetch_run(shift(out, ROWS * g.ow * g.c), count * g.c)
                end = TileEpilogue(mode, bias, shift(residual, at), act.low, act.high)
                _channels(seen, b, g.c, out, count, inside, end, form)
        if kind != "":
            activate(shift(y, (image * g.oh + top) * g.ow * g.c), 0, 1, (bottom - top) * g.ow * g.c, act.alpha, act.beta, kind)
    return OK


@native(inline=False)
def _channels(seen: SeenLines, w: Ptr, c: int, y: Ptr, count: int, inside: int, end: TileEpilogue, form: DepthwiseForm) -> None:
    """Compute one tile of pixels, all channels: the last ones with some that were computed before, so that they fill the vectors.

    A loop each for tiles inside and at an edge: in one, what both prepare would be prepared for every tile.
    """
    width, i = form.vectors * form.lanes, 0
    if inside and c >= width:
        while i < c:
            i = min(i, c - width)
            own = SeenLines(shift(seen.at, i), seen.step, seen.lines, seen.start, seen.width)
            last = further(end, i, i)
            _tile(own, shift(w, i), c, shift(y, i), count, last, False, form, form.vectors, form.lanes)
            i += width
    elif c >= width:
        while i < c:
            i = min(i, c - width)
            own = SeenLines(shift(seen.at, i), seen.step, seen.lines, seen.start, seen.width)
            last = further(end, i, i)
            _tile(own, shift(w, i), c, shift(y, i), count, last, True, form, form.vectors, form.lanes)
            i += width
    while i < c:
        own = SeenLines(shift(seen.at, i), seen.step, seen.lines, seen.start, seen.width)
        last = further(end, i, i)
        _tile(own, shift(w, i), c, shift(y, i), count, last, True, form, 1, 1)
        i += 1


@emitter(f"void(*F,i64,i64,i64,i64,*F,i64,*F,i64,i64,*F,*F,F,F,static,{','.join(['static'] * 7)},static,static)")
def _tile(
    builder: Any,
    seen: Any,
    w: Any,
    c: Any,
    y: Any,
    count: Any,
    end: Any,
    edge: bool,
    form: DepthwiseForm,
    vectors: int,
    lanes: int,
) -> None:
    """y[p] = sum over lines i and taps j of x[i * line + (start + p * stride + j * dilation) * c] * w[(i * taps + j) * c].

    Some vectors of channels: those of the form, or one channel. At an edge, columns outside of the line count as zeros, and only
    `count` pixels are written.
    """
    x, line, lines, start, iw = seen
    taps, stride, dilation, pixels, held = form.taps, form.stride, form.dilation, form.pixels, form.held
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
    sums = emit.when(
        emit.bit(end.mode, BIAS), sums, lambda s: emit.add_all(s, [emit.load(end.bias, at) for at in parts] * pixels)
    )
    for p in range(pixels):
        own, at = sums[p * vectors : (p + 1) * vectors], emit.mul(c, p)
        if edge:
            with builder.if_then(builder.icmp_signed("<", emit.integer(p), count)):
                _finish(emit, own, at, end, y)
        else:
            _finish(emit, own, at, end, y)


def _meeting(column: int, pixels: int, stride: int, dilation: int) -> list[tuple[int, int]]:
    """Return each (pixel of the tile, tap) that meet in a column."""
    pairs = [(p, divmod(column - p * stride, dilation)) for p in range(pixels)]
    return [(p, tap) for p, (tap, rest) in pairs if rest == 0]


def _finish(emit: Vectors, values: list[Any], at: Any, end: Any, y: Any) -> None:
    """Add the residual to one pixel, clip and store it."""
    offsets = [v * emit.lanes for v in range(len(values))]
    other, limits = emit.move(end.residual, at), (emit.splat(end.low), emit.splat(end.high))
    values = add_and_clip(emit, values, end.mode, limits, lambda: [emit.load(other, k) for k in offsets])
    for value, offset in zip(values, offsets, strict=True):
        emit.store(value, emit.move(y, at), offset)
