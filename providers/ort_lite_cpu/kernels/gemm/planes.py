"""Pointwise and depthwise convolution of images in ONNX's own order (N, C, H, W): each channel is a plane, vectors hold its pixels.

Where images come and go in that order, as at the borders of a model, nothing is transposed for them.
"""

import math
from collections.abc import Sequence
from typing import Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, like, native, null, shift, span
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, cut
from ort_lite_cpu.kernels.gemm.microkernel import ACCUMULATE, CLIP, RESIDUAL, SHARES, LeftOperand, TileEpilogue, panel, tile
from ort_lite_cpu.kernels.gemm.pack import pack_panel
from ort_lite_cpu.kernels.gemm.plane_rows import ROWS, band_of_rows, begin_table
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.square import prefetch_second

BAND = 6144
"""Elements of an input with its padding that are computed from at one place: they stay in the first cache level."""
APART = (272, 528)
"""Elements from a channel to the next of what a depthwise convolution hands to a product, one of these: an odd number of cache lines,
so that neighbours do not fight for places in a cache."""


@native
@extents(
    x="n * k * pixels",
    w="m * (k + ones)",
    residual="n * m * pixels",
    y="n * m * pixels",
    scratch="parts * min(DEPTH, k + ones) * vectors * lanes",
)
def pointwise(
    x: Ptr,
    w: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    n: int,
    m: int,
    k: int,
    pixels: int,
    ones: int,
    act: ActivationParameters,
    kind: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, m, pixels) = kind(clip(w (m, k + ones) @ x (n, k, pixels) + residual, low, high)).

    With `ones` 1 there is another row below x, of ones: what w has for it is the bias, since a product with 1 is exact. scratch (parts,
    min(DEPTH, k + ones), vectors * lanes). Parts share panels of pixels. Spec: ONNX Conv-22 with a kernel of one element.
    """
    width = vectors * lanes
    across = (pixels + width - 1) // width
    factors = shift(scratch, part * min(DEPTH, k + ones) * width)
    mode = (0 if null(residual) else RESIDUAL) + (CLIP if act.low > -math.inf or act.high < math.inf else 0)
    for job in span(n * across, part, parts):
        image, j = job // across, job % across * width
        count, at = min(width, pixels - j), image * m * pixels + j
        source, other, out = shift(x, image * k * pixels + j), shift(residual, at), shift(y, at)
        _panel_of_pixels(
            source, pixels, w, other, out, pixels, factors, m, k, ones, count, mode, act.low, act.high, rows, vectors, lanes
        )
        if kind != "":
            activate(out, pixels, m, count, act.alpha, act.beta, kind)
    return OK


@native(inline=False)
def _panel_of_pixels(
    x: Ptr,
    ldx: int,
    w: Ptr,
    residual: Ptr,
    y: Ptr,
    ldy: int,
    factors: Ptr,
    m: int,
    k: int,
    ones: int,
    count: int,
    final: int,
    low: float,
    high: float,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """y (m, count) = w (m, k + ones) @ x (k, count), of rows ldy and ldx apart; count <= vectors * lanes; `final` as a tile's mode.

    x is packed into factors (DEPTH, vectors * lanes). Meanwhile the panel that follows in x and in y is fetched, since lines that are
    pages apart are not foreseen.
    """
    width, total = vectors * lanes, k + ones
    pieces, size = cut(total, DEPTH)
    tiles = (m + rows - 1) // rows
    for piece in range(pieces):
        start = piece * size
        depth = min(size, total - start)
        packed = min(depth, k - start)
        source = shift(x, start * ldx)
        if count == width:
            _pack(source, ldx, packed, factors, vectors, lanes)
        else:
            pack_panel(source, ldx, False, count, packed, 1.0, factors, vectors, lanes)
        for i in range(packed * width, depth * width):
            factors[i] = like(x, 1)
        mode = (0 if piece == 0 else ACCUMULATE) + (final if piece == pieces - 1 else 0)
        for number in range(tiles):
            for line in range(packed * number // tiles, packed * (number + 1) // tiles):
                for i in range(width, 2 * width, 16):
                    prefetch_second(shift(source, line * ldx + i))
            row = number * rows
            for line in range(row, min(row + rows, m)):
                for i in range(width, 2 * width, 16):
                    prefetch_second(shift(y, line * ldy + i))
            a, c, other = shift(w, row * total + start), shift(y, row * ldy), shift(residual, row * ldy)
            few, f = min(rows, m - row), factors
            panel(
                LeftOperand(a, total, 0, 1),
                f,
                f,
                c,
                ldy,
                few,
                count,
                depth,
                TileEpilogue(mode, w, other, low, high),
                rows,
                vectors,
                lanes,
            )


@emitter("void(*F,i64,i64,*F,static,static)")
def _pack(builder: Any, x: Any, ldx: Any, k: Any, y: Any, vectors: int, lanes: int) -> None:
    """y (k, vectors * lanes) = x (k, vectors * lanes), of rows ldx apart."""
    emit = Vectors(builder, x.type.pointee, lanes)

    def along(row: Any, _: Sequence[Any]) -> list[Any]:
        source, target = emit.move(x, builder.mul(row, ldx)), emit.move(y, emit.mul(row, vectors * lanes))
        values = [emit.load(source, v * lanes) for v in range(vectors)]
        for v, value in enumerate(values):
            emit.store(value, target, v * lanes)
        return []

    emit.loop(emit.integer(0), k, 1, [], along)


@native
@extents(
    x="n * c * ih * iw",
    w="c * lines * taps",
    bias="c",
    residual="n * c * oh * ow",
    y="n * c * oh * ow",
    scratch="parts * (3 + ((band - 1) * down + lines) * across * (ow + (taps - 1) // across))",
)
def depthwise_planes(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    n: int,
    c: int,
    ih: int,
    iw: int,
    oh: int,
    ow: int,
    ph: int,
    band: int,
    act: ActivationParameters,
    kind: Static,
    lines: Static,
    taps: Static,
    down: Static,
    across: Static,
    front: Static,
    behind: Static,
    held: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, c, oh, ow) = kind(clip(conv(x (n, c, ih, iw), w (c, lines, taps)) + bias (c,) + residual, low, high)).

    Strides are down and across; ph, front >= 0 pad in front, what lies behind is zeros as well; ow >= lanes. `band` output rows
    are computed from a copy of the input rows that they see. Parts share rows of all channels, as those of a product behind it do.
    Spec: ONNX Conv-22 with group = C = M.
    """
    seen = ((band - 1) * down + lines) * across * (ow + (taps - 1) // across)
    table = shift(scratch, part * (3 + seen))
    begin_table(table, act.low, act.high, seen)
    mode = (0 if null(residual) else RESIDUAL) + (CLIP if act.low > -math.inf or act.high < math.inf else 0)
    groups = max((oh + ROWS - 1) // ROWS, 1)
    first, last = n * groups * part // parts, n * groups * (part + 1) // parts
    for image in range(first // groups, (last + groups - 1) // groups):
        begin, end = max(first - image * groups, 0) * ROWS, min(min(last - image * groups, groups) * ROWS, oh)
        for plane in range(image * c, image * c + c):
            channel = plane % c
            table[2] = like(x, 0) if null(bias) else bias[channel]
            a, b = shift(x, plane * ih * iw), shift(w, channel * lines * taps)
            for top in range(begin, end, band):
                at, count = (plane * oh + top) * ow, min(band, end - top)
                out, other = shift(y, at), shift(residual, at)
                h = top * down - ph
                band_of_rows(
                    a, b, table, other, out, h, count, ih, iw, ow, mode, lines, taps, down, across, front, behind, held, lanes
                )
            if kind != "":
                activate(shift(y, (plane * oh + begin) * ow), 0, 1, (end - begin) * ow, act.alpha, act.beta, kind)
    return OK


@native
@extents(
    x="n * c * ih * iw",
    w="c * lines * taps",
    bias="c",
    w2="m * (c + ones)",
    residual="n * m * oh * ow",
    y="n * m * oh * ow",
    scratch="parts * ((c + ones) * apart * lanes + 3 + ((band - 1) * down + lines) * across * (ow + (taps - 1) // across))",
)
def separable(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    w2: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    n: int,
    c: int,
    ih: int,
    iw: int,
    m: int,
    oh: int,
    ow: int,
    ph: int,
    band: int,
    ones: int,
    low1: float,
    high1: float,
    act: ActivationParameters,
    kind: Static,
    lines: Static,
    taps: Static,
    down: Static,
    across: Static,
    front: Static,
    behind: Static,
    held: Static,
    narrow: Static,
    rows: Static,
    vectors: Static,
    apart: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """`pointwise` of clip(`depthwise_planes`, low1, high1), of which `band` rows at a time are made, and never leave the caches.

    narrow: lanes of the depthwise part; others as there. band * ow <= apart * lanes. Parts share rows.
    """
    seen, pixels, k = ((band - 1) * down + lines) * across * (ow + (taps - 1) // across), oh * ow, c + ones
    between = shift(scratch, part * k * apart * lanes)
    table = shift(scratch, parts * k * apart * lanes + part * (3 + seen))
    begin_table(table, low1, high1, seen)
    for i in range(c * apart * lanes, k * apart * lanes):
        between[i] = like(x, 1)
    mode1 = CLIP if low1 > -math.inf or high1 < math.inf else 0
    mode = (0 if null(residual) else RESIDUAL) + (CLIP if act.low > -math.inf or act.high < math.inf else 0)
    groups = max((oh + ROWS - 1) // ROWS, 1)
    first, last = n * groups * part // parts, n * groups * (part + 1) // parts
    for image in range(first // groups, (last + groups - 1) // groups):
        begin, end = max(first - image * groups, 0) * ROWS, min(min(last - image * groups, groups) * ROWS, oh)
        for top in range(begin, end, band):
            count, at = min(band, end - top), image * m * pixels + top * ow
            out, other = shift(y, at), shift(residual, at)
            for channel in range(c):
                table[2] = like(x, 0) if null(bias) else bias[channel]
                a, b = shift(x, (image * c + channel) * ih * iw), shift(w, channel * lines * taps)
                for row in range(channel * m // c, (channel + 1) * m // c):
                    for i in range(0, count * ow, 16):
                        prefetch_second(shift(out, row * pixels + i))
                f, h = shift(between, channel * apart * lanes), top * down - ph
                band_of_rows(
                    a, b, table, f, f, h, count, ih, iw, ow, mode1, lines, taps, down, across, front, behind, held, narrow
                )
            soon = shift(x, (image * c * ih + (top + count) * down + lines - 1 - ph) * iw)
            some, step, many = count * ow, ih * iw, band * down * iw
            _product(
                between,
                w2,
                other,
                out,
                pixels,
                m,
                k,
                some,
                mode,
                soon,
                step,
                c,
                many,
                act.low,
                act.high,
                rows,
                vectors,
                apart,
                lanes,
            )
            if kind != "":
                activate(out, pixels, m, count * ow, act.alpha, act.beta, kind)
    return OK


@native(inline=False)
def _product(
    x: Ptr,
    w: Ptr,
    residual: Ptr,
    y: Ptr,
    ldy: int,
    m: int,
    k: int,
    count: int,
    mode: int,
    ahead: Ptr,
    step: int,
    channels: int,
    length: int,
    low: float,
    high: float,
    rows: Static,
    vectors: Static,
    apart: Static,
    lanes: Static,
) -> None:
    """y (m, count) = w (m, k) @ x (k, count), of rows ldy and apart * lanes apart.

    Meanwhile what is read next is fetched, since lines that are pages apart are not foreseen: of each channel `length` elements,
    `step` apart from `ahead` on.
    """
    width = vectors * lanes
    tiles = (m + rows - 1) // rows
    calls, call = tiles * ((count + width - 1) // width), 0
    for j in range(0, count, width):
        for number in range(tiles):
            for channel in range(channels * call // calls, channels * (call + 1) // calls):
                for i in range(0, length, 16):
                    prefetch_second(shift(ahead, channel * step + i))
            call += 1
            row = number * rows
            a, b, c, other = shift(w, row * k), shift(x, j), shift(y, row * ldy + j), shift(residual, row * ldy + j)
            _tiles(a, b, c, ldy, min(rows, m - row), count - j, k, mode, other, low, high, rows, vectors, apart, lanes)


@native
def _tiles(
    a: Ptr,
    b: Ptr,
    c: Ptr,
    ldc: int,
    m: int,
    n: int,
    k: int,
    mode: int,
    residual: Ptr,
    low: float,
    high: float,
    rows: Static,
    vectors: Static,
    apart: Static,
    lanes: Static,
) -> None:
    """Up to `rows` rows and vectors * lanes columns: as `microkernel.panel`, of a right operand whose rows are apart * lanes apart."""
    i = 0
    if m == rows:
        if vectors > 3 and n <= 2 * lanes:
            tile(
                LeftOperand(a, k, 0, 1),
                b,
                b,
                c,
                ldc,
                n,
                k,
                TileEpilogue(mode, a, residual, low, high),
                rows,
                2,
                apart,
                lanes,
                SHARES,
            )
        else:
            tile(
                LeftOperand(a, k, 0, 1),
                b,
                b,
                c,
                ldc,
                n,
                k,
                TileEpilogue(mode, a, residual, low, high),
                rows,
                vectors,
                apart,
                lanes,
                SHARES,
            )
        i = rows
    while i < m:
        x, y, other = shift(a, i * k), shift(c, i * ldc), shift(residual, i * ldc)
        if rows > 4 and m - i >= 4:
            tile(
                LeftOperand(x, k, 0, 1),
                b,
                b,
                y,
                ldc,
                n,
                k,
                TileEpilogue(mode, x, other, low, high),
                4,
                vectors,
                apart,
                lanes,
                SHARES,
            )
            i += 4
        else:
            tile(
                LeftOperand(x, k, 0, 1),
                b,
                b,
                y,
                ldc,
                n,
                k,
                TileEpilogue(mode, x, other, low, high),
                1,
                vectors,
                apart,
                lanes,
                SHARES,
            )
            i += 1
