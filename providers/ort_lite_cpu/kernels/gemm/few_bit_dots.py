"""Products with weights of 2, 4 or 8 bits in integers: activations become 8 bits wide, block by block of k.

A block of a row has the scale max|a| / 127, and q = round(a / scale). The product is the sum over blocks of

    scale of a * scale of b * (sum of q * code - zero * sum of q)

The sums in the parentheses are exact integers. The codes are those of `codes.words`, still packed. With f = 8 / bits fields to a byte,
field s of the four bytes of a word holds the codes of k = s, s + f, s + 2 f and s + 3 f. So q is stored in that order within a word.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, like, native, null, shift, span
from ort_lite_cpu.kernels.gemm.byte_dots import NEEDS, ByteDots
from ort_lite_cpu.kernels.gemm.codes import WORD, BlockedProduct, Codes, WeightPanel, weight_panel
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.microkernel import Rows, tile_for

CHUNK = 16
"""The activations that are quantized at once; blocks are multiples of it."""
LEAST = 1e-36
"""The largest magnitude of a block that is quantized to zeros: 127 / LEAST is finite."""


class DotForm(NamedTuple):
    """The form of weights in memory, and of the register tile."""

    bits: StaticInt
    """2, 4 or 8."""
    given: StaticInt
    """1: there are zero points; 0: they are the middle, 2 ** (bits - 1)."""
    flip: StaticInt
    """128 if the codes are multiplied as signed bytes, with their highest bits flipped; 0 if they are unsigned or below 128."""


class CodeTile(NamedTuple):
    """The shape of the register tile, rows x two vectors, and of panels, vectors * lanes columns."""

    rows: StaticInt
    few: StaticInt
    """The rows of the tile for the last rows."""
    vectors: StaticInt
    lanes: StaticInt


class Activations(NamedTuple):
    """Rows from `quantize_blocks`: q (m, blocks * size), and for each block of a row its scale and a multiple of its sum."""

    q: Ptr
    scales: Ptr
    sums: Ptr


def dot_form(target: Target, bits: int, given: bool) -> DotForm:
    """Return the form for a target with products of bytes. AArch64 multiplies signed ones."""
    return DotForm(bits, int(given), 128 if bits == 8 and not target.has_vnni else 0)


def code_tile(target: Target) -> CodeTile:
    """Return the tile: panels as wide as those of float32, and as many rows as have integer and float sums of two vectors."""
    _, vectors, lanes = tile_for("f32", target)
    return CodeTile(6, 3, vectors, lanes) if target.vector_registers == 32 else CodeTile(3, 2, vectors, lanes)


@native
@extents(
    a="g.m * g.k",
    q="g.m * g.blocks * g.size",
    scales="g.m * g.blocks",
    sums="g.m * g.blocks",
    scratch="parts * g.size",
)
def quantize_blocks(
    a: Ptr, q: Ptr, scales: Ptr, sums: Ptr, scratch: Ptr, g: BlockedProduct, factor: int, bits: Static, part: int, parts: int
) -> int:
    """q (m, blocks * size) = round(a (m, k) / scales), and sums = factor * sum of q, for each block; scratch (parts, size).

    Blocks are padded with zeros. The scale of a block with NaN or infinity is NaN.
    """
    own = shift(scratch, part * g.size)
    for number in span(g.m * g.blocks, part, parts):
        row, start = number // g.blocks, number % g.blocks * g.size
        source, count = shift(a, row * g.k + start), min(g.size, g.k - start)
        target, scale, total = shift(q, number * g.size), shift(scales, number), shift(sums, number)
        if count < g.size:
            for i in range(g.size):
                own[i] = source[i] if i < count else like(own, 0)
            _quantize(own, target, scale, total, g.size, factor, bits)
        else:
            _quantize(source, target, scale, total, g.size, factor, bits)
    return OK


@emitter("void(*f32,*i8,*f32,*i32,i64,i64,static)")
def _quantize(builder: Any, a: Any, q: Any, scale: Any, total: Any, size: Any, factor: Any, bits: int) -> None:
    """q (size,) = round(a / scale), in the order of the module's docstring; scale = max|a| / 127; total = factor * sum of q."""
    emit = Codes(builder, CHUNK, bits, False)
    ir, kind, number = emit.ir, emit.integers, emit.integers.element
    share, fields = WORD // bits, 8 // bits
    absolute = ir.Constant(kind, [0x7FFFFFFF] * CHUNK)

    def largest_of(at: Any, values: Sequence[Any]) -> list[Any]:
        held = builder.and_(builder.bitcast(emit.load(emit.move(a, at), 0), kind), absolute)
        return [builder.select(builder.icmp_unsigned(">", held, values[0]), held, values[0])]

    held = emit.loop(emit.integer(0), size, CHUNK, [ir.Constant(kind, [0] * CHUNK)], largest_of)[1][0]
    largest = builder.bitcast(emit.reduce("umax", held), emit.element)
    most = ir.Constant(emit.element, 127.0)
    none = builder.fsub(largest, largest)  # NaN for NaN and infinity, else 0
    builder.store(builder.fadd(builder.fdiv(largest, most), none), scale)
    quantized = builder.fcmp_ordered(">", largest, ir.Constant(emit.element, LEAST))
    inverse = emit.splat(builder.select(quantized, builder.fdiv(most, largest), ir.Constant(emit.element, 0.0)))
    order = [w + i * fields + s for w in range(0, CHUNK, share) for s in range(fields) for i in range(4)]
    places = ir.Constant(kind, order)
    narrow = ir.VectorType(ir.IntType(8), CHUNK)

    def round_of(at: Any, values: Sequence[Any]) -> list[Any]:
        x = builder.fmul(emit.load(emit.move(a, at), 0), inverse)
        for sign, limit in ((">", -127.0), ("<", 127.0)):
            bound = emit.constant(limit)
            x = builder.select(builder.fcmp_ordered(sign, x, bound), x, bound)
        whole = emit.nearest(x)
        own = builder.trunc(whole, narrow)
        target = builder.bitcast(emit.move(q, at), narrow.as_pointer())
        builder.store(builder.shuffle_vector(own, ir.Constant(narrow, ir.Undefined), places), target, align=1)
        return [builder.add(values[0], whole)]

    sums = emit.loop(emit.integer(0), size, CHUNK, [ir.Constant(kind, [0] * CHUNK)], round_of)[1][0]
    builder.store(builder.mul(emit.reduce("add", sums), builder.trunc(factor, number)), total)


@native
@extents(
    q="ceildiv(g.m, tile.rows) * tile.rows * g.blocks * g.size",
    q_scales="ceildiv(g.m, tile.rows) * tile.rows * g.blocks",
    sums="ceildiv(g.m, tile.rows) * tile.rows * g.blocks",
    b="ceildiv(g.n, tile.vectors * tile.lanes) * g.blocks * (g.size * form.bits // 32) * tile.vectors * tile.lanes",
    scales="ceildiv(g.n, tile.vectors * tile.lanes) * g.blocks * tile.vectors * tile.lanes",
    zeros="ceildiv(g.n, tile.vectors * tile.lanes) * g.blocks * tile.vectors * tile.lanes",
    bias="g.n",
    y="g.m * g.n",
)
def few_bit_dots(
    q: Ptr,
    q_scales: Ptr,
    sums: Ptr,
    b: Ptr,
    scales: Ptr,
    zeros: Ptr,
    bias: Ptr,
    y: Ptr,
    g: BlockedProduct,
    form: DotForm,
    tile: CodeTile,
    part: int,
    parts: int,
) -> int:
    """y (m, n) = the product of the module's docstring + bias (n,), for q, q_scales and sums from `quantize_blocks`.

    b is from `words`, scales and zeros from `columns_together`. The rows of q have room for a multiple of `tile.rows`.
    Spec: onnxruntime MatMulNBits-1, accuracy_level 4.
    """
    n, blocks, rows, width = g.n, g.blocks, tile.rows, tile.vectors * tile.lanes
    down, across = (g.m + rows - 1) // rows, (n + width - 1) // width
    first, last, left, right = grid(down, across, rows, width, part, parts)
    half = (right - left) // 2 if g.m == 1 and first < last else 0
    for p in range(left, left + half):
        j, x = p * width, Activations(q, q_scales, sums)
        _pair(x, weight_panel(b, scales, zeros, p, g, form.bits, width), shift(y, j), half, n - j, form, tile)
    if not null(bias):
        for column in range(left * width, min((left + 2 * half) * width, n)):
            y[column] += bias[column]
    for p in range(left + 2 * half, right):
        j, w = p * width, weight_panel(b, scales, zeros, p, g, form.bits, width)
        for i in range(first * rows, min(last * rows, g.m), rows):
            count, line, out, added = min(rows, g.m - i), i * blocks, shift(y, i * n + j), shift(bias, j)
            x = Activations(shift(q, line * g.size), shift(q_scales, line), shift(sums, line))
            _panel(x, w, out, n, count, n - j, form, tile)
            if not null(bias):
                for row in range(count):
                    for column in range(min(width, n - j)):
                        out[row * n + column] += added[column]
    return OK


@native(inline=False)
def _pair(x: Activations, w: WeightPanel, out: Ptr, apart: int, n: int, form: DotForm, tile: CodeTile) -> None:
    """out[:n] = the products of one row with a panel and with the one `apart` panels later, at their places.

    They are read in turns: caches fetch two runs of memory ahead faster than one.
    """
    _tile(x, w, out, 0, 1, n, apart, form, 1, 2, tile.vectors, tile.vectors, tile.lanes)


@native(inline=False)
def _panel(x: Activations, w: WeightPanel, out: Ptr, ldc: int, m: int, n: int, form: DotForm, tile: CodeTile) -> None:
    """out (m, min(n, width)) = the products of m rows, up to `tile.rows`, with a panel.

    A single row reads the panel once, in the order of memory. Several rows have room for the sums of two vectors of columns.
    """
    if m == 1:
        _tile(x, w, out, ldc, m, n, 0, form, 1, 1, tile.vectors, tile.vectors, tile.lanes)
        return
    for j in range(0, min(n, tile.vectors * tile.lanes), 2 * tile.lanes):
        right = WeightPanel(shift(w.codes, j), shift(w.scales, j), shift(w.zeros, j), w.blocks, w.size)
        if m <= tile.few:
            _tile(x, right, shift(out, j), ldc, m, n - j, 0, form, tile.few, 1, 2, tile.vectors, tile.lanes)
        else:
            _tile(x, right, shift(out, j), ldc, m, n - j, 0, form, tile.rows, 1, 2, tile.vectors, tile.lanes)


@emitter(
    "void(*i8,*f32,*i32,*u32,*f32,*T,i64,i64,*f32,i64,i64,i64,i64,static,static,static,static,static,static,static,static)",
    needs=NEEDS,
)
def _tile(
    builder: Any,
    x: Any,
    w: Any,
    out: Any,
    ldc: Any,
    m: Any,
    n: Any,
    apart: Any,
    form: DotForm,
    rows: int,
    panels: int,
    vectors: int,
    across: int,
    lanes: int,
) -> None:
    """out (min(m, rows), min(n, vectors * lanes)) = x @ w, the first vectors of a panel of `across`.

    With two panels, a single row is also multiplied by the panel `apart` panels later, whose result is as far away.
    """
    vectors *= panels
    emit, dots = CodeDots(builder, lanes, form), ByteDots(builder, lanes)
    depth, width = builder.mul(w.blocks, w.size), across * lanes
    addresses, count = Rows(dots, depth, rows), rows * vectors
    starts = addresses.starts(x.q)
    columns = PanelColumns(emit, w, apart, vectors, across)

    def block_of(number: Any, values: Sequence[Any]) -> list[Any]:
        pointers, (codes, scale, zero), totals = values[: len(starts)], values[len(starts) : -count], list(values[-count:])
        at = [builder.add(emit.mul(w.blocks, row), number) for row in range(rows)]
        sums = [dots.splat(builder.load(emit.move(x.sums, place))) for place in at]
        first = [dots.zero if form.given else sums[k // vectors] for k in range(count)]
        round_of = emit.round_of(dots, addresses, rows, columns)
        found = emit.loop(emit.integer(0), w.size, emit.share, [*pointers, codes, *first], round_of)[1]
        moved, found = found[:-count], found[-count:]
        factors = columns.read(emit.load, scale, columns.later)
        away = columns.read(emit.zeros, zero, columns.later) if form.given else []
        for k in range(count):
            row, j = divmod(k, vectors)
            value = builder.sitofp(found[k], emit.type)
            if form.given:
                value = emit.fma(builder.sitofp(sums[row], emit.type), away[j], value)
            own = emit.splat(builder.load(emit.move(x.scales, at[row])))
            totals[k] = emit.fma(builder.fmul(own, factors[j]), value, totals[k])
        return [*moved, emit.move(scale, emit.integer(width)), emit.move(zero, emit.integer(width)), *totals]

    values = [*starts, w.codes, w.scales, w.zeros, *[emit.zero] * count]
    totals = emit.loop(emit.integer(0), w.blocks, 1, values, block_of)[1][-count:]
    emit.store_tile(totals[: rows * across], out, ldc, m, n, min(vectors, across))
    if panels == 2:
        step = emit.mul(apart, width)
        emit.store_tile(totals[across:], emit.move(out, step), ldc, m, builder.sub(n, step), across)


class CodeDots(Codes):
    """Emits sums of products of quantized activations and codes that stay integers."""

    def __init__(self, builder: Any, lanes: int, form: DotForm) -> None:
        super().__init__(builder, lanes, form.bits, False)
        self.flip, self.share = form.flip, WORD // form.bits

    def zeros(self, pointer: Any, at: int) -> Any:
        """Return zero points of codes as they are multiplied."""
        values = super().zeros(pointer, at)
        return self.sub(values, self.constant(self.flip)) if self.flip else values

    def field(self, held: Any, number: int) -> Any:
        """Return field `number` of each byte of words."""
        if self.bits == 8:
            return self.builder.xor(held, self._bytes(self.flip)) if self.flip else held
        if number:
            held = self.builder.lshr(held, self._each(self.bits * number))
        return self.builder.and_(held, self._bytes(self.most))

    def _bytes(self, value: int) -> Any:
        return self._each(value * 0x01010101)

    def round_of(self, dots: ByteDots, addresses: Rows, rows: int, columns: "PanelColumns") -> Any:
        """Return the function that emits the k of one word: pointers to rows, one to words, and sums."""
        vectors = columns.vectors
        count = rows * vectors

        def emit_round(_: Any, values: Sequence[Any]) -> list[Any]:
            pointers, codes, sums = list(values[: -count - 1]), values[-count - 1], list(values[-count:])
            held = columns.words(codes)
            for number in range(self.share // 4):
                factors = [self.field(word, number) for word in held]
                for i in range(rows):
                    quad = self.move(dots.words(addresses.at(pointers, i)), self.integer(number))
                    factor = dots.splat(self.builder.load(quad, align=1))
                    for k in range(i * vectors, (i + 1) * vectors):
                        sums[k] = dots.dot(factors[k % vectors], factor, sums[k])
                    addresses.next_after(pointers, i, sums[i * vectors : (i + 1) * vectors])
            pointers = [self.move(pointer, self.integer(self.share)) for pointer in pointers]
            return [*pointers, self.move(codes, self.integer(columns.across * self.lanes)), *sums]

        return emit_round


class PanelColumns:
    """Reads columns of a panel of `across` vectors: the first `vectors`, or all and those of the panel `apart` panels later."""

    def __init__(self, emit: CodeDots, w: Any, apart: Any, vectors: int, across: int) -> None:
        self.emit, self.vectors, self.across = emit, vectors, across
        self.later = emit.mul(emit.builder.mul(apart, w.blocks), across * emit.lanes)
        """The scales between the panels."""
        self.later_words = emit.builder.sdiv(emit.builder.mul(self.later, w.size), emit.integer(emit.share))

    def words(self, codes: Any) -> list[Any]:
        """Return the words at the pointer to the first ones. Two panels are read without prefetches, see `_pair`."""
        if self.vectors <= self.across:
            self.emit.prefetch_codes(codes, self.vectors)
        return self.read(self.emit.load_word, codes, self.later_words)

    def read(self, load: Callable[[Any, int], Any], pointer: Any, later: Any) -> list[Any]:
        """Return load(pointer, element) for each vector; `later` are the elements between the panels."""
        places = [self.emit.move(pointer, later), pointer]
        return [load(places[j < self.across], j % self.across * self.emit.lanes) for j in range(self.vectors)]
