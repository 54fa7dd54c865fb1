"""Exact products of 8-bit integers by instructions that multiply bytes four by four, or tile by tile, and add in 32 bits.

If a' and b' are the multiplied bytes, and p and q their zero points, the sums over k are

    sum (a' - p) (b' - q) = sum a' b' - p * sum b' - q * sum (a' - p)

The accumulators start from the second term. No intermediate saturates; all is modulo 2 ** 32, as MatMulInteger is.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from ort_lite.memory.arenas import CACHE_LINE
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, STRICT, Ptr, Static, address, emitter, like, native, shift, span, wmul, wsub
from ort_lite_cpu.kernels.gemm import amx, i8mm
from ort_lite_cpu.kernels.gemm.amx import CONTINUED, KEPT, TileBlock, configure_tiles, end_tiles
from ort_lite_cpu.kernels.gemm.byte_tile import BLOCK, FEW, PAIRS, PARTIAL, TERMS, DotTile
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.integer import (
    IntegerVectors,
    Products,
    block_rows,
    center,
    zero_point,
)
from ort_lite_cpu.kernels.gemm.integer_epilogue import Ending, IntegerEpilogue, Rescaling
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, Rows, from_row
from ort_lite_cpu.kernels.square import ask_for

NEEDS = "avx512f,avx512vnni,amx-tile,amx-int8|avx512f,avx512vnni|avxvnni|neon,dotprod,i8mm|neon,dotprod"
"""The CPU features of the instructions that `dot_tile` chooses among."""
STRIP = 1 << 18
"""The most bytes of panels that some rows meet before the next rows do: what the second cache level holds beside the rows."""
PIECE = 8
"""The most steps of tiles over k before the next panel is read: rows and a panel of so many bytes of k fit the first cache level."""
UNCUT = 10
"""The most steps that are not cut into pieces."""
CHAINS = 4
"""The number of sums of each column where the left operand has a single row. They take turns along k."""
GROUP = 8
"""The number of panels of which the sums of some rows are kept between pieces."""


class RightMatrix(NamedTuple):
    """A packed right operand, what belongs to its columns, and room for `GROUP` panels of sums."""

    b: Ptr
    starts: Ptr
    factors: Ptr
    bias: Ptr
    partial: Ptr


class ProductShape(NamedTuple):
    """The columns of a product, the elements from one row of its result to the next, and the fours of k."""

    n: int
    ldc: int
    depth: int


class DotPanel(NamedTuple):
    """A piece of a packed panel, and the sums that its columns start from: `starts`, or those of two tiles in `partial`, by `mode`.

    If numbers of 16 bits are multiplied, `ahead` is prefetched: a cache line for each four bytes of k.
    """

    b: Ptr
    starts: Ptr
    depth: int
    partial: Ptr
    mode: int
    ahead: Ptr


@native
@extents(
    a="walk(0, g.batch, g.a_step, g.m, g.k, g.k, 1)",
    b="walk(0, g.batch, g.b_step * (ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 4 * tile.quads) * tile.quads"
    " * tile.vectors * tile.lanes * 4), ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 4 * tile.quads) * tile.quads"
    " * tile.vectors * tile.lanes * 4, 1)",
    starts="walk(0, g.batch, g.b_step * (ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes),"
    " ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes, 1)",
    factors="(g.n if out.spread else 1) if out.form else 0",
    bias="g.n if out.form == 2 else 0",
    c="g.batch * g.m * g.n",
    scratch="(parts - 1) * g.size + tile.amx * PARTIAL"
    " + min(max(BLOCK, tile.rows * (4 * ceildiv(g.k, 4 * tile.quads) * tile.quads + 64 * tile.amx)),"
    " ceildiv(g.m, tile.rows) * tile.rows * (4 * ceildiv(g.k, 4 * tile.quads) * tile.quads + 64 * tile.amx))",
)
def dot_gemm(
    a: Ptr,
    b: Ptr,
    starts: Ptr,
    factors: Ptr,
    bias: Ptr,
    c: Ptr,
    scratch: Ptr,
    g: Products,
    out: Rescaling,
    tile: DotTile,
    part: int,
    parts: int,
) -> int:
    """c (batch, m, n) = out(a (batch, m, k) @ b (batch, k, n) + starts (batch, n)), a 8-bit, b from `quads`.

    Rows of a are copied to scratch (parts, size) unless `_read_in_place`. Parts share blocks of rows and panels.
    Spec: ONNX MatMulInteger-10.
    """
    width, depth = tile.vectors * tile.lanes, (g.k + 4 * tile.quads - 1) // (4 * tile.quads) * tile.quads
    across, share = (g.n + width - 1) // width, (g.m + parts - 1) // parts
    there, row_bytes = _read_in_place(a, g, depth, tile), 4 * depth + 64 * tile.amx
    block = block_rows(g.m, row_bytes, tile.rows, parts, BLOCK)
    if there:
        block = max((share + tile.rows - 1) // tile.rows, 1) * tile.rows
    down = (g.m + block - 1) // block
    scratch = shift(scratch, part * g.size)
    held = shift(scratch, tile.amx * PARTIAL)
    first, last, left, right = grid(g.batch * down, across, block, width, part, parts)
    for number in range(first, last):
        i, top = number // down, number % down * block
        count = min(block, g.m - top)
        source, target = shift(a, i * g.a_step + top * g.k), shift(c, (i * g.m + top) * g.n)
        whole = count // tile.rows * tile.rows if there else 0
        if there and (tile.amx or few_fill(count % (2 * tile.rows), tile)):
            whole = count
        for row in range(whole, count):
            flip_bytes(shift(source, row * g.k), shift(held, (row - whole) * row_bytes), g.k, g.flip ^ tile.middle)
        matrix, begin = shift(b, i * g.b_step * across * depth * width * 4), shift(starts, i * g.b_step * across * width)
        w = RightMatrix(matrix, begin, factors, bias, as_sums(scratch))
        shape = ProductShape(g.n, g.n, depth)
        dot_rows(LeftOperand(source, g.k, 0, 1), w, target, whole, left, right, shape, out, tile)
        dot_rows(
            LeftOperand(held, row_bytes, 0, 1), w, shift(target, whole * g.n), count - whole, left, right, shape, out, tile
        )
    end_tiles(tile.amx)
    return OK


@native
def _read_in_place(a: Ptr, g: Products, depth: int, tile: DotTile) -> bool:
    """Return True if rows of a are read where they are: whole steps of bytes as they are multiplied.

    For tiles, rows also start at cache lines, and long ones are an odd number of lines: others share few sets of the first cache level.
    """
    same = g.flip == tile.middle and g.k == 4 * depth
    aligned = (address(a) | g.a_step) % 64 == 0
    return same and (tile.amx == 0 or (aligned and (g.k <= 64 * UNCUT or g.k // 64 % 2 == 1)))


@native
def dot_rows(
    left: LeftOperand, w: RightMatrix, c: Ptr, m: int, begin: int, stop: int, g: ProductShape, out: Rescaling, tile: DotTile
) -> None:
    """c (m, n) = out(left (m, k) @ w) for the panels from `begin` to `stop`, a group of panels after the other."""
    width, depth = tile.vectors * tile.lanes, g.depth
    cut = tile.amx == 1 and depth > UNCUT * tile.quads and m > FEW
    group = GROUP if cut else max(STRIP // (depth * 4 * width + 1), 1)
    most, whole = PIECE * tile.quads if cut else depth, whole_rows(m, tile)
    for j in range(begin, stop, group):
        end = min(j + group, stop)
        if whole > 0:
            configure_tiles(tile.rows, tile.amx)
        for i in range(0, whole, 2 * tile.rows):
            rows = from_row(left, i)
            _strip(rows, w, shift(c, i * g.ldc), min(2 * tile.rows, whole - i), j, end, g, out, most, tile)
        if whole < m:
            configure_tiles(m - whole, tile.amx)
            rows = from_row(left, whole)
            _strip(rows, w, shift(c, whole * g.ldc), m - whole, j, end, g, out, most if m - whole > FEW else depth, tile)


@native
def whole_rows(m: int, tile: DotTile) -> int:
    """Return the rows of m that are computed with one configuration of tiles: those of whole blocks; all in vector registers."""
    return m // tile.rows * tile.rows if tile.amx else m


@native
def _strip(
    left: LeftOperand,
    w: RightMatrix,
    c: Ptr,
    m: int,
    start: int,
    stop: int,
    g: ProductShape,
    out: Rescaling,
    most: int,
    tile: DotTile,
) -> None:
    """c (m, n) = out(left (m, k) @ w) for the panels from `start` to `stop`, in pieces of k of about `most` fours."""
    width, depth = tile.vectors * tile.lanes, g.depth
    pieces = max((depth + most - 1) // max(most, 1), 1)
    size = (depth // tile.quads + pieces - 1) // pieces * tile.quads
    for piece in range(pieces):
        begin = piece * size
        mode = (CONTINUED if piece > 0 else 0) | (KEPT if piece < pieces - 1 else 0)
        x = LeftOperand(shift(left.at, 4 * begin), left.row, left.line, left.lines)
        for p in range(start, stop):
            j = p * width
            partial = shift(w.partial, (p - start) * 2 * tile.rows * width if pieces > 1 else 0)
            b, starts = shift(w.b, (j * depth + begin * width) * 4), shift(w.starts, j)
            right = DotPanel(b, starts, min(size, depth - begin), partial, mode, starts)
            end = Ending(shift(w.factors, j * out.spread), shift(w.bias, j), out.spread, out.zero)
            dot_panel(x, right, end, shift(c, j), g.ldc, m, g.n - j, out.form, tile)


@native
@extents(
    a="walk(0, g.batch, g.a_step, g.m, g.k, g.k, 1)",
    zero="walk(0, g.batch * g.m, g.zero_row)",
    terms="walk(0, g.batch, g.b_step * (TERMS * line), TERMS * line, 1)",
    c="g.batch * g.m * g.n",
)
def subtract_zeros(a: Ptr, zero: Ptr, terms: Ptr, c: Ptr, g: Products, line: int, part: int, parts: int) -> int:
    """c (batch, m, n) -= (the zero points of rows of a) * sums of columns + (sums of rows of a) * (the zero points of columns).

    terms (batch, TERMS, line) are those of the columns, `line` n or more. Each kind of zero points only if there is one a row, or if
    `g.zero_columns`. With one a row, the columns started as for a zero point of 0.
    """
    for row in span(g.batch * g.m, part, parts):
        i, away = row // g.m, zero_point(zero, row * g.zero_row, g.flip)
        own, target = shift(terms, i * g.b_step * TERMS * line), shift(c, row * g.n)
        if g.zero_row:
            take_off(target, own, like(c, away - g.flip), 0, g.n)
        if g.zero_columns:
            total = like(c, sum_less(shift(a, i * g.a_step + row % g.m * g.k), g.k, away, g.flip))
            take_off(target, shift(own, 2 * line), total, 0, g.n)
    return OK


@native
@extents(terms="batch * TERMS * line", zero="1", starts="2 * batch * line")
def column_starts(
    terms: Ptr, zero: Ptr, starts: Ptr, batch: int, line: int, flip: int, middle: Static, part: int, parts: int
) -> int:
    """starts (2, batch, line) = addends - the zero point of the left operand * sums, and zero points, of terms (batch, TERMS, line)."""
    point = zero_point(zero, 0, flip) - middle
    for i in span(batch, part, parts):
        own = shift(terms, i * TERMS * line)
        for j in range(line):
            starts[i * line + j] = wsub(own[line + j], wmul(like(own, point), own[j]))
            starts[(batch + i) * line + j] = own[2 * line + j]
    return OK


@emitter("*i32(*u8)", "*i32(*i8)")
def as_sums(builder: Any, x: Any) -> Any:
    """Return a pointer to bytes as one to sums."""
    from llvmlite import ir

    return builder.bitcast(x, ir.IntType(32).as_pointer())


@native
def flip_bytes(x: Ptr, out: Ptr, count: int, turn: int) -> None:
    """out (count,) = x, with the highest bit flipped if `turn` is 128; the two do not overlap."""
    if count >= 64:
        _turn_run(x, out, count, turn, 64)
    elif count >= 16:
        _turn_run(x, out, count, turn, 16)
    elif count >= 4:
        _turn_run(x, out, count, turn, 4)
    else:
        for i in range(count):
            out[i] = like(out, x[i] ^ turn)


@native
def _turn_run(x: Ptr, out: Ptr, count: int, turn: int, size: Static) -> None:
    """out (count,) = x ^ turn, `size` bytes at a time, the last ones partly twice: cheaper than a tail, and most runs are short."""
    i = 0
    while i + size <= count:
        _turn(shift(x, i), shift(out, i), turn, size)
        i += size
    if i < count:
        _turn(shift(x, count - size), shift(out, count - size), turn, size)


@emitter("void(*u8,*I,i64,static)")
def _turn(builder: Any, x: Any, out: Any, turn: Any, size: int) -> None:
    """out (size,) = x ^ turn."""
    from llvmlite import ir

    kind = ir.VectorType(ir.IntType(8), size)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, builder.trunc(turn, ir.IntType(8)), ir.Constant(ir.IntType(32), 0))
    mask = builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), size), [0] * size))
    found = builder.load(builder.bitcast(x, kind.as_pointer()), align=1)
    builder.store(builder.xor(found, mask), builder.bitcast(out, kind.as_pointer()), align=1)


@native
def take_off(c: Ptr, x: Ptr, factor: int, first: int, last: int) -> None:
    """c[first:last] -= factor * x[first:last]."""
    for j in range(first, last):
        c[j] = wsub(c[j], wmul(factor, x[j]))


@native
def sum_less(x: Ptr, n: int, zero: int, flip: int) -> int:
    """Return the sum of x (n,) - zero, for a zero point that is flipped already."""
    total = 0
    for i in range(n):
        total += center(x[i], flip, zero)
    return total


@native(fastmath=STRICT, inline=False)
def dot_panel(
    left: LeftOperand, right: DotPanel, end: Ending, c: Ptr, ldc: int, m: int, n: int, form: Static, tile: DotTile
) -> None:
    """c (m, n) = end(left (m, lines, 4 * depth) @ one panel + starts of its columns); rows of c `ldc` apart.

    In vector registers the last rows are computed `few` at a time, a single one alone, and the left operand has room for a multiple
    of `few`. Tiles are configured for m, which is a multiple of their rows or below. A few rows that would not fill them are computed
    in vector registers, one by one, if these multiply the same bytes.
    """
    i = 0
    while tile.amx and tile.middle == 0 and m <= FEW and i < m:
        x, y = from_row(left, i), shift(c, i * ldc)
        _tile(x, right, end, y, ldc, m - i, n, 1, tile.vectors, tile.lanes, 1, tile.middle, form)
        i += 1
    while m - i > tile.rows - tile.few and not few_fill(m - i, tile):
        x, y = from_row(left, i), shift(c, i * ldc)
        own = DotPanel(right.b, right.starts, right.depth, shift(right.partial, i * 32), right.mode, right.ahead)
        _tile(x, own, end, y, ldc, m - i, n, tile.rows, tile.vectors, tile.lanes, tile.quads, tile.middle, form)
        i += tile.rows
    while i < m and (tile.quads > 1 or m - i > 1):
        x, y = from_row(left, i), shift(c, i * ldc)
        _tile(x, right, end, y, ldc, m - i, n, tile.few, tile.vectors, tile.lanes, tile.quads, tile.middle, form)
        i += tile.few
    while tile.quads == 1 and i < m:
        x, y = from_row(left, i), shift(c, i * ldc)
        _tile(x, right, end, y, ldc, m - i, n, 1, tile.vectors, tile.lanes, 1, tile.middle, form)
        i += 1


@native
def few_fill(m: int, tile: DotTile) -> bool:
    """Return True if tiles of `few` rows compute m rows and no more, while one of all rows would leave a part of `few`."""
    return tile.rows < m < tile.rows + tile.few and m % tile.few == 0


@emitter(
    "void(*u8,i64,i64,i64,*i8,*i32,i64,*i32,i64,*i32,*f32,*f32,i64,f32,*T,i64,i64,i64,static,static,static,static,static,static)",
    needs=NEEDS,
)
def _tile(
    builder: Any,
    left: Any,
    right: Any,
    end: Any,
    c: Any,
    ldc: Any,
    m: Any,
    n: Any,
    rows: int,
    vectors: int,
    lanes: int,
    quads: int,
    middle: int,
    form: int,
) -> None:
    """c (min(m, rows), min(n, vectors * lanes)) = end(left @ right + starts), by the instruction that multiplies `quads` fours of k."""
    emit = (PairDots if middle == PAIRS else ByteDots)(builder, lanes)
    epilogue = IntegerEpilogue(emit, end, form, vectors, n)
    if 4 * quads == amx.DEPTH:
        block = TileBlock(emit, left, right, "tdpbssd" if middle == 128 else "tdpbusd")
        short = builder.icmp_signed("<", m, emit.integer(rows))
        count = builder.select(short, m, emit.integer(rows))
        block.compute(count)
        with builder.if_else(emit.bit(right.mode, KEPT)) as (unfinished, done):
            with unfinished:
                block.store_tiles(count, block.partial, emit.integer(128))
            with done:
                block.finish(count, n, c, ldc, epilogue)
        return
    first = [emit.load(right.starts, j * lanes) for j in range(vectors)]
    if 4 * quads == i8mm.DEPTH:
        totals = i8mm.MatrixBlock(emit, rows, vectors, middle == 128).sums(left, right, first)
    else:
        totals = _row_sums(emit, left, right, first) if rows == 1 else dot_sums(emit, left, right, first, rows)

    def store(i: int, whole: bool) -> None:
        epilogue.store(totals[i * vectors : (i + 1) * vectors], emit.move(c, emit.mul(ldc, i)), whole)

    emit.store_rows(m, n, rows, vectors, store)


def dot_sums(emit: Any, left: Any, right: Any, first: list[Any], rows: int) -> list[Any]:
    """Return the sums of the register tile, row by row; rows that are not stored are computed as well."""
    builder, lanes, vectors = emit.builder, emit.lanes, len(first)
    addresses = Rows(emit, left.row, rows)
    count = len(addresses.leaps)

    def step(at: Any, values: Sequence[Any]) -> list[Any]:
        pointers, b, totals = list(values[:count]), values[count], list(values[count + 1 :])
        if isinstance(emit, PairDots):
            ask_for(builder, emit.move(right.ahead, emit.mul(at, CACHE_LINE // 4)), 2)
        factors = [emit.load(b, j * lanes) for j in range(vectors)]
        for i in range(rows):
            word = emit.splat(builder.load(emit.words(addresses.at(pointers, i)), align=1))
            for s in range(i * vectors, (i + 1) * vectors):
                totals[s] = emit.dot(word, factors[s % vectors], totals[s])
            addresses.next_after(pointers, i, totals[i * vectors : (i + 1) * vectors])
        b = emit.after(b, totals[-1])
        moved = [emit.move(pointer, emit.integer(4)) for pointer in pointers]
        return [*moved, emit.move(b, emit.integer(lanes * vectors)), *totals]

    def along(at: Any, values: Sequence[Any]) -> list[Any]:
        starts = addresses.starts(emit.move(left.at, builder.mul(at, left.line)))
        sums: list[Any] = emit.loop(emit.integer(0), right.depth, 1, [*starts, *values], step)[1][count:]
        return sums

    totals: list[Any] = emit.loop(emit.integer(0), left.lines, 1, [emit.words(right.b), *first * rows], along)[1][1:]
    return totals


def _row_sums(emit: "ByteDots", left: Any, right: Any, first: list[Any]) -> list[Any]:
    """Return the sums of one row of the left operand. `CHAINS` sums of each column hide the latency of the instruction."""
    builder, vectors = emit.builder, len(first)

    def step(_: Any, values: Sequence[Any], chains: int) -> list[Any]:
        pointer, b, *totals = values
        for chain in range(chains):
            word = emit.splat(builder.load(emit.words(emit.move(pointer, emit.integer(4 * chain))), align=1))
            for j in range(vectors):
                s = chain * vectors + j
                totals[s] = emit.dot(word, emit.load(b, s * emit.lanes), totals[s])
        words = emit.integer(emit.lanes * vectors * chains)
        return [emit.move(pointer, emit.integer(4 * chains)), emit.move(b, words), *totals]

    def along(at: Any, values: Sequence[Any]) -> list[Any]:
        start = emit.move(left.at, builder.mul(at, left.line))
        done, values = emit.loop(emit.integer(0), right.depth, CHAINS, [start, *values], partial(step, chains=CHAINS))
        return emit.loop(done, right.depth, 1, values, partial(step, chains=1))[1][1:]

    zeros = [emit.zero] * (vectors * (CHAINS - 1))
    totals = emit.loop(emit.integer(0), left.lines, 1, [emit.words(right.b), *first, *zeros], along)[1][1:]
    return [reduce(builder.add, totals[j::vectors]) for j in range(vectors)]


class ByteDots(IntegerVectors):
    """Sums in 32 bits of four products of bytes; vectors of bytes are vectors of words, four to each."""

    def load(self, pointer: Any, at: int, mask: Any = None) -> Any:
        """Load a vector of words, which need no alignment."""
        assert mask is None
        return self.builder.load(self._pointer(pointer, at), align=1)

    def dot(self, x: Any, y: Any, z: Any) -> Any:
        """Return z[i] + x[4i] * y[4i] + ... + x[4i + 3] * y[4i + 3]."""
        if self.lanes != 4:
            name = f"llvm.x86.avx512.vpdpbusd.{32 * self.lanes}"
            return self.builder.call(self._declare(name, self.type, [self.type] * 3), [z, x, y])
        kind = self.ir.VectorType(self.ir.IntType(8), 4 * self.lanes)
        function = self._declare("llvm.aarch64.neon.sdot.v4i32.v16i8", self.type, [self.type, kind, kind])
        return self.builder.call(function, [z, self.builder.bitcast(x, kind), self.builder.bitcast(y, kind)])


class PairDots(ByteDots):
    """Sums in 32 bits of two products of signed numbers of 16 bits."""

    def dot(self, x: Any, y: Any, z: Any) -> Any:
        """Return z[i] + x[2i] * y[2i] + x[2i + 1] * y[2i + 1], modulo 2 ** 32."""
        name = f"llvm.x86.avx512.vpdpwssd.{32 * self.lanes}"
        return self.builder.call(self._declare(name, self.type, [self.type] * 3), [z, x, y])
