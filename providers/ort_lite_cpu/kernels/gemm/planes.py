"""Pointwise and depthwise convolution of images in ONNX's own order (N, C, H, W): each channel is a plane, vectors hold its pixels.

Where images come and go in that order, as at the borders of a model, nothing is transposed for them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitted, like, native, null, shift, span
from ort_lite_cpu.kernels.gemm.activation import activate
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, cut
from ort_lite_cpu.kernels.gemm.microkernel import ACCUMULATE, CLIP, RESIDUAL, SHARES, panel, tile
from ort_lite_cpu.kernels.gemm.pack import pack_panel
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.square import prefetch_second

ROWS = 4
"""Output rows of a register tile: what they share of the input is loaded once."""
BAND = 6144
"""Elements of an input with its padding that are computed from at one place: they stay in the first cache level."""
MAX_TAPS = 49
"""Kernels up to this size are unrolled."""
MAX_STRIDE = 2
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
    low: float,
    high: float,
    alpha: float,
    beta: float,
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
    mode = (0 if null(residual) else RESIDUAL) + (CLIP if low > -math.inf or high < math.inf else 0)
    for job in span(n * across, part, parts):
        image, j = job // across, job % across * width
        count, at = min(width, pixels - j), image * m * pixels + j
        source, other, out = shift(x, image * k * pixels + j), shift(residual, at), shift(y, at)
        _panel_of_pixels(
            source, pixels, w, other, out, pixels, factors, m, k, ones, count, mode, low, high, rows, vectors, lanes
        )
        if kind != "":
            activate(out, pixels, m, count, alpha, beta, kind)
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
            panel(a, total, 0, 1, f, f, c, ldy, few, count, depth, mode, w, other, low, high, rows, vectors, lanes)


@emitted("void(*F,i64,i64,*F,static,static)")
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


def held(target: Target, taps: int) -> bool:
    """Whether there are registers for all weights of a channel beside sums and inputs; else they are read when used.

    A multiplication that is not fused needs some for its results; AArch64 loads several inputs at once.
    """
    spare = 1 if target.has_fma and target.architecture == "x86_64" else 4
    return taps + ROWS + spare <= target.vector_registers


def fits_in_place(width: int, lanes: int, taps: int, front: int, behind: int) -> bool:
    """Whether rows of `width` results are computed from the image itself, with so many columns of zeros around it: a vector sees
    those of one side at most, and no more than it has lanes.
    """
    if not (0 <= front < lanes and 0 <= behind < lanes):
        return False
    return width >= lanes + front + behind or (width == lanes and front + behind < taps)


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
    low: float,
    high: float,
    alpha: float,
    beta: float,
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
    copied = shift(table, 3)
    table[0], table[1] = like(x, low), like(x, high)
    for i in range(seen):
        copied[i] = like(x, 0)
    mode = (0 if null(residual) else RESIDUAL) + (CLIP if low > -math.inf or high < math.inf else 0)
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
                _band(
                    a, b, table, other, out, h, count, ih, iw, ow, mode, lines, taps, down, across, front, behind, held, lanes
                )
            if kind != "":
                activate(shift(y, (plane * oh + begin) * ow), 0, 1, (end - begin) * ow, alpha, beta, kind)
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
    low: float,
    high: float,
    alpha: float,
    beta: float,
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
    copied = shift(table, 3)
    table[0], table[1] = like(x, low1), like(x, high1)
    for i in range(seen):
        copied[i] = like(x, 0)
    for i in range(c * apart * lanes, k * apart * lanes):
        between[i] = like(x, 1)
    mode1 = CLIP if low1 > -math.inf or high1 < math.inf else 0
    mode = (0 if null(residual) else RESIDUAL) + (CLIP if low > -math.inf or high < math.inf else 0)
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
                _band(a, b, table, f, f, h, count, ih, iw, ow, mode1, lines, taps, down, across, front, behind, held, narrow)
            soon = shift(x, (image * c * ih + (top + count) * down + lines - 1 - ph) * iw)
            some, step, many = count * ow, ih * iw, band * down * iw
            _product(
                between, w2, other, out, pixels, m, k, some, mode, soon, step, c, many, low, high, rows, vectors, apart, lanes
            )
            if kind != "":
                activate(out, pixels, m, count * ow, alpha, beta, kind)
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
            tile(a, k, 0, 1, b, b, c, ldc, n, k, mode, a, residual, low, high, rows, 2, apart, lanes, SHARES)
        else:
            tile(a, k, 0, 1, b, b, c, ldc, n, k, mode, a, residual, low, high, rows, vectors, apart, lanes, SHARES)
        i = rows
    while i < m:
        x, y, other = shift(a, i * k), shift(c, i * ldc), shift(residual, i * ldc)
        if rows > 4 and m - i >= 4:
            tile(x, k, 0, 1, b, b, y, ldc, n, k, mode, x, other, low, high, 4, vectors, apart, lanes, SHARES)
            i += 4
        else:
            tile(x, k, 0, 1, b, b, y, ldc, n, k, mode, x, other, low, high, 1, vectors, apart, lanes, SHARES)
            i += 1


@native
def _band(
    x: Ptr,
    w: Ptr,
    table: Ptr,
    residual: Ptr,
    y: Ptr,
    top: int,
    count: int,
    ih: int,
    iw: int,
    ow: int,
    mode: int,
    lines: Static,
    taps: Static,
    down: Static,
    across: Static,
    front: Static,
    behind: Static,
    held: Static,
    lanes: Static,
) -> None:
    """y (count, ow), some rows of a plane; they see x (ih, iw) from its row `top` on, which may lie in front of it.

    table: lower limit, upper limit, bias, and behind them zeros as `_pad` leaves them. The three are read whenever they are used,
    which leaves their registers to sums and weights.
    front: columns of zeros before the image; behind: those after it, -1 where rows are computed from a copy with padding.
    """
    copied, pitch, row = shift(table, 3), ow + (taps - 1) // across, 0
    if behind < 0:
        _pad(x, copied, top, (count - 1) * down + lines, ih, iw, front, pitch, across, lanes)
    while row < count:
        a, h, many = shift(copied, row * down * pitch * across), top + row * down, count - row >= ROWS
        out, other = shift(y, row * ow), shift(residual, row * ow)
        if behind >= 0 and many:
            _rows_in_place(
                x, copied, h, ih, iw, w, table, other, out, ow, mode, ROWS, lines, taps, down, front, behind, held, lanes
            )
        elif behind >= 0:
            _rows_in_place(
                x, copied, h, ih, iw, w, table, other, out, ow, mode, 1, lines, taps, down, front, behind, held, lanes
            )
        elif many:
            _padded_rows(a, pitch, w, table, other, out, ow, mode, ROWS, lines, taps, down, across, held, lanes)
        else:
            _padded_rows(a, pitch, w, table, other, out, ow, mode, 1, lines, taps, down, across, held, lanes)
        row += ROWS if many else 1


@native
def _pad(x: Ptr, y: Ptr, top: int, rows: int, ih: int, iw: int, pw: int, pitch: int, across: Static, lanes: Static) -> None:
    """y (rows, across, pitch): rows `top` and following of x (ih, iw), each with pw zeros in front and zeros behind, which are there.

    Column i of a padded row is number i // across of run i % across, so that what a tap sees of a row is one run of memory.
    """
    for row in range(rows):
        h = top + row
        for run in range(across):
            at = (row * across + run) * pitch
            first = min((pw - run + across - 1) // across, pitch)
            last = max(min((iw + pw - run + across - 1) // across, pitch), first)
            if h < 0 or h >= ih:
                for i in range(pitch):
                    y[at + i] = like(y, 0)
            else:
                source, target, count = shift(x, h * iw + first * across + run - pw), shift(y, at + first), last - first
                if count >= lanes:
                    _copy(source, target, count, across, lanes)
                else:
                    for i in range(count):
                        target[i] = source[i * across]


@emitted("void(*F,*F,i64,static,static)")
def _copy(builder: Any, x: Any, y: Any, count: Any, step: int, lanes: int) -> None:
    """y[i] = x[i * step], a step of 1 or 2, for a count of lanes at least: the last vector overlaps. Nothing behind it is read."""
    emit = Vectors(builder, x.type.pointee, lanes)
    end = builder.sub(count, emit.integer(lanes))
    word = emit.ir.VectorType(emit.ir.IntType(32), lanes)
    even = emit.ir.Constant(word, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)])

    def along(position: Any, _: Sequence[Any]) -> list[Any]:
        at = builder.select(builder.icmp_signed("<", end, position), end, position)
        source = emit.move(x, emit.mul(at, step))
        value = emit.load(source, 0)
        if step == 2:
            value = builder.shuffle_vector(value, emit.load(source, lanes - 1), even)
        emit.store(value, emit.move(y, at), 0)
        return []

    emit.loop(emit.integer(0), builder.add(count, emit.integer(lanes - 1)), lanes, [], along)


@emitted("void(*F,i64,*F,*F,*F,*F,i64,i64,static,static,static,static,static,static,static)")
def _padded_rows(
    builder: Any,
    x: Any,
    pitch: Any,
    w: Any,
    table: Any,
    residual: Any,
    y: Any,
    ow: Any,
    mode: Any,
    rows: int,
    lines: int,
    taps: int,
    down: int,
    across: int,
    held: bool,
    lanes: int,
) -> None:
    """y (rows, ow) of one plane from x ((rows - 1) * down + lines, across, pitch), as `_pad` leaves it.

    The last vector of a row ends with it, and computes again what the one before has too.
    """
    tile = _Rows(Vectors(builder, x.type.pointee, lanes), w, table, residual, y, ow, mode, rows, lines, taps, down, held)
    emit, end = tile.emit, builder.sub(ow, tile.emit.integer(lanes))

    def along(position: Any, _: Sequence[Any]) -> list[Any]:
        at = builder.select(builder.icmp_signed("<", end, position), end, position)

        def source(line: int) -> Any:
            return emit.move(x, builder.add(emit.mul(pitch, line * across), at))

        def load(pointer: Any, tap: int) -> Any:
            return emit.load(emit.move(pointer, emit.mul(pitch, tap % across)), tap // across)

        tile.compute(at, source, load)
        return []

    emit.loop(emit.integer(0), builder.add(ow, emit.integer(lanes - 1)), lanes, [], along)


@emitted("void(*F,*F,i64,i64,i64,*F,*F,*F,*F,i64,i64,static,static,static,static,static,static,static,static)")
def _rows_in_place(
    builder: Any,
    x: Any,
    zeros: Any,
    top: Any,
    ih: Any,
    iw: Any,
    w: Any,
    table: Any,
    residual: Any,
    y: Any,
    ow: Any,
    mode: Any,
    rows: int,
    lines: int,
    taps: int,
    down: int,
    front: int,
    behind: int,
    held: bool,
    lanes: int,
) -> None:
    """y (rows, ow) of one plane, whose first row sees rows `top` and following of x (ih, iw), with a stride of 1 along them.

    `front` and `behind` are the columns of zeros on both sides, zeros (iw,) is a row outside. The first and the last vector of a row
    see them: what they read is moved by so many lanes. Vectors between them overlap where they have to. ow is lanes, or
    lanes + front + behind at least.
    """
    tile = _Rows(Vectors(builder, x.type.pointee, lanes), w, table, residual, y, ow, mode, rows, lines, taps, down, held)
    emit = tile.emit
    sources = []
    for line in range((rows - 1) * down + lines):
        h = builder.add(top, emit.integer(line))
        inside = builder.icmp_unsigned("<", h, ih)
        sources.append(builder.select(inside, emit.move(x, builder.mul(h, iw)), zeros))

    def compute(at: Any, first: bool, last: bool) -> None:
        def load(pointer: Any, tap: int) -> Any:
            before, over = front - tap, behind - (taps - 1 - tap)
            if first and before > 0:
                return _moved(emit, emit.load(pointer, 0), -before)
            if last and over > 0:
                return _moved(emit, emit.load(emit.move(pointer, builder.sub(iw, emit.integer(lanes))), 0), over)
            return emit.load(emit.move(pointer, at), tap - front)

        tile.compute(at, lambda line: sources[line], load)

    end = builder.sub(ow, emit.integer(lanes))
    with builder.if_else(builder.icmp_signed("==", end, emit.integer(0))) as (single, several):
        with single:
            compute(emit.integer(0), True, True)
        with several:
            compute(emit.integer(0), True, False)
            limit = builder.sub(end, emit.integer(behind))

            def along(position: Any, _: Sequence[Any]) -> list[Any]:
                at = builder.select(builder.icmp_signed("<", limit, position), limit, position)
                compute(at, False, False)
                return []

            emit.loop(emit.integer(lanes), builder.add(end, emit.integer(lanes - 1)), lanes, [], along)
            compute(end, False, True)


def _moved(emit: Vectors, value: Any, count: int) -> Any:
    """Lane i is lane i + count of the value, zero where it has none."""
    places = [i + count if 0 <= i + count < emit.lanes else emit.lanes + i for i in range(emit.lanes)]
    order = emit.ir.Constant(emit.ir.VectorType(emit.ir.IntType(32), emit.lanes), places)
    return emit.builder.shuffle_vector(value, emit.zero, order)


class _Rows:
    """The register tile: a vector of pixels of some output rows. What they share of the input is loaded once.

    Each line is read after the products of the line before: left free, schedulers read ahead until no register is left.
    """

    def __init__(
        self,
        emit: Vectors,
        w: Any,
        table: Any,
        residual: Any,
        y: Any,
        ow: Any,
        mode: Any,
        rows: int,
        lines: int,
        taps: int,
        down: int,
        held: bool,
    ) -> None:
        self.emit, self.w, self.table, self.residual, self.y, self.ow, self.mode = emit, w, table, residual, y, ow, mode
        self.rows, self.lines, self.taps, self.down = rows, lines, taps, down
        self.weights = [self._read(w, tap) for tap in range(lines * taps)] if held else []

    def _read(self, pointer: Any, number: int) -> Any:
        return self.emit.splat(self.emit.builder.load(self.emit.move(pointer, self.emit.integer(number))))

    def compute(self, at: Any, source: Callable[[int], Any], load: Callable[[Any, int], Any]) -> None:
        """Emits the sums of columns at..at + lanes; load(source(line), tap) is the vector that they see there."""
        emit, sums, factors = self.emit, [self._read(self.table, 2)] * self.rows, self.w
        for line in range((self.rows - 1) * self.down + self.lines):
            seeing = [row for row in range(self.rows) if 0 <= line - row * self.down < self.lines]
            pointer = emit.after(source(line), *sums) if line else source(line)
            for tap in range(self.taps if seeing else 0):
                value = load(pointer, tap)
                for row in seeing:
                    number = (line - row * self.down) * self.taps + tap
                    if not self.weights:
                        factors = emit.after(factors, *sums)
                    weight = self.weights[number] if self.weights else self._read(factors, number)
                    sums[row] = emit.fma(value, weight, sums[row])
        self._finish(at, sums)

    def _finish(self, at: Any, sums: list[Any]) -> None:
        """Residual, limits and store."""
        emit = self.emit
        places = [emit.builder.add(emit.mul(self.ow, row), at) for row in range(self.rows)]
        others = [emit.move(self.residual, place) for place in places]
        limits = [self._read(self.table, number) for number in range(2)]
        sums = emit.when(emit.bit(self.mode, RESIDUAL), sums, lambda v: emit.add_all(v, [emit.load(x, 0) for x in others]))
        sums = emit.when(emit.bit(self.mode, CLIP), sums, lambda v: [emit.clip(value, *limits) for value in v])
        for value, place in zip(sums, places, strict=True):
            emit.store(value, emit.move(self.y, place), 0)
