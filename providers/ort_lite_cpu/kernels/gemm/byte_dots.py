"""Exact products of 8-bit integers by instructions that multiply bytes four by four and add the products in 32 bits.

x86 multiplies unsigned bytes of the left operand by signed ones of the right, AArch64 signed bytes. A byte with its highest bit
flipped is the value less, or plus, 128, and so is its zero point; only their difference counts, so all four pairs of signednesses share
the kernels. If a' and b' are the multiplied bytes, and p and q their zero points, the sums over k are

    sum (a' - p) (b' - q) = sum a' b' - p * sum b' - q * sum (a' - p)

The accumulators start from the second term. No intermediate saturates; all is modulo 2 ** 32, as MatMulInteger is.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, like, native, null, shift, span, wmul, wsub
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.integer import (
    CAPACITY,  # noqa: F401  in extents
    IntegerVectors,
    Products,
    Unpacked,
    beside,
    block_rows,
    center,
    zero_point,
)
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, Rows

NEEDS = "avx512f,avx512vnni|avxvnni|neon,dotprod"
"""The CPU features of the instructions that `dot_tile` chooses among."""
FEW = 4
"""The rows of the tile for the last rows: enough for the latency of the instruction."""


class DotTile(NamedTuple):
    """The shape of the register tile, rows x (vectors * lanes). AArch64 has 4 lanes, x86 8 or 16."""

    rows: StaticInt
    vectors: StaticInt
    lanes: StaticInt
    middle: StaticInt
    """128 if the instruction multiplies signed bytes of the left operand, 0 if it multiplies unsigned ones."""

    @property
    def columns(self) -> int:
        """The number of columns of a panel."""
        return self.vectors * self.lanes


def dot_tile(target: Target) -> DotTile | None:
    """Return the tile of a machine with such an instruction: as many accumulators as the registers hold beside the operands."""
    if target.has_vnni:
        return DotTile(14, 2, 16, 0) if target.has("avx512f") else DotTile(6, 2, 8, 0)
    return DotTile(10, 2, 4, 128) if target.has("neon,dotprod") else None


def quads(b: Array, width: int) -> Array:
    """Return (..., K, N), of numbers that fit int8, as (..., ceil(N / width), ceil(K / 4), width, 4).

    Four values of k are side by side, with zeros at the ends.
    """
    return beside(b.astype(np.int8, copy=False), width, 4)


def per_column(values: Array, width: int) -> Array:
    """Return (..., N) as int32 with zeros up to a multiple of `width`: one number for each column of `quads`."""
    padded = np.zeros((*values.shape[:-1], -(-values.shape[-1] // width) * width), np.int32)
    padded[..., : values.shape[-1]] = values
    return padded


@native
@extents(
    w="walk(0, g.batch, g.step, min(g.k, g.inner), g.inner_step, ceildiv(g.k, g.inner), g.outer_step, g.n, g.column)",
    zero="walk(0, g.batch, g.zero_batch, g.n, g.zero_column)",
    out="g.batch * ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 4) * tile.vectors * tile.lanes * 4",
    sums="g.batch * ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes",
    away="g.batch * ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes",
)
def pack_quads(w: Ptr, zero: Ptr, out: Ptr, sums: Ptr, away: Ptr, g: Unpacked, tile: DotTile, part: int, parts: int) -> int:
    """out = quads(w (batch, k, n) - 128, width) for uint8, quads(w, width) for int8.

    Also writes the sums of the columns, and to `away`, unless it is null, the zero points of the columns, less 128 for uint8 too.
    """
    width, depth = tile.vectors * tile.lanes, (g.k + 3) // 4
    across = (g.n + width - 1) // width
    for job in span(g.batch * across, part, parts):
        i, first = job // across, job % across * width
        count = min(width, g.n - first)
        panel = shift(out, job * depth * width * 4)
        for p in range(4 * depth):
            target = shift(panel, p // 4 * width * 4 + p % 4)
            source = shift(w, i * g.step + p % g.inner * g.inner_step + p // g.inner * g.outer_step + first * g.column)
            _line(source, target, count, g.column, width, 128 - g.flip, p < g.k)
        column_sums(panel, shift(sums, job * width), depth, tile.vectors, tile.lanes)
        if not null(away):
            for j in range(width):
                at = i * g.zero_batch + min(first + j, g.n - 1) * g.zero_column
                away[job * width + j] = like(away, zero_point(zero, at, g.flip) - 128)
    return OK


@native
def _line(x: Ptr, out: Ptr, count: int, step: int, width: int, turn: int, inside: bool) -> None:
    """out[4 * j] = x[j * step] for j < count if `inside`, its highest bit flipped if `turn` is 128, else 0; 0 up to `width`."""
    used = count if inside else 0
    if step == 1:
        for j in range(used):
            out[4 * j] = like(out, x[j] ^ turn)
    else:
        for j in range(used):
            out[4 * j] = like(out, x[j * step] ^ turn)
    for j in range(used, width):
        out[4 * j] = like(out, 0)


@native
@extents(
    a="walk(0, g.batch, g.a_step, g.m, g.k, g.k, 1)",
    zero="walk(0, g.batch * g.m, g.zero_row)",
    b="walk(0, g.batch, g.b_step * (ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 4) * tile.vectors * tile.lanes * 4),"
    " ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 4) * tile.vectors * tile.lanes * 4, 1)",
    sums="walk(0, g.batch, g.b_step * (ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes),"
    " ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes, 1)",
    away="walk(0, g.batch, g.b_step * (ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes),"
    " ceildiv(g.n, tile.vectors * tile.lanes) * tile.vectors * tile.lanes, 1)",
    c="g.batch * g.m * g.n",
    scratch="(parts - 1) * g.size"
    " + min(max(CAPACITY, tile.rows * (4 * ceildiv(g.k, 4))), ceildiv(g.m, tile.rows) * tile.rows * (4 * ceildiv(g.k, 4)))",
)
def dot_gemm(
    a: Ptr, zero: Ptr, b: Ptr, sums: Ptr, away: Ptr, c: Ptr, scratch: Ptr, g: Products, tile: DotTile, part: int, parts: int
) -> int:
    """c (batch, m, n) = (a (batch, m, k) - zero) @ (b (batch, k, n) - away), a 8-bit, b from `quads`, sums of its columns, c int32.

    away is null if b has no zero points left. Rows of a that are whole words and need no flip are read in place, others from scratch
    (parts, size). Parts share blocks of rows and panels. Spec: ONNX MatMulInteger-10.
    """
    width, depth = tile.vectors * tile.lanes, (g.k + 3) // 4
    across = (g.n + width - 1) // width
    block = block_rows(g.m, 4 * depth, tile.rows, parts)
    down = (g.m + block - 1) // block
    scratch = shift(scratch, part * g.size)
    point = 0 if g.zero_row else zero_point(zero, 0, g.flip) - tile.middle
    first, last, left, right = grid(g.batch * down, across, block, width, part, parts)
    for number in range(first, last):
        i, top = number // down, number % down * block
        count = min(block, g.m - top)
        source = shift(a, i * g.a_step + top * g.k)
        whole = count // tile.rows * tile.rows if g.flip == tile.middle and g.k == 4 * depth else 0
        for row in range(whole, count):
            flip_bytes(shift(source, row * g.k), shift(scratch, (row - whole) * 4 * depth), g.k, g.flip ^ tile.middle)
        for p in range(left, right):
            at = (i * g.b_step * across + p) * width
            panel, target = shift(b, at * depth * 4), shift(c, (i * g.m + top) * g.n + p * width)
            start, rest, inside, left_over = shift(sums, at), shift(target, whole * g.n), g.n - p * width, count - whole
            dot_panel(LeftOperand(source, 4 * depth, 0, 1), panel, start, point, target, g.n, whole, inside, depth, tile)
            dot_panel(LeftOperand(scratch, 4 * depth, 0, 1), panel, start, point, rest, g.n, left_over, inside, depth, tile)
        for row in range(count):
            target, at = shift(c, (i * g.m + top + row) * g.n), i * g.b_step * across * width
            own = zero_point(zero, (i * g.m + top + row) * g.zero_row, g.flip)
            if g.zero_row:
                take_off(target, shift(sums, at), like(c, own - tile.middle), left * width, min(right * width, g.n))
            if not null(away):
                total = like(c, sum_less(shift(source, row * g.k), g.k, own, g.flip))
                take_off(target, shift(away, at), total, left * width, min(right * width, g.n))
    return OK


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
    left: LeftOperand, b: Ptr, sums: Ptr, point: int, c: Ptr, ldc: int, m: int, n: int, depth: int, tile: DotTile
) -> None:
    """c (m, n) = left (m, lines, 4 * depth) @ b, one panel, - point * sums of its columns; rows of c `ldc` apart.

    The left operand has room for a multiple of `rows` rows. The last rows are computed FEW at a time.
    """
    i = 0
    while m - i > tile.rows - FEW:
        x, y = LeftOperand(shift(left.at, i * left.row), left.row, left.line, left.lines), shift(c, i * ldc)
        _tile(x, b, sums, point, y, ldc, m - i, n, depth, tile.rows, tile.vectors, tile.lanes)
        i += tile.rows
    while i < m:
        x, y = LeftOperand(shift(left.at, i * left.row), left.row, left.line, left.lines), shift(c, i * ldc)
        _tile(x, b, sums, point, y, ldc, m - i, n, depth, FEW, tile.vectors, tile.lanes)
        i += FEW


@emitter("void(*u8,i64,i64,i64,*i8,*i32,i64,*i32,i64,i64,i64,i64,static,static,static)", needs=NEEDS)
def _tile(
    builder: Any,
    left: Any,
    b: Any,
    sums: Any,
    point: Any,
    c: Any,
    ldc: Any,
    m: Any,
    n: Any,
    depth: Any,
    rows: int,
    vectors: int,
    lanes: int,
) -> None:
    """c (min(m, rows), min(n, vectors * lanes)) = left @ b - point * sums; rows that are not stored are computed as well."""
    emit = ByteDots(builder, lanes)
    addresses = Rows(emit, left.row, rows)
    count = len(addresses.leaps)
    factor = emit.splat(builder.neg(builder.trunc(point, emit.element)))
    first = [builder.mul(emit.load(sums, j * lanes), factor) for j in range(vectors)]

    def step(_: Any, values: Sequence[Any]) -> list[Any]:
        pointers, right, totals = list(values[:count]), values[count], list(values[count + 1 :])
        factors = [emit.load(right, j * lanes) for j in range(vectors)]
        for i in range(rows):
            word = emit.splat(builder.load(emit.words(addresses.at(pointers, i)), align=1))
            for s in range(i * vectors, (i + 1) * vectors):
                totals[s] = emit.dot(word, factors[s % vectors], totals[s])
            addresses.next_after(pointers, i, totals[i * vectors : (i + 1) * vectors])
        right = emit.after(right, totals[-1])
        moved = [emit.move(pointer, emit.integer(4)) for pointer in pointers]
        return [*moved, emit.move(right, emit.integer(lanes * vectors)), *totals]

    def along(at: Any, values: Sequence[Any]) -> list[Any]:
        starts = addresses.starts(emit.move(left.at, builder.mul(at, left.line)))
        return emit.loop(emit.integer(0), depth, 1, [*starts, *values], step)[1][count:]

    totals = emit.loop(emit.integer(0), left.lines, 1, [emit.words(b), *first * rows], along)[1][1:]
    whole = builder.icmp_signed(">=", n, emit.integer(vectors * lanes))
    masks = [emit.mask(builder.sub(n, emit.integer(j * lanes))) for j in range(vectors)]
    for i in range(rows):
        target = emit.move(c, emit.mul(ldc, i))
        with builder.if_then(builder.icmp_signed("<", emit.integer(i), m)), builder.if_else(whole) as (inside, edge):
            with inside:
                for j in range(vectors):
                    emit.store(totals[i * vectors + j], target, j * lanes)
            with edge:
                for j in range(vectors):
                    emit.store(totals[i * vectors + j], target, j * lanes, masks[j])


@emitter("void(*i8,*i32,i64,static,static)", needs=NEEDS)
def column_sums(builder: Any, b: Any, sums: Any, depth: Any, vectors: int, lanes: int) -> None:
    """sums (vectors * lanes) = a row of ones @ b, one panel."""
    emit = ByteDots(builder, lanes)
    ones = emit.splat(emit.ir.Constant(emit.element, 0x01010101))

    def step(_: Any, values: Sequence[Any]) -> list[Any]:
        right, *totals = values
        found = [emit.dot(ones, emit.load(right, j * lanes), totals[j]) for j in range(vectors)]
        return [emit.move(right, emit.integer(lanes * vectors)), *found]

    totals = emit.loop(emit.integer(0), depth, 1, [emit.words(b), *[emit.zero] * vectors], step)[1][1:]
    for j in range(vectors):
        emit.store(totals[j], sums, j * lanes)


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
