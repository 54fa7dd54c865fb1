"""The loops of NonMaxSuppression: boxes compared with sixteen kept ones at a time.

Kept boxes lie in strips, by their lower y. A box is compared with those of the strips that can reach it: of a detector that moves the
boxes of each class to a place of their own, with few others.
"""

import math
from typing import Any

from ort_lite.native.lang import STRICT, Ptr, StaticInt, cast, emitter, imax, imin, like, native, read_once, select, shift
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.heaps import index_of

LANES = 16
"""The boxes of a block, which has their lower y, lower x, upper y, upper x and area in five rows."""
ROWS = 5
BLOCK = ROWS * LANES

STRIPS, SHARE, STRIP_ROWS = 128, 128, 3
"""The most strips of a class, the boxes for each of them, and the rows of their table: the first block, the kept boxes, the room."""


@emitter("b1(*f32,f32,f32,f32,f32,f32,f32)")
def overlaps_any(builder: Any, block: Any, top: Any, left: Any, bottom: Any, right: Any, area: Any, limit: Any) -> Any:
    """Return True if the intersection of a box with one of a block is more than `limit` of their union. Rounds like onnxruntime.

    Only if some intersection reaches limit * union are they divided: a rounded quotient above the limit implies it. An intersection
    above 0 implies that both areas and the union are, since rounding keeps the order of numbers. A NaN never overlaps: the area is NaN.
    """
    emit = Vectors(builder, top.type, LANES)
    tops, lefts, bottoms, rights, areas = (emit.load(block, row * LANES) for row in range(ROWS))
    tall = emit.sub(_smaller(emit, bottoms, bottom), _larger(emit, tops, top))
    wide = emit.sub(_smaller(emit, rights, right), _larger(emit, lefts, left))
    common = builder.fmul(builder.select(builder.fcmp_ordered(">", tall, emit.zero), tall, emit.zero), wide)
    union, limits = emit.sub(emit.add(areas, emit.splat(area)), common), emit.splat(limit)
    meets = builder.fcmp_ordered(">", common, emit.zero)
    close = builder.and_(meets, builder.fcmp_ordered(">=", common, builder.fmul(limits, union)))
    found = _any(emit, close)

    def divide(_: list[Any]) -> list[Any]:
        return [_any(emit, builder.and_(meets, builder.fcmp_ordered(">", builder.fdiv(common, union), limits)))]

    return emit.when(found, [found], divide)[0]


def _smaller(emit: Vectors, x: Any, scalar: Any) -> Any:
    y = emit.splat(scalar)
    return emit.builder.select(emit.builder.fcmp_ordered("<", x, y), x, y)


def _larger(emit: Vectors, x: Any, scalar: Any) -> Any:
    y = emit.splat(scalar)
    return emit.builder.select(emit.builder.fcmp_ordered(">", x, y), x, y)


def _any(emit: Vectors, mask: Any) -> Any:
    whole = emit.ir.IntType(emit.lanes)
    return emit.builder.icmp_unsigned("!=", emit.builder.bitcast(mask, whole), emit.ir.Constant(whole, 0))


@native(fastmath=STRICT)
def low(boxes: Ptr, at: int, axis: int, centred: StaticInt) -> Any:
    """Return the smaller coordinate of the box along an axis: corners come in any order, or as centre and size, which are x and y."""
    if centred:
        return read_once(boxes, at + 1 - axis) - read_once(boxes, at + 3 - axis) / like(boxes, 2)
    a, b = read_once(boxes, at + axis), read_once(boxes, at + axis + 2)
    return min(a, b)


@native(fastmath=STRICT)
def high(boxes: Ptr, at: int, axis: int, centred: StaticInt) -> Any:
    """Return the upper bound of a box along an axis."""
    if centred:
        return read_once(boxes, at + 1 - axis) + read_once(boxes, at + 3 - axis) / like(boxes, 2)
    a, b = read_once(boxes, at + axis), read_once(boxes, at + axis + 2)
    return max(a, b)


@native(fastmath=STRICT)
def strip_of(y: Any, start: Any, scale: Any, number: int) -> int:
    """Return the strip of a coordinate. It does not fall while the coordinate rises, however both are rounded; 0 for NaN."""
    strip: int = imin(imax(int(cast((y - start) * scale, "i32")), 0), number - 1)
    return strip


@native(fastmath=STRICT)
def divide(boxes: Ptr, heap: Ptr, first: int, n: int, most: int, table: Ptr, centred: StaticInt) -> Any:
    """Lay out strips for the n boxes of a heap, of which `most` may be kept. Return their start, scale, reach and number.

    No box ends more than `reach` strips above that of its lower y. There is one strip if boxes are few, or a quarter as tall as all.
    """
    start, scale, reach, number = like(boxes, 0), like(boxes, 0), 0, imin(imin(n, most) // SHARE, STRIPS)
    if number > 1:
        start, scale = bounds(boxes, heap, first, n, number, centred)
        for strip in range(number):
            table[2 * STRIPS + strip] = 0
        for i in range(n):
            at = index_of(heap[first + i]) * 4
            strip = strip_of(low(boxes, at, 0, centred), start, scale, number)
            table[2 * STRIPS + strip] += 1
            reach = imax(reach, strip_of(high(boxes, at, 0, centred), start, scale, number) - strip)
    if number < 2 or reach * 4 > number:
        scale, reach, number = like(boxes, 0), 0, 1
        table[2 * STRIPS] = n
    block = 0
    for strip in range(number):
        table[strip], table[STRIPS + strip] = block, 0
        block += (table[2 * STRIPS + strip] + LANES - 1) // LANES
    return start, scale, reach, number


@native(fastmath=STRICT)
def bounds(boxes: Ptr, heap: Ptr, first: int, n: int, number: int, centred: StaticInt) -> Any:
    """Return the lowest y of the boxes of a heap, and strips per unit of y; a NaN does not count."""
    lowest, highest = like(boxes, math.inf), like(boxes, -math.inf)
    for i in range(n):
        at = index_of(heap[first + i]) * 4
        a, b = low(boxes, at, 0, centred), high(boxes, at, 0, centred)
        lowest, highest = select(a < lowest, a, lowest), select(b > highest, b, highest)
    return lowest, like(boxes, number) / (highest - lowest)


@native(fastmath=STRICT)
def keep(
    boxes: Ptr,
    index: int,
    corners: Ptr,
    table: Ptr,
    start: Any,
    scale: Any,
    reach: int,
    number: int,
    limit: Any,
    centred: StaticInt,
) -> bool:
    """Return False if the box overlaps a kept one by more than the limit; else add it to the blocks at `corners`.

    The room of a strip is full only if another thread has moved the boxes meanwhile.
    """
    at = index * 4
    top, left = low(boxes, at, 0, centred), low(boxes, at, 1, centred)
    bottom, right = high(boxes, at, 0, centred), high(boxes, at, 1, centred)
    area, own = (right - left) * (bottom - top), strip_of(top, start, scale, number)
    for strip in range(imax(own - reach, 0), strip_of(bottom, start, scale, number) + 1):
        for block in range((table[STRIPS + strip] + LANES - 1) // LANES):
            if overlaps_any(shift(corners, (table[strip] + block) * BLOCK), top, left, bottom, right, area, limit):
                return False
    used = table[STRIPS + own]
    if used < table[2 * STRIPS + own]:
        table[STRIPS + own] = used + 1
        add(shift(corners, (table[own] + used // LANES) * BLOCK), used % LANES, top, left, bottom, right, area)
    return True


def add(block: Ptr, lane: int, top: Any, left: Any, bottom: Any, right: Any, area: Any) -> int:
    """Write a box to a lane of a block; the first one makes the others empty."""
    if lane == 0:
        for i in range(BLOCK):
            block[i] = like(block, 0)
    block[lane], block[LANES + lane], block[2 * LANES + lane] = top, left, bottom
    block[3 * LANES + lane], block[4 * LANES + lane] = right, area
    return lane
