"""Products with weights of four bits, which stay as wide in memory: each block of a column has a scale and a zero point.

The sum over a block is scale * (sum of a * code - zero * sum of a): codes are converted as they are, and the rest is done once a
block. Few rows read the weights once, in the order of memory; for more of them panels are unpacked for the register tile.
"""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, like, native, null, shift
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, cut, grid
from ort_lite_cpu.kernels.gemm.microkernel import ACCUMULATE, BIAS, LeftOperand, TileEpilogue, panel
from ort_lite_cpu.kernels.gemm.pack import panels
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.run.kernels import Kernels

FEW = 8
"""Up to this many rows reading the codes again for every few of them costs less than unpacking them."""
TOGETHER = 8
"""Codes of a column that one word holds, in the order of k from its lowest bits."""
AHEAD = 2048
"""Bytes of weights that are asked for before they are read."""
MIDDLE = 8.0
"""The zero point where there is none."""


def rows_together(target: Target) -> int:
    """That share one pass over the weights: as many as sums fit the registers."""
    if target.vector_bytes == 64:
        return 4
    return 2 if target.has_fma else 1


def looks_up(target: Target) -> bool:
    """Whether codes become numbers by a table of 16 in a register, see `Codes`."""
    return target.has("avx512f") and target.vector_bytes == 64


def columns_together(x: Array, width: int, kernels: Kernels) -> Array:
    """(n, r), a row for each column of weights -> panels (ceil(n / width), r, width). O(size)."""
    return panels(np.ascontiguousarray(x).T, width, kernels)


def words(b: Array, width: int, kernels: Kernels) -> Array:
    """Codes (n, bytes), a multiple of four bytes a column, as the kernels read them: (ceil(n / width), words, width)."""
    return columns_together(np.ascontiguousarray(b).view("<u4"), width, kernels)


@native
@extents(
    a="m * k",
    b="ceildiv(n, vectors * lanes) * blocks * (size // 8) * vectors * lanes",
    scales="ceildiv(n, vectors * lanes) * blocks * vectors * lanes",
    zeros="ceildiv(n, vectors * lanes) * blocks * vectors * lanes",
    bias="n",
    y="m * n",
    scratch="parts * max(together * (blocks * size + blocks + vectors * lanes), DEPTH * vectors * lanes)",
)
def four_bits(
    a: Ptr,
    b: Ptr,
    scales: Ptr,
    zeros: Ptr,
    bias: Ptr,
    y: Ptr,
    scratch: Ptr,
    m: int,
    n: int,
    k: int,
    blocks: int,
    size: int,
    given: Static,
    lookup: Static,
    together: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """y (m, n) = a (m, k) @ ((b - zeros) * scales) + bias (n,), b from `words`, scales and zeros from `columns_together`.

    A column has `blocks` blocks of `size` codes, a multiple of 8, of which the first k count; zeros are there if `given`, else 8.
    Up to `together` rows are computed in one pass over the weights. lookup: see `Codes`. Spec: onnxruntime MatMulNBits-1.
    """
    width = vectors * lanes
    own = shift(scratch, part * max(together * (blocks * size + blocks + width), DEPTH * width))
    across = (n + width - 1) // width
    if m > FEW:
        first, last, left, right = grid((m + rows - 1) // rows, across, rows, 2 * width, part, parts)
        top, ending = first * rows, 0 if null(bias) else BIAS
        x, out, count = shift(a, top * k), shift(y, top * n), min(last * rows, m) - top
        for p in range(left, right):
            at, j = p * blocks * width, p * width
            w, f, z = shift(b, at * (size // 8)), shift(scales, at), shift(zeros, at)
            target, added, rest = shift(out, j), shift(bias, j), n - j
            _many(x, w, f, z, added, target, own, count, n, rest, k, size // 8, ending, given, lookup, rows, vectors, lanes)
        return OK
    for i in range(0, m, together):
        count = min(together, m - i)
        _begin(shift(a, i * k), own, count, together, k, blocks, size)
        for p in range(across * part // parts, across * (part + 1) // parts):
            at, j = p * blocks * width, p * width
            codes, factors, away = shift(b, at * (size // 8)), shift(scales, at), shift(zeros, at)
            sums, out, added = shift(own, together * (blocks * size + blocks)), shift(y, i * n + j), shift(bias, j)
            _few(own, codes, factors, away, sums, count, blocks, size, given, lookup, together, vectors, lanes)
            for row in range(count):
                for column in range(min(width, n - j)):
                    own_bias = like(y, 0) if null(bias) else added[column]
                    out[row * n + column] = sums[row * width + column] + own_bias
    return OK


@native
def _begin(a: Ptr, out: Ptr, count: int, rows: int, k: int, blocks: int, size: int) -> None:
    """out: rows of a (count, k) and zeros up to `rows` of blocks * size elements, then the sums of their blocks (rows, blocks)."""
    depth = blocks * size
    for row in range(1 if count == 1 else rows):
        there = k if row < count else 0
        for i in range(there):
            out[row * depth + i] = a[row * k + i]
        for i in range(there, depth):
            out[row * depth + i] = like(out, 0)
        for block in range(blocks):
            total = like(out, 0)
            for i in range(size):
                total += out[row * depth + block * size + i]
            out[rows * depth + row * blocks + block] = total


@native(inline=False)
def _few(
    a: Ptr,
    b: Ptr,
    scales: Ptr,
    zeros: Ptr,
    out: Ptr,
    count: int,
    blocks: int,
    size: int,
    given: Static,
    lookup: Static,
    together: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """out (count, width) = a @ one panel of weights, for what `_begin` made of a. One row, or `together` of which some count."""
    sums = shift(a, together * blocks * size)
    if count == 1 or together == 1:
        _sums(a, sums, b, scales, zeros, out, blocks, size, given, lookup, 1, vectors, lanes)
    else:
        _sums(a, sums, b, scales, zeros, out, blocks, size, given, lookup, together, vectors, lanes)


@native(inline=False)
def _many(
    a: Ptr,
    b: Ptr,
    scales: Ptr,
    zeros: Ptr,
    bias: Ptr,
    y: Ptr,
    scratch: Ptr,
    m: int,
    n: int,
    left: int,
    k: int,
    words_: int,
    ending: int,
    given: Static,
    lookup: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """The columns of y (m, n) that one panel has, `left` or fewer, for many rows: pieces of it as numbers, (depth, width).

    ending: the mode of the last piece.
    """
    pieces, some = cut((k + 7) // 8, DEPTH // 8)
    for piece in range(pieces):
        begin, end = piece * some, min((piece + 1) * some, (k + 7) // 8)
        _unpack(b, scales, zeros, scratch, begin, end, words_, given, lookup, vectors, lanes)
        mode = (0 if piece == 0 else ACCUMULATE) + (ending if piece == pieces - 1 else 0)
        x, depth, f = shift(a, begin * 8), min(end * 8, k) - begin * 8, scratch
        panel(
            LeftOperand(x, k, 0, 1), f, f, y, n, m, left, depth, TileEpilogue(mode, bias, bias, 0.0, 0.0), rows, vectors, lanes
        )


class Codes(Vectors):
    """Vectors of float32, and the codes that become them."""

    def __init__(self, builder: Any, lanes: int, lookup: bool) -> None:
        from llvmlite import ir

        super().__init__(builder, ir.FloatType(), lanes)
        self.integers = ir.VectorType(ir.IntType(32), lanes)
        self.lookup = lookup

    def load_word(self, pointer: Any, at: int) -> Any:
        address = self.builder.bitcast(self.move(pointer, self.integer(at)), self.integers.as_pointer())
        return self.builder.load(address, align=4)

    def code(self, held: Any, number: int) -> Any:
        """Code `number` of each word, a number from 0 to 15."""
        if number:
            held = self.builder.lshr(held, self.ir.Constant(self.integers, [4 * number] * self.lanes))
        if self.lookup:  # by the lowest four bits of each lane, which saves the conversion
            kind = self.ir.VectorType(self.element, 16)
            found = self._declare("llvm.x86.avx512.permvar.sf.512", kind, [kind, self.integers])
            return self.builder.call(found, [self.ir.Constant(kind, [float(x) for x in range(16)]), held])
        return self.builder.sitofp(self.builder.and_(held, self.ir.Constant(self.integers, [15] * self.lanes)), self.type)

    def zeros(self, pointer: Any, at: int) -> Any:
        """Zero points, of bytes or floats."""
        held = self.ir.VectorType(pointer.type.pointee, self.lanes)
        values = self.builder.load(self.builder.bitcast(self.move(pointer, self.integer(at)), held.as_pointer()), align=1)
        return values if held == self.type else self.builder.sitofp(self.builder.zext(values, self.integers), self.type)


@emitter("void(*f32,*f32,*u32,*f32,*T,*f32,i64,i64,static,static,static,static,static)")
def _sums(
    builder: Any,
    a: Any,
    sums_of_a: Any,
    b: Any,
    scales: Any,
    zeros: Any,
    out: Any,
    blocks: Any,
    size: Any,
    given: bool,
    lookup: bool,
    rows: int,
    vectors: int,
    lanes: int,
) -> None:
    """out (rows, width) = a @ one panel of weights; `sums_of_a` (rows, blocks)."""
    emit = Codes(builder, lanes, lookup)
    count, chains, width = rows * vectors, 2 if rows * vectors < 8 else 1, vectors * lanes
    depth = builder.mul(blocks, size)

    def round_of(_: Any, values: Any) -> list[Any]:
        """Eight k, which go round the chains."""
        x, codes, sums = values[0], values[1], list(values[2:])
        emit.prefetch(emit.move(codes, emit.integer(AHEAD // 4)))
        held = [emit.load_word(codes, j * lanes) for j in range(vectors)]
        for number in range(TOGETHER):
            places = [emit.move(x, builder.add(emit.mul(depth, row), emit.integer(number))) for row in range(rows)]
            left = [emit.splat(builder.load(place)) for place in places]
            for j in range(vectors):
                factor = emit.code(held[j], number)
                for row in range(rows):
                    k = number % chains * count + row * vectors + j
                    sums[k] = emit.fma(left[row], factor, sums[k])
            x = emit.after(x, sums[number % chains * count + count - 1])
        return [emit.move(x, emit.integer(TOGETHER)), emit.move(codes, emit.integer(width)), *sums]

    def block_of(number: Any, values: Any) -> list[Any]:
        start = [values[0], values[1], *[emit.zero] * (count * chains)]
        x, codes, *sums = emit.loop(emit.integer(0), size, TOGETHER, start, round_of)[1]
        if chains == 2:
            sums = emit.add_all(sums[:count], sums[count:])
        scale, zero = values[2], values[3]
        factors = [emit.load(scale, j * lanes) for j in range(vectors)]
        away = [emit.zeros(zero, j * lanes) if given else emit.constant(MIDDLE) for j in range(vectors)]
        totals = list(values[4:])
        for row in range(rows):
            at = builder.add(emit.mul(blocks, row), number)
            of_a = emit.splat(builder.fneg(builder.load(emit.move(sums_of_a, at))))
            for j in range(vectors):
                k = row * vectors + j
                totals[k] = emit.fma(factors[j], emit.fma(of_a, away[j], sums[k]), totals[k])
        return [x, codes, emit.move(scale, emit.integer(width)), emit.move(zero, emit.integer(width)), *totals]

    values = [a, b, scales, zeros, *[emit.zero] * count]
    totals = emit.loop(emit.integer(0), blocks, 1, values, block_of)[1][4:]
    for k, total in enumerate(totals):
        emit.store(total, out, k * lanes)


@emitter("void(*u32,*f32,*T,*f32,i64,i64,i64,static,static,static,static)")
def _unpack(
    builder: Any,
    b: Any,
    scales: Any,
    zeros: Any,
    out: Any,
    begin: Any,
    end: Any,
    words_: Any,
    given: bool,
    lookup: bool,
    vectors: int,
    lanes: int,
) -> None:
    """out (8 * (end - begin), width): the weights of words `begin` to `end` of one panel, whose blocks have `words_`."""
    emit = Codes(builder, lanes, lookup)
    width = vectors * lanes

    def round_of(number: Any, values: Any) -> list[Any]:
        block = emit.mul(builder.sdiv(number, words_), width)
        codes, target = emit.move(b, emit.mul(number, width)), values[0]
        for j in range(vectors):
            held, factor = emit.load_word(codes, j * lanes), emit.load(emit.move(scales, block), j * lanes)
            away = emit.zeros(emit.move(zeros, block), j * lanes) if given else emit.constant(MIDDLE)
            for k in range(TOGETHER):
                value = builder.fmul(emit.sub(emit.code(held, k), away), factor)
                emit.store(value, target, k * width + j * lanes)
        return [emit.move(target, emit.integer(TOGETHER * width))]

    emit.loop(begin, end, 1, [out], round_of)
