"""The two products of attention for a few query rows, over keys and values that are read in place, in vectors.

A tile of scores is a few rows by as many keys as 16 bytes have elements: each key is read once for all rows, and the lanes of all sums
of a row are added together. A tile of results stays in registers while it adds up values. Both prefetch as many rows as they read.

Keys and values are floats, or codes of 8 or 4 bits. Codes of 4 bits are two to a byte: in queries and results, the columns in the low
bits come first, then those in the high bits.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.cpu import Target
from ort_lite.native.lang import Ptr, Static, StaticInt, emitter, native, shift
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.softmax import vectors_for

FLOATS = 32
"""The `bits` of keys and values that are no codes."""
ACROSS = 4
"""The vectors of a tile of results."""


class RowVectors(NamedTuple):
    """The most rows of a tile, the lanes of a vector, and those of exponentials (see `PackedKeys`)."""

    rows: StaticInt
    lanes: StaticInt
    exponentials: StaticInt


class Matrix(NamedTuple):
    """A matrix in memory whose rows are `step` elements apart."""

    at: Ptr
    step: int


def row_vectors(native: str, target: Target, bits: int = FLOATS) -> RowVectors:
    """Return the tile whose sums and operands fit the registers, for elements of "f32" or "f64"."""
    most = 4 if target.vector_registers == 32 else 2 if target.has_fma or bits != 4 else 1
    return RowVectors(most, tile_for(native, target).lanes, vectors_for(native, target)["lanes"])


@native(inline=False)
def score_rows(
    x: Matrix, keys: Matrix, s: Matrix, n: int, first: int, last: int, many: int, most: Static, lanes: Static, bits: Static
) -> None:
    """s (many, .)[:, first:last] = x (many, .) @ keys[first:last]^T; a key is n elements in memory.

    If keys are codes, each row of x ends with what is added to its scores. The bits of a score depend on neither first, last nor many.
    """
    i, ahead = 0, (last - first) * keys.step
    if most == 4:
        while i + 4 <= many:
            left, out = Matrix(shift(x.at, i * x.step), x.step), Matrix(shift(s.at, i * s.step), s.step)
            score_tiles(left, keys, out, n, first, last, ahead, 4, lanes, bits)
            i, ahead = i + 4, 0
    if most > 1:
        while i + 2 <= many:
            left, out = Matrix(shift(x.at, i * x.step), x.step), Matrix(shift(s.at, i * s.step), s.step)
            score_tiles(left, keys, out, n, first, last, ahead, 2, lanes, bits)
            i, ahead = i + 2, 0
    while i < many:
        left, out = Matrix(shift(x.at, i * x.step), x.step), Matrix(shift(s.at, i * s.step), s.step)
        score_tiles(left, keys, out, n, first, last, ahead, 1, lanes, bits)
        i, ahead = i + 1, 0


@native(inline=False)
def blend_rows(
    p: Matrix, values: Matrix, y: Matrix, n: int, first: int, last: int, many: int, most: Static, lanes: Static, bits: Static
) -> None:
    """y (many, .) += p (many, .)[:, first:last] @ values[first:last]; a row of values is n elements in memory."""
    at, count = 0, last - first
    across = ACROSS // 2 if bits == 4 else ACROSS
    while at < n:
        width = across * lanes if at + across * lanes <= n else min(lanes, n - at)
        right = Matrix(shift(values.at, first * values.step + at), values.step)
        i, ahead = 0, count * values.step
        while i < many:
            rows = 1 if i + 2 > many or most == 1 else 4 if most == 4 and i + 4 <= many else 2
            left, out = Matrix(shift(p.at, i * p.step + first), p.step), Matrix(shift(y.at, i * y.step + at), y.step)
            if width < across * lanes:
                for r in range(rows):
                    own, own_out = Matrix(shift(left.at, r * p.step), p.step), Matrix(shift(out.at, r * y.step), y.step)
                    blend_tile(own, right, own_out, n, count, ahead, width, 1, 1, lanes, bits)
            elif rows == 1:
                blend_tile(left, right, out, n, count, ahead, width, 1, ACROSS, lanes, bits)
            elif rows == 2 or most != 4:
                blend_tile(left, right, out, n, count, ahead, width, 2, ACROSS, lanes, bits)
            else:
                blend_tile(left, right, out, n, count, ahead, width, 4, ACROSS, lanes, bits)
            i, ahead = i + rows, 0
        at += width


@emitter("void(*F,i64,*T,i64,*F,i64,i64,i64,i64,i64,static,static,static)")
def score_tiles(
    builder: Any, x: Any, keys: Any, s: Any, n: Any, first: Any, last: Any, ahead: Any, rows: int, lanes: int, bits: int
) -> None:
    """s (rows, .)[:, first:last] = x (rows, .) @ keys[first:last]^T. Keys `ahead` elements further on are prefetched."""
    emit = Vectors(builder, x.at.type.pointee, lanes)
    columns, parts = 16 // emit.nbytes, 2 if bits == 4 else 1
    queries = [emit.move(x.at, emit.mul(x.step, i)) for i in range(rows)]
    outputs = [emit.move(s.at, emit.mul(s.step, i)) for i in range(rows)]
    begun = [emit.zero if bits == FLOATS else _first_lane(emit, emit.move(query, emit.mul(n, parts))) for query in queries]

    def tile(t: Any, count: Any) -> None:
        """Compute the scores of keys t to t + count; those beyond count repeat the last one."""
        numbers = [t] + [
            builder.add(t, emit.integer(j) if count is None else _least(emit, j, builder.sub(count, emit.integer(1))))
            for j in range(1, columns)
        ]
        own = [emit.move(keys.at, builder.mul(number, keys.step)) for number in numbers]
        for key in () if bits == FLOATS else own:
            emit.prefetch(emit.move(key, ahead))

        def add(at: Any, sums: Sequence[Any], mask: Any = None) -> list[Any]:
            for key in own if mask is None and bits == FLOATS else ():
                emit.prefetch(emit.move(key, builder.add(at, ahead)))
            places = [builder.add(at, emit.mul(n, part)) for part in range(parts)]
            left = [[emit.load(emit.move(query, place), 0, mask) for place in places] for query in queries]
            sums = list(sums)
            for j, key in enumerate(own):
                for part, right in enumerate(_load(emit, emit.move(key, at), bits, mask)):
                    for i in range(rows):
                        sums[i * columns + j] = emit.fma(left[i][part], right, sums[i * columns + j])
            return sums

        at, sums = emit.loop(emit.integer(0), n, lanes, [start for start in begun for _ in own], add)
        rest = builder.sub(n, at)
        some = builder.icmp_signed(">", rest, emit.integer(0))
        sums = emit.when(some, sums, lambda old: add(at, old, emit.mask(rest)))
        for i, output in enumerate(outputs):
            _store(emit, _add_lanes(emit, sums[i * columns : (i + 1) * columns]), emit.move(output, t), count)

    def whole(t: Any, _: Sequence[Any]) -> list[Any]:
        tile(t, None)
        return []

    t, _ = emit.loop(first, last, columns, [], whole)
    rest = builder.sub(last, t)
    with builder.if_then(builder.icmp_signed(">", rest, emit.integer(0))):
        tile(t, rest)


@emitter("void(*F,i64,*T,i64,*F,i64,i64,i64,i64,i64,static,static,static,static)")
def blend_tile(
    builder: Any,
    p: Any,
    values: Any,
    y: Any,
    n: Any,
    count: Any,
    ahead: Any,
    width: Any,
    rows: int,
    vectors: int,
    lanes: int,
    bits: int,
) -> None:
    """y (rows, .) += p (rows, count) @ values (count, width): `vectors` vectors of results, or a part of one for each number in a code.

    `n` columns lie between the numbers of a code.
    """
    emit = Vectors(builder, y.at.type.pointee, lanes)
    parts = 2 if bits == 4 else 1
    across = max(vectors // parts, 1)
    mask = emit.mask(width) if vectors == 1 else None
    factors = [emit.move(p.at, emit.mul(p.step, i)) for i in range(rows)]
    places = [emit.move(y.at, builder.add(emit.mul(y.step, i), emit.mul(n, k))) for i in range(rows) for k in range(parts)]
    sums = [emit.load(place, j * lanes, mask) for place in places for j in range(across)]

    def add(t: Any, sums: Sequence[Any]) -> list[Any]:
        row = emit.move(values.at, builder.mul(t, values.step))
        for j in range(across if bits == FLOATS else 1):
            emit.prefetch(emit.move(row, builder.add(ahead, emit.integer(j * lanes))))
        right = [_load(emit, emit.move(row, emit.integer(j * lanes)), bits, mask) for j in range(across)]
        left = [emit.splat(builder.load(emit.move(factor, t))) for factor in factors]
        pairs = [(a, b[k]) for a in left for k in range(parts) for b in right]
        return [emit.fma(a, b, total) for (a, b), total in zip(pairs, sums, strict=True)]

    _, sums = emit.loop(emit.integer(0), count, 1, sums, add)
    for i, place in enumerate(places):
        for j in range(across):
            emit.store(sums[i * across + j], place, j * lanes, mask)


# --- Parts of tiles
def _load(emit: Vectors, pointer: Any, bits: int, mask: Any) -> list[Any]:
    """Return the numbers of a vector of elements: floats, codes of 8 bits, or the low and the high half of bytes."""
    if bits == FLOATS:
        return [emit.load(pointer, 0, mask)]
    ir, builder = emit.ir, emit.builder
    kind, wide = (ir.VectorType(ir.IntType(width), emit.lanes) for width in (8, 32))
    pointer = builder.bitcast(pointer, kind.as_pointer())
    codes = builder.load(pointer, align=1) if mask is None else emit.masked_load(pointer, kind, 1, mask)
    if bits == 8:
        return [builder.sitofp(builder.sext(codes, wide), emit.type)]
    codes = builder.zext(codes, wide)
    halves = builder.and_(codes, ir.Constant(wide, [15] * emit.lanes)), builder.lshr(codes, ir.Constant(wide, [4] * emit.lanes))
    return [builder.sitofp(half, emit.type) for half in halves]


def _first_lane(emit: Vectors, pointer: Any) -> Any:
    """Return a vector with an element in its first lane, and zeros in the others."""
    first = emit.ir.Constant(emit.ir.IntType(32), 0)
    return emit.builder.insert_element(emit.zero, emit.builder.load(pointer), first)


def _least(emit: Vectors, number: int, limit: Any) -> Any:
    there = emit.integer(number)
    return emit.builder.select(emit.builder.icmp_signed("<", there, limit), there, limit)


def _add_lanes(emit: Vectors, sums: list[Any]) -> Any:
    """Return a vector of 16 bytes with the sum of the lanes of each vector; there are as many as its elements."""
    builder, ir = emit.builder, emit.ir
    block = len(sums)

    def shuffle(a: Any, b: Any, order: Sequence[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order)))

    width = 1
    while len(sums) > 1:  # in each 16 bytes: the first halves of both, plus the second halves of both
        half = block // 2 // width
        orders = [
            [
                start + side * emit.lanes + (part * half + piece) * width + k
                for start in range(0, emit.lanes, block)
                for piece in range(half)
                for side in range(2)
                for k in range(width)
            ]
            for part in range(2)
        ]
        sums = [builder.fadd(*(shuffle(a, b, order) for order in orders)) for a, b in zip(sums[::2], sums[1::2], strict=True)]
        width *= 2
    [total] = sums
    count = emit.lanes
    while count > block:
        count //= 2
        total = builder.fadd(*(shuffle(total, total, range(start, start + count)) for start in (0, count)))
    return total


def _store(emit: Vectors, value: Any, place: Any, count: Any) -> None:
    """Write the vector, or its first `count` elements."""
    builder = emit.builder
    if count is None:
        builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=emit.nbytes)
        return
    for k in range(value.type.count):
        with builder.if_then(builder.icmp_signed("<", emit.integer(k), count)):
            element = builder.extract_element(value, emit.ir.Constant(emit.ir.IntType(32), k))
            builder.store(element, emit.move(place, emit.integer(k)))
