"""Exact products of 8-bit integers: operands widened to 16 bits less their zero points, multiplied in pairs of k, summed in 32 bits.

Both signednesses share the kernels: an int8 byte with its highest bit flipped is the value plus 128, and so is its zero point; only
their difference counts. `flip` is 128 for int8 operands and 0 for uint8.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import allocate_in_huge_pages
from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, arithmetic, emitter, like, native, null, shift, span, wmul, wsub
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, maximum, minimum
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.microkernel import Rows, Tile
from ort_lite_cpu.kernels.gemm.vectors import Vectors

CAPACITY = 1 << 17
"""The most elements in a block of widened rows: 256 KiB, which the second cache level holds."""
FLIPS = {"uint8": 0, "int8": 128}
"""`flip` by the type of an operand."""


class IntegerTile(Record):
    """The shape of the register tile, and LLVM's name of the instruction that multiplies pairs and adds them, or ""."""

    rows: int
    vectors: int
    lanes: int
    madd: str

    @property
    def columns(self) -> int:
        """The number of columns of a panel."""
        return self.vectors * self.lanes

    @property
    def statics(self) -> dict[str, Any]:
        """The Static arguments of kernels, by the names of the kernels' parameters."""
        return {"tile": Tile(self.rows, self.vectors, self.lanes), "madd": self.madd}


def integer_tile(target: Target) -> IntegerTile:
    """Return the tile of a machine: as many accumulators as the vector registers hold beside the operands."""
    if target.has("avx512bw"):
        return IntegerTile(14, 2, 16, "llvm.x86.avx512.pmaddw.d.512")
    if target.has("avx2"):
        return IntegerTile(6, 2, 8, "llvm.x86.avx2.pmadd.wd")
    return IntegerTile(6, 2, 4, "llvm.x86.sse2.pmadd.wd" if target.has("sse2") else "")


def pairs(b: Array, width: int) -> Array:
    """Return (..., K, N) as (..., ceil(N / width), ceil(K / 2), width, 2): pairs of values of k side by side, zeros at the ends.

    The result is int8, which the tile widens as it reads, if all values fit, else int16.
    """
    fits = b.size == 0 or (b.min() >= -128 and b.max() <= 127)
    return beside(b.astype(np.int8 if fits else np.int16, copy=False), width, 2)


def beside(b: Array, width: int, count: int, multiple: int = 1) -> Array:
    """Return (..., K, N) as (..., ceil(N / width), ceil(K / count), width, count), with zeros at the ends.

    K is filled up to a `multiple` first, which is one of `count` if it is above 1.
    The `count` values of k are put side by side first, and then move as one: NumPy moves bytes as slowly as words.
    """
    *batch, k, n = b.shape
    across, depth = -(-n // width), -(-(k + -k % multiple) // count)
    group = np.dtype(f"u{count * b.itemsize}")
    if b.swapaxes(-1, -2).flags.c_contiguous:  # side by side already
        columns = np.zeros((*batch, across * width, count * depth), b.dtype)
        columns[..., :n, :k] = b.swapaxes(-1, -2)
        turned = columns.view(group).reshape(*batch, across, width, depth).swapaxes(-1, -2)
    else:
        joined = np.zeros((*batch, depth, across * width, count), b.dtype)
        for i in range(count):
            rows = b[..., i::count, :]
            joined[..., : rows.shape[-2], :n, i] = rows
        turned = joined.view(group).reshape(*batch, depth, across, width).swapaxes(-3, -2)
    out = allocate_in_huge_pages((*batch, across, depth, width, count), b.dtype)
    out.view(group)[..., 0] = turned
    return out


def apart(packed: Array, k: int, n: int) -> Array:
    """Return the (K, N) of which `beside` made `packed`, bit for bit. O(size)."""
    across, depth, width, count = packed.shape
    return packed.transpose(1, 3, 0, 2).reshape(depth * count, across * width)[:k, :n]


@arithmetic("i16(u8,u8,i16)")
def center(x: Any, flip: Any, zero: Any) -> Any:
    """Return a byte less its zero point, which is flipped already, computed in 16 bits so that loops are fast."""
    return (x ^ flip).to("i16") - zero


@native
def zero_point(zero: Ptr, at: int, flip: int) -> int:
    """Return element `at` of the zero points, flipped for `center`. They are all 0 if `zero` is null."""
    return flip if null(zero) else like(flip, zero[at]) ^ flip


class Unpacked(NamedTuple):
    """Matrices (batch, k, n) of bytes in memory.

    Element (i, p, j) is number i * step + p % inner * inner_step + p // inner * outer_step + j * column. Its zero point, if there are
    any, is number i * zero_batch + j * zero_column.
    """

    batch: int
    k: int
    n: int
    inner: int
    step: int
    inner_step: int
    outer_step: int
    column: int
    zero_batch: int
    zero_column: int
    flip: int
    """128 for int8, 0 for uint8."""


@native
@extents(
    w="walk(0, g.batch, g.step, min(g.k, g.inner), g.inner_step, ceildiv(g.k, g.inner), g.outer_step, g.n, g.column)",
    zero="walk(0, g.batch, g.zero_batch, g.n, g.zero_column)",
    out="g.batch * ceildiv(g.n, width) * ceildiv(g.k, 2) * width * 2",
)
def pack_pairs(w: Ptr, zero: Ptr, out: Ptr, g: Unpacked, width: int, part: int, parts: int) -> int:
    """out = pairs(w (batch, k, n) - zero, width), int16."""
    across, half = (g.n + width - 1) // width, (g.k + 1) // 2
    for job in span(g.batch * across, part, parts):
        i, first = job // across, job % across * width
        for column_ in range(width):
            j = first + column_
            away = zero_point(zero, i * g.zero_batch + min(j, g.n - 1) * g.zero_column, g.flip)
            for p in range(2 * half):
                at = i * g.step + p % g.inner * g.inner_step + p // g.inner * g.outer_step + j * g.column
                inside = p < g.k and j < g.n
                target = ((job * half + p // 2) * width + column_) * 2 + p % 2
                out[target] = center(w[at], g.flip, away) if inside else like(out, 0)
    return OK


@native
def widen(x: Ptr, out: Ptr, count: int, zero: int, flip: int) -> None:
    """out (count,) = x - zero in 16 bits, for a zero point that is flipped already."""
    for i in range(count):
        out[i] = center(x[i], flip, zero)


@native
def block_rows(m: int, depth: int, rows: int, parts: int, capacity: int) -> int:
    """Return the rows of a block, a multiple of `rows`: at most `capacity` elements, `depth` a row, as many blocks for each part."""
    most = max(capacity // max(depth, 1) // rows, 1) * rows
    share = max((m + parts - 1) // parts, 1)
    pieces = (share + most - 1) // most
    return ((share + pieces - 1) // pieces + rows - 1) // rows * rows


def scratch_size(m: Dim, depth: Dim, rows: int, capacity: int = CAPACITY) -> Dim:
    """Return the elements of scratch that a part needs for its block of rows, `depth` elements each."""
    return minimum(maximum(capacity, rows * depth), ceildiv(m, rows) * rows * depth)


class Products(NamedTuple):
    """The sizes of products (batch, m, n) over k. Matrix i of a begins at i * a_step; that of b is packed matrix i * b_step."""

    batch: int
    m: int
    n: int
    k: int
    a_step: int
    b_step: int
    zero_row: int
    """1 if there is a zero point for each row of c, 0 if there is one for all."""
    zero_columns: int
    """1 if there is a zero point for each column of b that is not subtracted yet, else 0."""
    flip: int
    """128 if a is int8, 0 if it is uint8."""
    size: int
    """Elements of scratch for each part."""


@native
@extents(
    a="walk(0, g.batch, g.a_step, g.m, g.k, g.k, 1)",
    zero="walk(0, g.batch * g.m, g.zero_row)",
    b="walk(0, g.batch, g.b_step * (ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 2) * tile.vectors * tile.lanes * 2),"
    " ceildiv(g.n, tile.vectors * tile.lanes) * ceildiv(g.k, 2) * tile.vectors * tile.lanes * 2, 1)",
    b_zero="g.n",
    c="g.batch * g.m * g.n",
    scratch="(parts - 1) * g.size"
    " + min(max(CAPACITY, tile.rows * (2 * ceildiv(g.k, 2))), ceildiv(g.m, tile.rows) * tile.rows * (2 * ceildiv(g.k, 2)))",
)
def integer_gemm(
    a: Ptr, zero: Ptr, b: Ptr, b_zero: Ptr, c: Ptr, scratch: Ptr, g: Products, tile: Tile, madd: Static, part: int, parts: int
) -> int:
    """c (batch, m, n) = (a (batch, m, k) - zero) @ (b (batch, k, n) - b_zero (n,)), a 8-bit, b from `pairs`, c int32.

    b_zero is null if b has no zero points left. scratch (parts, size) holds rows of a. Parts share blocks of rows and panels.
    Spec: ONNX MatMulInteger-10.
    """
    width, half = tile.vectors * tile.lanes, (g.k + 1) // 2
    across = (g.n + width - 1) // width
    block = block_rows(g.m, 2 * half, tile.rows, parts, CAPACITY)
    down = (g.m + block - 1) // block
    scratch = shift(scratch, part * g.size)
    first, last, left, right = grid(g.batch * down, across, 1, 0, part, parts)
    for number in range(first, last):
        i, top = number // down, number % down * block
        count = min(block, g.m - top)
        for row in range(count):
            away = zero_point(zero, (i * g.m + top + row) * g.zero_row, g.flip)
            widen(shift(a, i * g.a_step + (top + row) * g.k), shift(scratch, row * 2 * half), g.k, away, g.flip)
            if g.k < 2 * half:
                scratch[row * 2 * half + g.k] = like(scratch, 0)
        for p in range(left, right):
            panel = shift(b, (i * g.b_step * across + p) * half * width * 2)
            target, some = shift(c, (i * g.m + top) * g.n + p * width), g.n - p * width
            integer_panel(scratch, panel, target, g.n, count, some, half, tile.rows, tile.vectors, tile.lanes, madd)
        if not null(b_zero):
            for row in range(count):
                total = like(c, _sum(shift(scratch, row * 2 * half), 2 * half))
                target = shift(c, (i * g.m + top + row) * g.n)
                for j in range(left * width, min(right * width, g.n)):
                    target[j] = wsub(target[j], wmul(total, b_zero[j]))
    return OK


@native
def _sum(x: Ptr, n: int) -> int:
    """Return the sum of x (n,)."""
    total = 0
    for i in range(n):
        total += x[i]
    return total


@native(inline=False)
def integer_panel(
    a: Ptr, b: Ptr, c: Ptr, ldc: int, m: int, n: int, half: int, rows: Static, vectors: Static, lanes: Static, madd: Static
) -> None:
    """c (m, n) = a (m, 2 * half) @ b, one panel, rows of c `ldc` apart; a has room for a multiple of `rows` rows."""
    i = 0
    while m - i >= rows // 2 and i < m:
        _tile(shift(a, i * 2 * half), b, shift(c, i * ldc), ldc, m - i, n, half, rows, vectors, lanes, madd)
        i += rows
    while i < m:
        _tile(shift(a, i * 2 * half), b, shift(c, i * ldc), ldc, m - i, n, half, 1, vectors, lanes, madd)
        i += 1


@emitter("void(*i16,*I,*i32,i64,i64,i64,i64,static,static,static,static)")
def _tile(
    builder: Any, a: Any, b: Any, c: Any, ldc: Any, m: Any, n: Any, half: Any, rows: int, vectors: int, lanes: int, madd: str
) -> None:
    """c (min(m, rows), min(n, vectors * lanes)) = a @ b; rows that are not stored are computed as well."""
    emit = PairSums(builder, lanes, madd)
    addresses = Rows(emit, half, rows)

    def step(_: Any, values: Sequence[Any]) -> list[Any]:
        pointers, right, sums = list(values[: len(starts)]), values[len(starts)], list(values[len(starts) + 1 :])
        factors = [emit.load_as(emit.move(right, emit.integer(2 * lanes * j)), emit.factors) for j in range(vectors)]
        for i in range(rows):
            left = emit.splat_pair(builder.load(addresses.at(pointers, i), align=2))
            for s in range(i * vectors, (i + 1) * vectors):
                sums[s] = emit.madd(left, factors[s % vectors], sums[s])
            addresses.next_after(pointers, i, sums[i * vectors : (i + 1) * vectors])
        right = emit.after(right, sums[-1])
        moved = [emit.move(pointer, emit.integer(1)) for pointer in pointers]
        return [*moved, emit.move(right, emit.integer(2 * lanes * vectors)), *sums]

    starts = addresses.starts(emit.words(a))
    values = [*starts, b, *[emit.zero] * (rows * vectors)]
    sums = emit.loop(emit.integer(0), half, 1, values, step)[1][len(starts) + 1 :]
    emit.store_tile(sums, c, ldc, m, n, vectors)


class IntegerVectors(Vectors):
    """Vectors of 32-bit integers, and of narrower ones that are widened when they are read."""

    def __init__(self, builder: Any, lanes: int) -> None:
        from llvmlite import ir

        super().__init__(builder, ir.FloatType(), lanes)
        self.element = ir.IntType(32)
        self.type = ir.VectorType(self.element, lanes)
        self.zero = ir.Constant(self.type, [0] * lanes)

    def load_as(self, pointer: Any, kind: Any, signed: bool = True) -> Any:
        """Load a vector and widen its elements to those of the vector type `kind`."""
        held = self.ir.VectorType(pointer.type.pointee, kind.count)
        values = self.builder.load(self.builder.bitcast(pointer, held.as_pointer()), align=1)
        if held == kind:
            return values
        return self.builder.sext(values, kind) if signed else self.builder.zext(values, kind)


class PairSums(IntegerVectors):
    """Sums of pairs of products: vectors of 32-bit sums, and of twice as many 16-bit factors."""

    def __init__(self, builder: Any, lanes: int, madd: str) -> None:
        super().__init__(builder, lanes)
        self.instruction = madd
        self.factors = self.ir.VectorType(self.ir.IntType(16), 2 * lanes)

    def splat_pair(self, pair: Any) -> Any:
        """Return a vector of copies of a pair."""
        return self.builder.bitcast(self.splat(pair), self.factors)

    def madd(self, x: Any, y: Any, z: Any) -> Any:
        """Return z[i] + x[2i] * y[2i] + x[2i + 1] * y[2i + 1]."""
        if self.instruction:
            function = self._declare(self.instruction, self.type, [self.factors] * 2)
            return self.builder.add(z, self.builder.call(function, [x, y]))
        even, odd = (self.builder.mul(self._half(x, offset), self._half(y, offset)) for offset in (0, 1))
        return self.builder.add(self.builder.add(z, even), odd)

    def _half(self, x: Any, offset: int) -> Any:
        """Return the even (offset 0) or odd (1) factors, widened."""
        kind = self.ir.VectorType(self.ir.IntType(32), self.lanes)
        numbers = self.ir.Constant(kind, list(range(offset, 2 * self.lanes, 2)))
        undefined = self.ir.Constant(self.factors, self.ir.Undefined)
        return self.builder.sext(self.builder.shuffle_vector(x, undefined, numbers), self.type)
