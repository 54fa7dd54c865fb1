"""Pointwise and depthwise convolution of images in ONNX's own order (N, C, H, W): each channel is a plane, vectors hold its pixels.

Where images come and go in that order, as at the borders of a model, nothing is transposed for them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, like, native, null, shift
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, cut
from ort_lite_cpu.kernels.gemm.microkernel import (
    ACCUMULATE,
    RESIDUAL,
    SHARES,
    LeftOperand,
    Tile,
    TileEpilogue,
    clip_mode,
    further,
    panel,
    tile,
)
from ort_lite_cpu.kernels.gemm.pack import pack_panel
from ort_lite_cpu.kernels.gemm.plane_rows import PlaneForm, band_of_rows, begin_table
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.square import prefetch_run

BAND = 6144
"""Elements of an input with its padding that are computed from at one place: they stay in the first cache level."""
FEW_GROUPS = 2
"""Groups of rows for each part of a depthwise convolution, below which parts share channels: rows would be shared unevenly."""
APART = (272, 528)
"""Elements from a channel to the next of what a depthwise convolution hands to a product, one of these: an odd number of cache lines,
so that neighbours do not fight for places in a cache."""


class PixelProduct(NamedTuple):
    """Sizes of y (n, m, pixels) = w (m, k + ones) @ x (n, k + ones, pixels), where x has `ones` rows of ones that are not in memory."""

    n: int
    m: int
    k: int
    pixels: int
    ones: int


class PlaneShape(NamedTuple):
    """Shapes of a depthwise convolution from x (n, c, ih, iw) to y (n, c, oh, ow)."""

    n: int
    c: int
    ih: int
    iw: int
    oh: int
    ow: int
    ph: int
    """Rows of padding above x."""
    band: int
    """Rows of y that are computed at one place."""


class SeparableProduct(NamedTuple):
    """The product behind a depthwise convolution: m outputs of clip(y, low, high), with `ones` rows of ones as in PixelProduct.

    rows, vectors and lanes are those of its register tile.
    """

    m: int
    ones: int
    low: float
    high: float
    rows: StaticInt
    vectors: StaticInt
    lanes: StaticInt
    apart: StaticInt
    """Vectors from one channel to the next of what is handed over."""


class Ahead(NamedTuple):
    """Elements that are read next, and fetched meanwhile: `length` of each channel, from `at` on, `step` apart."""

    at: Ptr
    step: int
    channels: int
    length: int


@native
@extents(
    x="g.n * g.k * g.pixels",
    w="g.m * (g.k + g.ones)",
    residual="g.n * g.m * g.pixels",
    y="g.n * g.m * g.pixels",
    scratch="parts * min(DEPTH, g.k + g.ones) * tile.vectors * tile.lanes",
)
def pointwise(
    x: Ptr,
    w: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: PixelProduct,
    act: ActivationParameters,
    kind: Static,
    tile: Tile,
    part: int,
    parts: int,
) -> int:
    """y (n, m, pixels) = kind(clip(w (m, k + ones) @ x (n, k, pixels) + residual, low, high)).

    With `g.ones` 1 there is another row below x, of ones: what w has for it is the bias, since a product with 1 is exact. scratch is
    (parts, min(DEPTH, k + ones), vectors * lanes). Parts share the tiles of all panels, since a small image has few panels.
    Spec: ONNX Conv-22 with a kernel of one element.
    """
    pixels = g.pixels
    width = tile.vectors * tile.lanes
    across, tiles = (pixels + width - 1) // width, (g.m + tile.rows - 1) // tile.rows
    if tiles == 0:
        return OK
    factors = shift(scratch, part * min(DEPTH, g.k + g.ones) * width)
    mode = (0 if null(residual) else RESIDUAL) + clip_mode(act.low, act.high)
    begin, stop = g.n * across * tiles * part // parts, g.n * across * tiles * (part + 1) // parts
    for job in range(begin // tiles, (stop + tiles - 1) // tiles):
        image, j = job // across, job % across * width
        first, last = max(begin - job * tiles, 0), min(stop - job * tiles, tiles)
        count, at = min(width, pixels - j), image * g.m * pixels + j
        source, out = shift(x, image * g.k * pixels + j), shift(y, at)
        end = TileEpilogue(mode, w, shift(residual, at), act.low, act.high)
        _panel_of_pixels(source, w, out, factors, g, count, first, last, end, tile)
        if kind != "":
            rows = min(last * tile.rows, g.m) - first * tile.rows
            activate(shift(out, first * tile.rows * pixels), pixels, rows, count, act.alpha, act.beta, kind)
    return OK


@native(inline=False)
def _panel_of_pixels(
    x: Ptr, w: Ptr, y: Ptr, factors: Ptr, g: PixelProduct, count: int, first: int, last: int, end: TileEpilogue, tile: Tile
) -> None:
    """Tiles first to last of y (m, count) = end(w (m, k + ones) @ x (k, count)), rows of x and y `g.pixels` apart.

    count <= vectors * lanes. x is packed into factors (DEPTH, vectors * lanes). Meanwhile the panel that follows in x and in y is
    fetched, since lines that are pages apart are not foreseen.
    """
    rows, line = tile.rows, g.pixels
    width, total = tile.vectors * tile.lanes, g.k + g.ones
    pieces, size = cut(total, DEPTH)
    tiles = (g.m + rows - 1) // rows
    for piece in range(pieces):
        start = piece * size
        depth = min(size, total - start)
        packed = min(depth, g.k - start)
        source = shift(x, start * line)
        if count == width:
            _pack(source, line, packed, factors, tile.vectors, tile.lanes)
        else:
            pack_panel(source, line, False, count, packed, 1.0, factors, tile.vectors, tile.lanes)
        for i in range(packed * width, depth * width):
            factors[i] = like(x, 1)
        mode = (0 if piece == 0 else ACCUMULATE) + (end.mode if piece == pieces - 1 else 0)
        for number in range(first, last):
            for seen in range(packed * number // tiles, packed * (number + 1) // tiles):
                prefetch_run(shift(source, seen * line + width), width)
            row = number * rows
            for written in range(row, min(row + rows, g.m)):
                prefetch_run(shift(y, written * line + width), width)
            left, c = LeftOperand(shift(w, row * total + start), total, 0, 1), shift(y, row * line)
            own = TileEpilogue(mode, w, shift(end.residual, row * line), end.low, end.high)
            few, f = min(rows, g.m - row), factors
            panel(left, f, f, c, line, few, count, depth, own, tile.rows, tile.vectors, tile.lanes)


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
    x="g.n * g.c * g.ih * g.iw",
    w="g.c * form.lines * form.taps",
    bias="g.c",
    residual="g.n * g.c * g.oh * g.ow",
    y="g.n * g.c * g.oh * g.ow",
    scratch="parts * (3 + ((g.band - 1) * form.down + form.lines) * form.across * (g.ow + (form.taps - 1) // form.across))",
)
def depthwise_planes(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: PlaneShape,
    act: ActivationParameters,
    kind: Static,
    form: PlaneForm,
    part: int,
    parts: int,
) -> int:
    """y (n, c, oh, ow) = kind(clip(conv(x (n, c, ih, iw), w (c, lines, taps)) + bias (c,) + residual, low, high)).

    The padding above, `g.ph`, and in front is not negative; what lies behind is zeros as well; ow >= lanes unless rows
    are masked. `g.band` output rows are computed at one place. Parts share rows of all channels, as those of a product behind it do,
    or channels if there are few rows.
    Spec: ONNX Conv-22 with group = C = M.
    """
    oh, ow, band = g.oh, g.ow, g.band
    seen = ((band - 1) * form.down + form.lines) * form.across * (ow + (form.taps - 1) // form.across)
    table = shift(scratch, part * (3 + seen))
    begin_table(table, act.low, act.high, seen)
    mode = (0 if null(residual) else RESIDUAL) + clip_mode(act.low, act.high)
    groups = max((oh + form.tall - 1) // form.tall, 1)
    by_rows = groups >= FEW_GROUPS * parts
    units = groups if by_rows else max(g.c, 1)
    first, last = g.n * units * part // parts, g.n * units * (part + 1) // parts
    for image in range(first // units, (last + units - 1) // units):
        low, high = max(first - image * units, 0), min(last - image * units, units)
        begin, end = (low * form.tall, min(high * form.tall, oh)) if by_rows else (0, oh)
        channels = (0, g.c) if by_rows else (low, high)
        for plane in range(image * g.c + channels[0], image * g.c + channels[1]):
            channel = plane % g.c
            table[2] = like(x, 0) if null(bias) else bias[channel]
            a, b = shift(x, plane * g.ih * g.iw), shift(w, channel * form.lines * form.taps)
            for top in range(begin, end, band):
                at, count = (plane * oh + top) * ow, min(band, end - top)
                out, other, h = shift(y, at), shift(residual, at), top * form.down - g.ph
                band_of_rows(a, b, table, other, out, h, count, g.ih, g.iw, ow, mode, form, form.behind, form.tall)
            if kind != "":
                activate(shift(y, (plane * oh + begin) * ow), 0, 1, (end - begin) * ow, act.alpha, act.beta, kind)
    return OK


@native
@extents(
    x="g.n * g.c * g.ih * g.iw",
    w="g.c * form.lines * form.taps",
    bias="g.c",
    w2="product.m * (g.c + product.ones)",
    residual="g.n * product.m * g.oh * g.ow",
    y="g.n * product.m * g.oh * g.ow",
    scratch="parts * ((g.c + product.ones) * product.apart * product.lanes"
    " + 3 + ((g.band - 1) * form.down + form.lines) * form.across * (g.ow + (form.taps - 1) // form.across))",
)
def separable(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    w2: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: PlaneShape,
    product: SeparableProduct,
    act: ActivationParameters,
    kind: Static,
    form: PlaneForm,
    part: int,
    parts: int,
) -> int:
    """y (n, m, oh, ow) = `pointwise` of clip(`depthwise_planes`, product.low, product.high).

    `g.band` rows at a time are computed by both, and never leave the caches. Parts share rows.
    """
    c, m, oh, ow, band = g.c, product.m, g.oh, g.ow, g.band
    line = product.apart * product.lanes
    seen = ((band - 1) * form.down + form.lines) * form.across * (ow + (form.taps - 1) // form.across)
    pixels, k = oh * ow, c + product.ones
    between = shift(scratch, part * k * line)
    table = shift(scratch, parts * k * line + part * (3 + seen))
    begin_table(table, product.low, product.high, seen)
    for i in range(c * line, k * line):
        between[i] = like(x, 1)
    mode1 = clip_mode(product.low, product.high)
    mode = (0 if null(residual) else RESIDUAL) + clip_mode(act.low, act.high)
    groups = max((oh + form.tall - 1) // form.tall, 1)
    first, last = g.n * groups * part // parts, g.n * groups * (part + 1) // parts
    for image in range(first // groups, (last + groups - 1) // groups):
        begin = max(first - image * groups, 0) * form.tall
        end = min(min(last - image * groups, groups) * form.tall, oh)
        for top in range(begin, end, band):
            count, at = min(band, end - top), image * m * pixels + top * ow
            out = shift(y, at)
            for channel in range(c):
                table[2] = like(x, 0) if null(bias) else bias[channel]
                a, b = shift(x, (image * c + channel) * g.ih * g.iw), shift(w, channel * form.lines * form.taps)
                for row in range(channel * m // c, (channel + 1) * m // c):
                    prefetch_run(shift(out, row * pixels), count * ow)
                f, h = shift(between, channel * line), top * form.down - g.ph
                band_of_rows(a, b, table, f, f, h, count, g.ih, g.iw, ow, mode1, form, form.behind, form.tall)
            soon = shift(x, (image * c * g.ih + (top + count) * form.down + form.lines - 1 - g.ph) * g.iw)
            ahead = Ahead(soon, g.ih * g.iw, c, band * form.down * g.iw)
            last_steps = TileEpilogue(mode, w2, shift(residual, at), act.low, act.high)
            _product(between, w2, out, pixels, m, k, count * ow, last_steps, ahead, product)
            if kind != "":
                activate(out, pixels, m, count * ow, act.alpha, act.beta, kind)
    return OK


@native(inline=False)
def _product(
    x: Ptr,
    w: Ptr,
    y: Ptr,
    ldy: int,
    m: int,
    k: int,
    count: int,
    end: TileEpilogue,
    ahead: Ahead,
    product: SeparableProduct,
) -> None:
    """y (m, count) = end(w (m, k) @ x (k, count)), rows of y `ldy` apart and of x `apart * lanes`.

    Meanwhile what is read next is fetched, since lines that are pages apart are not foreseen.
    """
    rows, width = product.rows, product.vectors * product.lanes
    tiles = (m + rows - 1) // rows
    calls, call = tiles * ((count + width - 1) // width), 0
    for j in range(0, count, width):
        for number in range(tiles):
            for channel in range(ahead.channels * call // calls, ahead.channels * (call + 1) // calls):
                prefetch_run(shift(ahead.at, channel * ahead.step), ahead.length)
            call += 1
            row = number * rows
            a, b, c = shift(w, row * k), shift(x, j), shift(y, row * ldy + j)
            own = further(end, 0, row * ldy + j)
            _tiles(
                a, b, c, ldy, min(rows, m - row), count - j, k, own, product.rows, product.vectors, product.apart, product.lanes
            )


@native
def _tiles(
    a: Ptr,
    b: Ptr,
    c: Ptr,
    ldc: int,
    m: int,
    n: int,
    k: int,
    end: TileEpilogue,
    rows: Static,
    vectors: Static,
    apart: Static,
    lanes: Static,
) -> None:
    """c (m, n) = end(a (m, k) @ b (k, n)), up to `rows` rows and vectors * lanes columns; rows of b are apart * lanes apart."""
    i = 0
    if m == rows:
        left = LeftOperand(a, k, 0, 1)
        if vectors > 3 and n <= 2 * lanes:
            tile(left, b, b, c, ldc, n, k, end, rows, 2, apart, lanes, SHARES)
        else:
            tile(left, b, b, c, ldc, n, k, end, rows, vectors, apart, lanes, SHARES)
        i = rows
    while i < m:
        left, y = LeftOperand(shift(a, i * k), k, 0, 1), shift(c, i * ldc)
        own = further(end, 0, i * ldc)
        if rows > 4 and m - i >= 4:
            tile(left, b, b, y, ldc, n, k, own, 4, vectors, apart, lanes, SHARES)
            i += 4
        else:
            tile(left, b, b, y, ldc, n, k, own, 1, vectors, apart, lanes, SHARES)
            i += 1
