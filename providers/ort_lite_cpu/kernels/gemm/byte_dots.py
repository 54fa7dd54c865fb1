"""Exact products of 8-bit integers by instructions that multiply bytes four by four and add the products in 32 bits.

x86 multiplies unsigned bytes of the left operand with signed ones of the right, AArch64 signed bytes. A byte with its highest bit
flipped is the value less, or plus, 128, and so is its zero point, whose difference is what counts: all four pairs of signednesses share
the kernels. With a' and b' as they are multiplied, and their zero points p and q, the sums over k are

    sum (a' - p) (b' - q) = sum a' b' - p * sum b' - q * sum (a' - p)

whose second term is what the accumulators start from. No intermediate saturates; all is modulo 2 ** 32, as MatMulInteger is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, like, native, null, shift, span, wmul, wsub
from ort_lite.record import Record
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
from ort_lite_cpu.kernels.gemm.microkernel import Rows

NEEDS = "avx512f,avx512vnni|avxvnni|neon,dotprod"
"""Features of the instructions in `dot_tile`."""
FEW = 4
"""Rows of the tile for what is left over: enough for the latency of the instruction."""


class DotTile(Record):
    """Shape of the register tile, and LLVM's name of the instruction. signed: its left operand."""

    rows: int
    vectors: int
    lanes: int
    dot: str
    signed: bool = False

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def statics(self) -> dict[str, Any]:
        return {"rows": self.rows, "vectors": self.vectors, "lanes": self.lanes, "dot": self.dot, "signed": self.signed}


def dot_tile(target: Target) -> DotTile | None:
    """The tile of a machine that has such an instruction: as many accumulators as the registers hold beside the operands."""
    if target.has_vnni:
        if target.has("avx512f"):
            return DotTile(14, 2, 16, "llvm.x86.avx512.vpdpbusd.512")
        return DotTile(6, 2, 8, "llvm.x86.avx512.vpdpbusd.256")
    if target.has("neon,dotprod"):
        return DotTile(10, 2, 4, "llvm.aarch64.neon.sdot.v4i32.v16i8", signed=True)
    return None


def quads(b: Array, width: int) -> Array:
    """(..., K, N), numbers of int8 -> (..., ceil(N / width), ceil(K / 4), width, 4): four of k beside each other, zeros at the ends."""
    return beside(b.astype(np.int8, copy=False), width, 4)


def per_column(values: Array, width: int) -> Array:
    """(..., N), int32, with zeros up to a multiple of `width`: what the kernels read for each column of `quads`."""
    padded = np.zeros((*values.shape[:-1], -(-values.shape[-1] // width) * width), np.int32)
    padded[..., : values.shape[-1]] = values
    return padded


@native
@extents(
    w="walk(0, batch, step, min(k, inner), inner_step, ceildiv(k, inner), outer_step, n, column)",
    zero="walk(0, batch, zero_batch, n, zero_column)",
    out="batch * ceildiv(n, vectors * lanes) * ceildiv(k, 4) * vectors * lanes * 4",
    sums="batch * ceildiv(n, vectors * lanes) * vectors * lanes",
    away="batch * ceildiv(n, vectors * lanes) * vectors * lanes",
)
def pack_quads(
    w: Ptr,
    zero: Ptr,
    out: Ptr,
    sums: Ptr,
    away: Ptr,
    g: Unpacked,
    vectors: Static,
    lanes: Static,
    dot: Static,
    part: int,
    parts: int,
) -> int:
    """As `quads`, at run time, of w - 128 for uint8, w for int8; sums of columns; zero points of columns, less 128 too."""
    width, depth = vectors * lanes, (g.k + 3) // 4
    across = (g.n + width - 1) // width
    for job in span(g.batch * across, part, parts):
        i, first = job // across, job % across * width
        count = min(width, g.n - first)
        panel = shift(out, job * depth * width * 4)
        for p in range(4 * depth):
            target = shift(panel, p // 4 * width * 4 + p % 4)
            source = shift(w, i * g.step + p % g.inner * g.inner_step + p // g.inner * g.outer_step + first * g.column)
            _line(source, target, count, g.column, width, 128 - g.flip, p < g.k)
        column_sums(panel, shift(sums, job * width), depth, vectors, lanes, dot)
        if not null(away):
            for j in range(width):
                at = i * g.zero_batch + min(first + j, g.n - 1) * g.zero_column
                away[job * width + j] = like(away, zero_point(zero, at, g.flip) - 128)
    return OK


@native
def _line(x: Ptr, out: Ptr, count: int, step: int, width: int, turn: int, inside: bool) -> None:
    """out[4 * j] = x[j * step], its highest bit flipped if `turn` is 128, for j < count, where it is inside; else 0, to `width`."""
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
    a="walk(0, batch, a_step, m, k, k, 1)",
    zero="walk(0, batch * m, zero_row)",
    b="walk(0, batch, b_step * (ceildiv(n, vectors * lanes) * ceildiv(k, 4) * vectors * lanes * 4),"
    " ceildiv(n, vectors * lanes) * ceildiv(k, 4) * vectors * lanes * 4, 1)",
    sums="walk(0, batch, b_step * (ceildiv(n, vectors * lanes) * vectors * lanes), ceildiv(n, vectors * lanes) * vectors * lanes, 1)",
    away="walk(0, batch, b_step * (ceildiv(n, vectors * lanes) * vectors * lanes), ceildiv(n, vectors * lanes) * vectors * lanes, 1)",
    c="batch * m * n",
    scratch="(parts - 1) * size + min(max(CAPACITY, rows * (4 * ceildiv(k, 4))), ceildiv(m, rows) * rows * (4 * ceildiv(k, 4)))",
)
def dot_gemm(
    a: Ptr,
    zero: Ptr,
    b: Ptr,
    sums: Ptr,
    away: Ptr,
    c: Ptr,
    scratch: Ptr,
    g: Products,
    rows: Static,
    vectors: Static,
    lanes: Static,
    dot: Static,
    signed: Static,
    part: int,
    parts: int,
) -> int:
    """c (batch, m, n) = (a - zero) @ (b - away), a 8-bit, b as `quads` makes it, sums of its columns; away is null where it is 0.

    a[i] is (m, k) at i * a_step, b[i] matrix i * b_step of those packed; there is one zero point of a or, with zero_row 1, one for
    each row of c. Rows are read in place where they are whole words that need no flip, else from scratch (parts, size). Parts share
    blocks of rows and panels. Spec: ONNX MatMulInteger-10.
    """
    width, depth, middle = vectors * lanes, (g.k + 3) // 4, 128 if signed else 0
    across = (g.n + width - 1) // width
    block = block_rows(g.m, 4 * depth, rows, parts)
    down = (g.m + block - 1) // block
    scratch = shift(scratch, part * g.size)
    point = 0 if g.zero_row else zero_point(zero, 0, g.flip) - middle
    first, last, left, right = grid(g.batch * down, across, block, width, part, parts)
    for number in range(first, last):
        i, top = number // down, number % down * block
        count = min(block, g.m - top)
        source = shift(a, i * g.a_step + top * g.k)
        whole = count // rows * rows if g.flip == middle and g.k == 4 * depth else 0
        for row in range(whole, count):
            flip_bytes(shift(source, row * g.k), shift(scratch, (row - whole) * 4 * depth), g.k, g.flip ^ middle)
        for p in range(left, right):
            at = (i * g.b_step * across + p) * width
            panel, target = shift(b, at * depth * 4), shift(c, (i * g.m + top) * g.n + p * width)
            inside = g.n - p * width
            start, rest, lda = shift(sums, at), shift(target, whole * g.n), 4 * depth
            dot_panel(source, lda, 0, 1, panel, start, point, target, g.n, whole, inside, depth, rows, vectors, lanes, dot)
            dot_panel(
                scratch, lda, 0, 1, panel, start, point, rest, g.n, count - whole, inside, depth, rows, vectors, lanes, dot
            )
        for row in range(count):
            target, at = shift(c, (i * g.m + top + row) * g.n), i * g.b_step * across * width
            own = zero_point(zero, (i * g.m + top + row) * g.zero_row, g.flip)
            if g.zero_row:
                take_off(target, shift(sums, at), like(c, own - middle), left * width, min(right * width, g.n))
            if not null(away):
                total = like(c, sum_less(shift(source, row * g.k), g.k, own, g.flip))
                take_off(target, shift(away, at), total, left * width, min(right * width, g.n))
    return OK


@native
def flip_bytes(x: Ptr, out: Ptr, count: int, turn: int) -> None:
    """out[i] = x[i], with the highest bit flipped if `turn` is 128; the two do not overlap."""
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
    """`size` bytes at a time, the last ones in part twice: cheaper than a tail, and most runs are short."""
    i = 0
    while i + size <= count:
        _turn(shift(x, i), shift(out, i), turn, size)
        i += size
    if i < count:
        _turn(shift(x, count - size), shift(out, count - size), turn, size)


@emitter("void(*u8,*I,i64,static)")
def _turn(builder: Any, x: Any, out: Any, turn: Any, size: int) -> None:
    from llvmlite import ir

    kind = ir.VectorType(ir.IntType(8), size)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, builder.trunc(turn, ir.IntType(8)), ir.Constant(ir.IntType(32), 0))
    mask = builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), size), [0] * size))
    found = builder.load(builder.bitcast(x, kind.as_pointer()), align=1)
    builder.store(builder.xor(found, mask), builder.bitcast(out, kind.as_pointer()), align=1)


@native
def take_off(c: Ptr, x: Ptr, factor: int, first: int, last: int) -> None:
    """c[j] -= factor * x[j]."""
    for j in range(first, last):
        c[j] = wsub(c[j], wmul(factor, x[j]))


@native
def sum_less(x: Ptr, n: int, zero: int, flip: int) -> int:
    """The sum of x - zero, for a zero point that is flipped already."""
    total = 0
    for i in range(n):
        total += center(x[i], flip, zero)
    return total


@native(inline=False)
def dot_panel(
    a: Ptr,
    lda: int,
    line: int,
    lines: int,
    b: Ptr,
    sums: Ptr,
    point: int,
    c: Ptr,
    ldc: int,
    m: int,
    n: int,
    depth: int,
    rows: Static,
    vectors: Static,
    lanes: Static,
    dot: Static,
) -> None:
    """c (m, n), row stride ldc, = a (m, lines, 4 * depth) @ one panel of b, less `point` times the sums of its columns.

    Element (i, l, p) of a is a[i * lda + l * line + p]: a matrix has one line, a convolution as many as its kernel; there is room for
    a multiple of `rows` rows. What is left over is done FEW rows at a time.
    """
    i = 0
    while m - i > rows - FEW:
        x, y = shift(a, i * lda), shift(c, i * ldc)
        _tile(x, lda, line, lines, b, sums, point, y, ldc, m - i, n, depth, rows, vectors, lanes, dot)
        i += rows
    while i < m:
        x, y = shift(a, i * lda), shift(c, i * ldc)
        _tile(x, lda, line, lines, b, sums, point, y, ldc, m - i, n, depth, FEW, vectors, lanes, dot)
        i += FEW


@emitter("void(*u8,i64,i64,i64,*i8,*i32,i64,*i32,i64,i64,i64,i64,static,static,static,static)", needs=NEEDS)
def _tile(
    builder: Any,
    a: Any,
    lda: Any,
    line: Any,
    lines: Any,
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
    dot: str,
) -> None:
    """min(m, rows) rows and min(n, vectors * lanes) columns of c; rows that are not stored are computed nevertheless."""
    emit = ByteDots(builder, lanes, dot)
    addresses = Rows(emit, lda, rows)
    count = len(addresses.leaps)
    factor = emit.splat(builder.neg(builder.trunc(point, emit.element)))
    first = [builder.mul(emit.load(sums, j * lanes), factor) for j in range(vectors)]

    def step(_: Any, values: Sequence[Any]) -> list[Any]:
        pointers, right, totals = list(values[:count]), values[count], list(values[count + 1 :])
        factors = [emit.load(right, j * lanes) for j in range(vectors)]
        for i in range(rows):
            left = emit.splat(builder.load(emit.words(addresses.at(pointers, i)), align=1))
            for s in range(i * vectors, (i + 1) * vectors):
                totals[s] = emit.dot(left, factors[s % vectors], totals[s])
            addresses.next_after(pointers, i, totals[i * vectors : (i + 1) * vectors])
        right = emit.after(right, totals[-1])
        moved = [emit.move(pointer, emit.integer(4)) for pointer in pointers]
        return [*moved, emit.move(right, emit.integer(lanes * vectors)), *totals]

    def along(at: Any, values: Sequence[Any]) -> list[Any]:
        starts = addresses.starts(emit.move(a, builder.mul(at, line)))
        return emit.loop(emit.integer(0), depth, 1, [*starts, *values], step)[1][count:]

    totals = emit.loop(emit.integer(0), lines, 1, [emit.words(b), *first * rows], along)[1][1:]
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


@emitter("void(*i8,*i32,i64,static,static,static)", needs=NEEDS)
def column_sums(builder: Any, b: Any, sums: Any, depth: Any, vectors: int, lanes: int, dot: str) -> None:
    """sums (vectors * lanes) of the columns of one panel: what a row of ones makes of it."""
    emit = ByteDots(builder, lanes, dot)
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

    def __init__(self, builder: Any, lanes: int, dot: str) -> None:
        super().__init__(builder, lanes)
        self.instruction = dot

    def words(self, pointer: Any) -> Any:
        """A pointer to bytes as one to four of them."""
        return self.builder.bitcast(pointer, self.element.as_pointer())

    def load(self, pointer: Any, at: int, mask: Any = None) -> Any:
        """Bytes lie anywhere."""
        assert mask is None
        return self.builder.load(self._pointer(pointer, at), align=1)

    def dot(self, x: Any, y: Any, z: Any) -> Any:
        """z[i] + x[4i] * y[4i] + ... + x[4i + 3] * y[4i + 3]."""
        if "aarch64" not in self.instruction:
            return self.builder.call(self._declare(self.instruction, self.type, [self.type] * 3), [z, x, y])
        kind = self.ir.VectorType(self.ir.IntType(8), 4 * self.lanes)
        function = self._declare(self.instruction, self.type, [self.type, kind, kind])
        return self.builder.call(function, [z, self.builder.bitcast(x, kind), self.builder.bitcast(y, kind)])
