"""Exact products of 8-bit integers by instructions that multiply bytes four by four, or tile by tile, and add in 32 bits.

If a' and b' are the multiplied bytes, and p and q their zero points, the sums over k are

    sum (a' - p) (b' - q) = sum a' b' - p * sum b' - q * sum (a' - p)

The accumulators start from the second term. No intermediate saturates; all is modulo 2 ** 32, as MatMulInteger is.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, address, emitter, like, native, shift, wmul, wsub
from ort_lite_cpu.kernels.gemm.amx import TileBlock, at_most_32, begin_tiles, end_tiles
from ort_lite_cpu.kernels.gemm.byte_tile import BLOCK, FEW, TERMS, DotTile
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.integer import (
    IntegerVectors,
    Products,
    block_rows,
    center,
    zero_point,
)
from ort_lite_cpu.kernels.gemm.integer_epilogue import Ending, Epilogue, Rescaling
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, Rows

NEEDS = "avx512f,avx512vnni,amx-tile,amx-int8|avx512f,avx512vnni|avxvnni|neon,dotprod"
"""The CPU features of the instructions that `dot_tile` chooses among."""
STRIP = 1 << 18
"""The most bytes of panels that some rows meet before the next rows do: what the second cache level holds beside the rows."""


class DotPanel(NamedTuple):
    """A packed panel of a right operand, the terms of its columns, `line` apart, and the zero point of the left operand's bytes.

    `soon` is a panel that is read later, or this one. Each of the first four tiles prefetches a quarter of it.
    """

    b: Ptr
    soon: Ptr
    terms: Ptr
    line: int
    depth: int
    point: int


@native
@extents(
    a="walk(0, g.batch, g.a_step, g.m, g.k, g.k, 1)",
    zero="walk(0, g.batch * g.m, g.zero_row)",
    b="walk(0, g.batch, g.b_step * (ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 4 * tile.quads) * tile.quads"
    " * tile.vectors * tile.lanes * 4), ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 4 * tile.quads) * tile.quads"
    " * tile.vectors * tile.lanes * 4, 1)",
    terms="walk(0, g.batch, g.b_step * (TERMS * ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes),"
    " TERMS * ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes, 1)",
    factors="(g.n if out.spread else 1) if out.form else 0",
    bias="g.n if out.form == 2 else 0",
    c="g.batch * g.m * g.n",
    scratch="(parts - 1) * g.size"
    " + min(max(BLOCK, tile.rows * (4 * ceildiv(g.k, 4 * tile.quads) * tile.quads)),"
    " ceildiv(g.m, tile.rows) * tile.rows * (4 * ceildiv(g.k, 4 * tile.quads) * tile.quads))",
)
def dot_gemm(
    a: Ptr,
    zero: Ptr,
    b: Ptr,
    terms: Ptr,
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
    """c (batch, m, n) = out((a (batch, m, k) - zero) @ (b (batch, k, n) - its zero points) + addends), a 8-bit, b from `quads`.

    terms (batch, TERMS, n) are those of the columns of b. Its zero points count if `g.zero_columns`: then, as with one zero point a
    row of a, the result is int32. Rows of a that fill whole steps and need no flip are read in place, others from scratch
    (parts, size). Parts share blocks of rows and panels. Spec: ONNX MatMulInteger-10.
    """
    width, depth = tile.vectors * tile.lanes, (g.k + 4 * tile.quads - 1) // (4 * tile.quads) * tile.quads
    across, share = (g.n + width - 1) // width, (g.m + parts - 1) // parts
    there = g.flip == tile.middle and g.k == 4 * depth and (tile.amx == 0 or (address(a) | g.a_step) % 64 == 0)
    block = block_rows(g.m, 4 * depth, tile.rows, parts, BLOCK)
    if there:
        block = max((share + tile.rows - 1) // tile.rows, 1) * tile.rows
    down = (g.m + block - 1) // block
    scratch = shift(scratch, part * g.size)
    point = 0 if g.zero_row else zero_point(zero, 0, g.flip) - tile.middle
    first, last, left, right = grid(g.batch * down, across, block, width, part, parts)
    some = max(STRIP // (depth * 4 * width + 1), 1)
    begin_tiles(tile.amx)
    for number in range(first, last):
        i, top = number // down, number % down * block
        count = min(block, g.m - top)
        source, target = shift(a, i * g.a_step + top * g.k), shift(c, (i * g.m + top) * g.n)
        whole = count // tile.rows * tile.rows if there else 0
        if there and tile.amx:
            whole = count
        for row in range(whole, count):
            flip_bytes(shift(source, row * g.k), shift(scratch, (row - whole) * 4 * depth), g.k, g.flip ^ tile.middle)
        matrix, own = shift(b, i * g.b_step * across * depth * width * 4), shift(terms, i * g.b_step * TERMS * across * width)
        rows, rest, under = LeftOperand(source, g.k, 0, 1), LeftOperand(scratch, 4 * depth, 0, 1), shift(target, whole * g.n)
        for j in range(left, right, some):
            end = min(j + some, right)
            _strip(rows, matrix, own, factors, bias, point, target, whole, j, end, right, g, out, tile)
            _strip(rest, matrix, own, factors, bias, point, under, count - whole, j, end, right, g, out, tile)
        begin, end = left * width, min(right * width, g.n)
        for row in range(count if g.zero_row or g.zero_columns else 0):
            away, line = zero_point(zero, (i * g.m + top + row) * g.zero_row, g.flip), shift(target, row * g.n)
            if g.zero_row:
                take_off(line, own, like(c, away - tile.middle), begin, end)
            if g.zero_columns:
                total = like(c, sum_less(shift(source, row * g.k), g.k, away, g.flip))
                take_off(line, shift(own, 2 * across * width), total, begin, end)
    end_tiles(tile.amx)
    return OK


@native
def _strip(
    left: LeftOperand,
    b: Ptr,
    terms: Ptr,
    factors: Ptr,
    bias: Ptr,
    point: int,
    c: Ptr,
    m: int,
    start: int,
    stop: int,
    last: int,
    g: Products,
    out: Rescaling,
    tile: DotTile,
) -> None:
    """c (m, n) = out(left (m, k) @ b) for the panels from `start` to `stop`, a few rows after the other.

    Meanwhile as many panels behind them are prefetched, up to `last`.
    """
    width, depth = tile.vectors * tile.lanes, (g.k + 4 * tile.quads - 1) // (4 * tile.quads) * tile.quads
    line, some = (g.n + width - 1) // width * width, 2 * tile.rows
    for i in range(0, m, some):
        for p in range(start, stop):
            j = p * width
            x = LeftOperand(shift(left.at, i * left.row), left.row, left.line, left.lines)
            own = shift(b, j * depth * 4)
            soon = shift(own, (stop - start) * width * depth * 4 if i < 4 * tile.rows and p + stop - start < last else 0)
            right = DotPanel(own, soon, shift(terms, j), line, depth, point)
            end = Ending(shift(factors, j * out.spread), shift(bias, j), out.spread, out.zero)
            dot_panel(x, right, end, shift(c, i * g.n + j), g.n, min(some, m - i), g.n - j, out.form, tile)


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


@native(inline=False)
def dot_panel(
    left: LeftOperand, right: DotPanel, end: Ending, c: Ptr, ldc: int, m: int, n: int, form: Static, tile: DotTile
) -> None:
    """c (m, n) = end(left (m, lines, 4 * depth) @ one panel - point * sums + addends of its columns); rows of c `ldc` apart.

    In vector registers the last rows are computed `few` at a time, and the left operand has room for a multiple of these. A few rows
    that tiles would not fill are computed in vector registers, one by one, if these multiply the same bytes.
    """
    i = 0
    while tile.amx and tile.middle == 0 and m <= FEW and i < m:
        x, y = LeftOperand(shift(left.at, i * left.row), left.row, left.line, left.lines), shift(c, i * ldc)
        _tile(x, right, end, y, ldc, m - i, n, 1, tile.vectors, tile.lanes, 0, tile.middle, form)
        i += 1
    while m - i > tile.rows - tile.few:
        x, y = LeftOperand(shift(left.at, i * left.row), left.row, left.line, left.lines), shift(c, i * ldc)
        soon = shift(right.soon, i // tile.rows * right.depth * tile.vectors * tile.lanes)
        own = DotPanel(right.b, soon, right.terms, right.line, right.depth, right.point)
        _tile(x, own, end, y, ldc, m - i, n, tile.rows, tile.vectors, tile.lanes, tile.amx, tile.middle, form)
        i += tile.rows
    while i < m:
        x, y = LeftOperand(shift(left.at, i * left.row), left.row, left.line, left.lines), shift(c, i * ldc)
        _tile(x, right, end, y, ldc, m - i, n, tile.few, tile.vectors, tile.lanes, tile.amx, tile.middle, form)
        i += tile.few


@emitter(
    "void(*u8,i64,i64,i64,*i8,*i8,*i32,i64,i64,i64,*f32,*f32,i64,f32,*T,i64,i64,i64,static,static,static,static,static,static)",
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
    amx: int,
    middle: int,
    form: int,
) -> None:
    """c (min(m, rows), min(n, vectors * lanes)) = end(left @ right - point * sums + addends)."""
    emit = ByteDots(builder, lanes)
    factor = emit.splat(builder.neg(builder.trunc(right.point, emit.element)))
    addends = emit.move(right.terms, right.line)
    first = [
        builder.add(builder.mul(emit.load(right.terms, j * lanes), factor), emit.load(addends, j * lanes))
        for j in range(vectors)
    ]
    epilogue = Epilogue(emit, end, form, vectors, n)
    if amx:
        block = TileBlock(emit, left, right, middle == 128)

        def compute(count: Any) -> None:
            block.compute(count, first)
            block.finish(count, n, c, ldc, epilogue)

        at_most_32(block, m, compute)
        return
    totals = _sums(emit, left, right, first, rows)
    whole = builder.icmp_signed(">=", n, emit.integer(vectors * lanes))
    for i in range(rows):
        target, row = emit.move(c, emit.mul(ldc, i)), totals[i * vectors : (i + 1) * vectors]
        with builder.if_then(builder.icmp_signed("<", emit.integer(i), m)), builder.if_else(whole) as (inside, edge):
            with inside:
                epilogue.store(row, target, True)
            with edge:
                epilogue.store(row, target, False)


def _sums(emit: "ByteDots", left: Any, right: Any, first: list[Any], rows: int) -> list[Any]:
    """Return the sums of the register tile, row by row; rows that are not stored are computed as well."""
    builder, lanes, vectors = emit.builder, emit.lanes, len(first)
    addresses = Rows(emit, left.row, rows)
    count = len(addresses.leaps)

    def step(_: Any, values: Sequence[Any]) -> list[Any]:
        pointers, b, totals = list(values[:count]), values[count], list(values[count + 1 :])
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
        return emit.loop(emit.integer(0), right.depth, 1, [*starts, *values], step)[1][count:]

    return emit.loop(emit.integer(0), left.lines, 1, [emit.words(right.b), *first * rows], along)[1][1:]


class ByteDots(IntegerVectors):
    """Sums in 32 bits of four products of bytes; vectors of bytes are vectors of words, four to each."""

    def words(self, pointer: Any) -> Any:
        """Return a pointer to bytes as one to words of four."""
        return self.builder.bitcast(pointer, self.element.as_pointer())

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
