"""Kernels that lowering itself needs: copies, changes of storage order, and small tensors with known contents."""

from typing import NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, address, native, shift, span
from ort_lite_cpu.kernels.access import fetch, put
from ort_lite_cpu.kernels.square import LARGE, transpose_beside, transpose_block, transpose_bytes

CHUNK, WIDTH = 256, 64
"""Rows and columns that one part of a transposition takes at once. The CPU fetches the four cache lines of 64 columns ahead by itself,
those of 32 it does not; asking for the next tile helps less.
"""


@native
def nothing(part: int, parts: int) -> int:
    """Do nothing, in place of an instruction whose results have no elements: its loops may be as long as a model likes."""
    return OK


@native
@extents(x="count", y="count")
def copy(x: Ptr, y: Ptr, count: int, part: int, parts: int) -> int:
    """y[i] = x[i]. Nothing is moved if both are the same memory."""
    if address(x) == address(y):
        return OK
    for i in span(count, part, parts):
        y[i] = x[i]
    return OK


class LoopCounts(NamedTuple):
    """Turns of six nested loops, the outermost first."""

    n0: int
    n1: int
    n2: int
    n3: int
    n4: int
    n5: int


PIECES = 4
"""The least pieces for each part of a copy that has few rows."""


class StridedView(NamedTuple):
    """Elements at `at` + i0 * s0 + ... + i5 * s5 of a tensor, for the indices of six nested loops."""

    at: int
    s0: int
    s1: int
    s2: int
    s3: int
    s4: int
    s5: int


@native
@extents(
    x="walk(s.at, n.n0, s.s0, n.n1, s.s1, n.n2, s.s2, n.n3, s.s3, n.n4, s.s4, n.n5, s.s5)",
    y="walk(t.at, n.n0, t.s0, n.n1, t.s1, n.n2, t.s2, n.n3, t.s3, n.n4, t.s4, n.n5, t.s5)",
)
def copy_by_strides(x: Ptr, y: Ptr, n: LoopCounts, s: StridedView, t: StridedView, dense: Static, part: int, parts: int) -> int:
    """y[t(i)] = x[s(i)] for all i in n; strides in elements. dense: s.s5 and t.s5 are 1.

    Parts share rows, the turns of the four outer loops, or pieces of rows if there are few.
    """
    rows = n.n0 * n.n1 * n.n2 * n.n3
    if parts > 1 and rows < PIECES * parts:
        cuts = (PIECES * parts + rows - 1) // max(rows, 1)
        _copy_pieces(x, y, n, s, t, dense, cuts, rows * cuts * part // parts, rows * cuts * (part + 1) // parts)
        return OK
    _copy_rows(x, y, n, s, t, dense, rows * part // parts, rows * (part + 1) // parts)
    return OK


@native(inline=False)
def _copy_rows(x: Ptr, y: Ptr, n: LoopCounts, s: StridedView, t: StridedView, dense: Static, start: int, stop: int) -> None:
    """Copy the rows from `start` to `stop`."""
    left, source, target = 0, 0, 0
    for row in range(start, stop):
        if left == 0:  # the first row of a loop; divisions for each row would take longer than a copy of a few elements
            i3 = row % n.n3
            rest = row // n.n3
            i2 = rest % n.n2
            rest = rest // n.n2
            i1 = rest % n.n1
            i0 = rest // n.n1
            source = s.at + i0 * s.s0 + i1 * s.s1 + i2 * s.s2 + i3 * s.s3
            target = t.at + i0 * t.s0 + i1 * t.s1 + i2 * t.s2 + i3 * t.s3
            left = n.n3 - i3
        for i in range(n.n4):
            if dense:
                for j in range(n.n5):
                    y[target + i * t.s4 + j] = x[source + i * s.s4 + j]
            else:
                for j in range(n.n5):
                    y[target + i * t.s4 + j * t.s5] = x[source + i * s.s4 + j * s.s5]
        left -= 1
        source += s.s3
        target += t.s3


@native(inline=False)
def _copy_pieces(
    x: Ptr, y: Ptr, n: LoopCounts, s: StridedView, t: StridedView, dense: Static, cuts: int, start: int, stop: int
) -> None:
    """Copy the pieces of rows from `start` to `stop`, of which each row has `cuts`."""
    for number in range(start, stop):
        i, piece = _indices(n, number // cuts), number % cuts
        by_lines = n.n4 >= cuts
        first, lines = _turns(n.n4, piece, cuts) if by_lines else (0, n.n4)
        begin, length = (0, n.n5) if by_lines else _turns(n.n5, piece, cuts)
        source = _position(s, i) + first * s.s4 + begin * s.s5
        target = _position(t, i) + first * t.s4 + begin * t.s5
        _copy_lines(x, y, source, target, lines, length, s, t, dense)


@native
def _copy_lines(
    x: Ptr, y: Ptr, source: int, target: int, lines: int, length: int, s: StridedView, t: StridedView, dense: Static
) -> None:
    """Copy lines of so many elements."""
    for i in range(lines):
        if dense:
            for j in range(length):
                y[target + i * t.s4 + j] = x[source + i * s.s4 + j]
        else:
            for j in range(length):
                y[target + i * t.s4 + j * t.s5] = x[source + i * s.s4 + j * s.s5]


@native
def _indices(n: LoopCounts, row: int) -> LoopCounts:
    """Return the indices of the outer loops in a row."""
    i3 = row % n.n3
    rest = row // n.n3
    i2 = rest % n.n2
    rest = rest // n.n2
    return LoopCounts(rest // n.n1, rest % n.n1, i2, i3, 0, 0)


@native
def _position(view: StridedView, i: LoopCounts) -> int:
    """Return the position of the element at the indices of the outer loops."""
    return view.at + i.n0 * view.s0 + i.n1 * view.s1 + i.n2 * view.s2 + i.n3 * view.s3


@native
def _turns(count: int, piece: int, cuts: int) -> tuple[int, int]:
    """Return the first turn of a piece of a loop, and how many it has."""
    first = count * piece // cuts
    return first, count * (piece + 1) // cuts - first


@native
@extents(x="given", y="given", table="3 * rank")
def copy_by_table(x: Ptr, y: Ptr, table: Ptr, at_x: int, at_y: int, rank: int, part: int, parts: int) -> int:
    """y[at_y + i . t] = x[at_x + i . s] for any number of loops; table (3, rank) has their turns, strides of x, strides of y."""
    rows = 1
    for k in range(rank - 1):
        rows *= table[k]
    for row in span(rows, part, parts):
        source, target, rest = at_x, at_y, row
        for k in range(rank - 2, -1, -1):
            i = rest % table[k]
            rest = rest // table[k]
            source += i * table[rank + k]
            target += i * table[2 * rank + k]
        for j in range(table[rank - 1]):
            y[target + j * table[3 * rank - 1]] = x[source + j * table[2 * rank - 1]]
    return OK


@native
@extents(value="1", y="count")
def fill(value: Ptr, y: Ptr, count: int, part: int, parts: int) -> int:
    """y[i] = value[0]."""
    v = value[0]
    for i in span(count, part, parts):
        y[i] = v
    return OK


@native
@extents(x="outer * rows * columns", y="outer * rows * columns")
def swap(x: Ptr, y: Ptr, outer: int, rows: int, columns: int, of_bytes: Static, part: int, parts: int) -> int:
    """y[o, c, r] = x[o, r, c] for x (outer, rows, columns), in tiles that fit the first cache level."""
    tiles, chunks = (columns + WIDTH - 1) // WIDTH, (rows + CHUNK - 1) // CHUNK
    for job in span(outer * tiles * chunks, part, parts):
        base = job // (tiles * chunks) * rows * columns
        first, top = job // chunks % tiles * WIDTH, job % chunks * CHUNK
        height, width = min(rows - top, CHUNK), min(columns - first, WIDTH)
        source, target = shift(x, base + top * columns + first), shift(y, base + first * rows + top)
        if of_bytes:
            r, c = height // LARGE * LARGE, width // LARGE * LARGE
            for j in range(0, r, LARGE):
                for i in range(0, c, LARGE):
                    transpose_bytes(shift(source, j * columns + i), columns, shift(target, i * rows + j), rows)
            transpose_beside(source, columns, target, rows, height, width, r, c)
        else:
            transpose_block(source, columns, target, rows, height, width)
    return OK


@native
@extents(x="outer * few * count", y="outer * few * count")
def weave(x: Ptr, y: Ptr, outer: int, count: int, few: Static, part: int, parts: int) -> int:
    """y[o, c, r] = x[o, r, c] for x (outer, few, count): a few rows interleaved. Parts share runs of 1,024."""
    runs = (count + 1023) // 1024
    for job in span(outer * runs, part, parts):
        base = (job // runs) * few * count
        first = (job % runs) * 1024
        for c in range(first, min(first + 1024, count)):
            for r in range(few):
                put(y, base + c * few + r, fetch(x, base + r * count + c))
    return OK


@native
@extents(x="outer * few * count", y="outer * few * count")
def unweave(x: Ptr, y: Ptr, outer: int, count: int, few: Static, part: int, parts: int) -> int:
    """y[o, c, r] = x[o, r, c] for x (outer, count, few): the reverse of `weave`."""
    runs = (count + 1023) // 1024
    for job in span(outer * runs, part, parts):
        base = (job // runs) * few * count
        first = (job % runs) * 1024
        for r in range(first, min(first + 1024, count)):
            for c in range(few):
                put(y, base + c * count + r, fetch(x, base + r * few + c))
    return OK


@native
@extents(y="at + count")
def store(
    y: Ptr, at: int, count: int, v0: int, v1: int, v2: int, v3: int, v4: int, v5: int, v6: int, v7: int, part: int, parts: int
) -> int:
    """y[at : at + count] = the first of v0 to v7: contents known as symbolic integers become memory."""
    for i in range(count):
        v = v0
        if i == 1:
            v = v1
        elif i == 2:
            v = v2
        elif i == 3:
            v = v3
        elif i == 4:
            v = v4
        elif i == 5:
            v = v5
        elif i == 6:
            v = v6
        elif i == 7:
            v = v7
        y[at + i] = v
    return OK
