"""The two products of attention for a few query rows, over keys and values that are read in place, in vectors.

A tile of scores is a few rows by as many keys as 16 bytes have elements: each key is read once for all rows, and the lanes of all sums
of a row are added together. A tile of results stays in registers while it adds up values. Both prefetch as many rows as they read.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.cpu import Target
from ort_lite.native.lang import Ptr, Static, StaticInt, emitter, native, shift
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.softmax import vectors_for


class RowVectors(NamedTuple):
    """The most rows of a tile, the lanes of a vector, and those of exponentials (see `PackedKeys`)."""

    rows: StaticInt
    lanes: StaticInt
    exponentials: StaticInt


def row_vectors(native: str, target: Target) -> RowVectors:
    """Return the tile whose sums and operands fit the registers, for elements of "f32" or "f64"."""
    most = 4 if target.vector_registers == 32 else 2
    return RowVectors(most, tile_for(native, target).lanes, vectors_for(native, target)["lanes"])


ACROSS = 4
"""The vectors of a tile of results."""


@native(inline=False)
def score_rows(
    x: Ptr, keys: Ptr, step: int, first: int, last: int, many: int, size: int, s: Ptr, length: int, most: Static, lanes: Static
) -> None:
    """s (many, length)[:, first:last] = x (many, size) @ keys[first:last]^T, rows of keys `step` apart.

    A score has the same bits, whatever first, last and many are.
    """
    i, ahead = 0, (last - first) * step
    if most == 4:
        while i + 4 <= many:
            score_tiles(shift(x, i * size), size, keys, step, ahead, first, last, shift(s, i * length), length, 4, lanes)
            i, ahead = i + 4, 0
    while i + 2 <= many:
        score_tiles(shift(x, i * size), size, keys, step, ahead, first, last, shift(s, i * length), length, 2, lanes)
        i, ahead = i + 2, 0
    if i < many:
        score_tiles(shift(x, i * size), size, keys, step, ahead, first, last, shift(s, i * length), length, 1, lanes)


@native(inline=False)
def blend_rows(
    p: Ptr,
    length: int,
    values: Ptr,
    step: int,
    first: int,
    last: int,
    many: int,
    size: int,
    y: Ptr,
    most: Static,
    lanes: Static,
) -> None:
    """y (many, size) += p (many, length)[:, first:last] @ values[first:last], rows of values `step` apart."""
    at, n = 0, last - first
    begin = shift(values, first * step)
    while at < size:
        width = ACROSS * lanes if at + ACROSS * lanes <= size else min(lanes, size - at)
        i, ahead = 0, n * step
        while i < many:
            rows = 1 if i + 2 > many else 4 if most == 4 and i + 4 <= many else 2
            own, v, out = shift(p, i * length + first), shift(begin, at), shift(y, i * size + at)
            if width == ACROSS * lanes:
                if rows == 1:
                    blend_tile(own, length, v, step, ahead, n, out, size, width, 1, ACROSS, lanes)
                elif rows == 2 or most != 4:
                    blend_tile(own, length, v, step, ahead, n, out, size, width, 2, ACROSS, lanes)
                else:
                    blend_tile(own, length, v, step, ahead, n, out, size, width, 4, ACROSS, lanes)
            else:
                for r in range(rows):
                    blend_tile(
                        shift(own, r * length), length, v, step, ahead, n, shift(out, r * size), size, width, 1, 1, lanes
                    )
            i, ahead = i + rows, 0
        at += width


@emitter("void(*F,i64,*F,i64,i64,i64,i64,*F,i64,static,static)")
def score_tiles(
    builder: Any,
    x: Any,
    size: Any,
    keys: Any,
    step: Any,
    ahead: Any,
    first: Any,
    last: Any,
    s: Any,
    length: Any,
    rows: int,
    lanes: int,
) -> None:
    """s (rows, length)[:, first:last] = x (rows, size) @ keys[first:last]^T. Keys `ahead` elements further on are prefetched."""
    emit = Vectors(builder, x.type.pointee, lanes)
    columns = 16 // emit.nbytes
    queries = [emit.move(x, emit.mul(size, i)) for i in range(rows)]
    outputs = [emit.move(s, emit.mul(length, i)) for i in range(rows)]

    def tile(t: Any, count: Any) -> None:
        """Compute the scores of keys t to t + count; those beyond count repeat the last one."""
        numbers = [t] + [
            builder.add(t, emit.integer(j) if count is None else _least(emit, j, builder.sub(count, emit.integer(1))))
            for j in range(1, columns)
        ]
        own = [emit.move(keys, builder.mul(number, step)) for number in numbers]
        sums = [emit.zero] * (rows * columns)

        def add(at: Any, sums: Sequence[Any], mask: Any = None) -> list[Any]:
            for key in own if mask is None else ():
                emit.prefetch(emit.move(key, builder.add(at, ahead)))
            left = [emit.load(emit.move(query, at), 0, mask) for query in queries]
            right = [emit.load(emit.move(key, at), 0, mask) for key in own]
            return [emit.fma(a, b, sums[i * columns + j]) for i, a in enumerate(left) for j, b in enumerate(right)]

        at, sums = emit.loop(emit.integer(0), size, lanes, sums, add)
        rest = builder.sub(size, at)
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


@emitter("void(*F,i64,*F,i64,i64,i64,*F,i64,i64,static,static,static)")
def blend_tile(
    builder: Any,
    p: Any,
    length: Any,
    values: Any,
    step: Any,
    ahead: Any,
    n: Any,
    y: Any,
    size: Any,
    width: Any,
    rows: int,
    across: int,
    lanes: int,
) -> None:
    """y (rows, width) += p (rows, n) @ values (n, width), rows `size`, `length` and `step` apart; width is at most one tile's."""
    emit = Vectors(builder, y.type.pointee, lanes)
    mask = emit.mask(width) if across == 1 else None
    outputs = [emit.move(y, emit.mul(size, i)) for i in range(rows)]
    factors = [emit.move(p, emit.mul(length, i)) for i in range(rows)]
    sums = [emit.load(output, j * lanes, mask) for output in outputs for j in range(across)]

    def add(t: Any, sums: Sequence[Any]) -> list[Any]:
        row = emit.move(values, builder.mul(t, step))
        for j in range(across):
            emit.prefetch(emit.move(row, builder.add(ahead, emit.integer(j * lanes))))
        right = [emit.load(row, j * lanes, mask) for j in range(across)]
        left = [emit.splat(builder.load(emit.move(factor, t))) for factor in factors]
        return [emit.fma(a, b, sums[i * across + j]) for i, a in enumerate(left) for j, b in enumerate(right)]

    _, sums = emit.loop(emit.integer(0), n, 1, sums, add)
    for i, output in enumerate(outputs):
        for j in range(across):
            emit.store(sums[i * across + j], output, j * lanes, mask)
