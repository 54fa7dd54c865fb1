"""Planes that are resized along rows and columns at once, in strips of bands of rows: the part of `interpolate_planes` in registers."""

from typing import Any, NamedTuple

from ort_lite.native.lang import Ptr, Static, StaticInt, imax, imin, like, native, shift
from ort_lite_cpu.kernels.strips import LEAST, StripColumns, StripRows, resize_strip

BAND = 8192
"""The elements, of x and y, of a band of rows whose strips are computed one after the other: the first cache level holds them."""
FEW_ROWS, SOME_ROWS = 4, 12
"""The fewest rows of a band, and those that it has if rows of y are long, and those of x short."""
LONG, FAR = 128, 1 << 19
"""Rows of LONG elements are written one after the other where they become twice as many, or at least as many if y has FAR elements.

Strip by strip, writes would jump from row to row, which no CPU prefetches.
"""
HELD = 6
"""The rows of x for which there are lines then."""


class ResizedPlanes(NamedTuple):
    """The sizes of planes (outer, height, width, inner) and of the resized ones (outer, rows, columns, inner)."""

    outer: int
    height: int
    width: int
    rows: int
    columns: int
    inner: int
    entries: int
    """The entries of a table of columns: `table_entries`."""
    room: int
    """The elements of a part's lines: a row of x, or two of the result's length, HELD if there are strips."""
    lanes: StaticInt
    """The lanes of strips: `strip_lanes`; 0 if there are none."""


class ResizeTables(NamedTuple):
    """Tables of the rows and columns of resized planes."""

    elements: Ptr
    """(2, entries): the elements of a row between which each entry lies."""
    bases: Ptr
    """The element with which the windows of each vector begin: see `_place_strips`."""
    weights: Ptr
    """(entries,): the weight of the second element."""
    lows: Ptr
    """(rows,): the row of x in front of each."""
    fractions: Ptr
    """(2, rows): the weight of the next row, and 1 less that."""
    lines: Ptr
    """(room,): resized rows of x."""


def blend_row(a: Ptr, b: Ptr, y: Ptr, w: Any, size: int, nearest: Static) -> int:
    """y (size,) = a * (1 - w) + b * w, or a if the weight is 0."""
    if nearest != "" or w == like(w, 0):
        for j in range(size):
            y[j] = a[j]
    else:
        rest = like(w, 1) - w
        for j in range(size):
            y[j] = a[j] * rest + b[j] * w
    return 0


def by_strips(
    x: Ptr, y: Ptr, tables: ResizeTables, g: ResizedPlanes, nearest: Static, lanes: Static, part: int, parts: int
) -> int:
    """Compute this part of y by strips, of two vectors where possible. Return 0 if windows are too few, or rows are too short."""
    if lanes == 0:
        return 0
    first, last = g.outer * g.rows * part // parts, g.outer * g.rows * (part + 1) // parts
    windows = _place_strips(tables, g, nearest, 2, lanes) if g.entries >= 2 * lanes else 0
    if windows == 1:
        return _strips(x, y, tables, g, nearest, 1, 2, lanes, first, last)
    if windows == 2:
        return _strips(x, y, tables, g, nearest, 2, 2, lanes, first, last)
    windows = _place_strips(tables, g, nearest, 1, lanes)
    if windows == 1:
        return _strips(x, y, tables, g, nearest, 1, 1, lanes, first, last)
    if windows == 2:
        return _strips(x, y, tables, g, nearest, 2, 1, lanes, first, last)
    if windows == 0 or lanes == LEAST:  # gathers cost less than four permutations of so few lanes
        return 0
    if windows == 3:
        return _strips(x, y, tables, g, nearest, 3, 1, lanes, first, last)
    return _strips(x, y, tables, g, nearest, 4, 1, lanes, first, last)


def _place_strips(tables: ResizeTables, g: ResizedPlanes, nearest: Static, vectors: Static, lanes: Static) -> int:
    """bases = the element with which the windows of each vector begin.

    Return the windows that each needs, or 0: more than 4, or rows are shorter than vectors without a mask.
    """
    table, pitch, reach, width = tables.elements, g.width * g.inner, 0, vectors * lanes
    count = (g.entries + width - 1) // width * vectors
    for vector in range(count):
        first = imax(imin(vector // vectors * width, g.entries - width), 0) + vector % vectors * lanes
        low, high = table[first], table[first]
        for k in range(first, imin(first + lanes, g.entries)):
            low, high = imin(low, table[k]), imax(high, table[k] if nearest != "" else table[g.entries + k])
        tables.bases[vector] = low
        reach = imax(reach, high - low + 1)
    windows: int = (reach + lanes - 1) // lanes
    if windows > 4 or (lanes == LEAST and (g.entries < lanes or pitch < windows * lanes)):
        return 0
    for vector in range(count):
        tables.bases[vector] = imax(imin(tables.bases[vector], pitch - windows * lanes), 0)
    return windows


@native(inline=False)
def _strips(
    x: Ptr,
    y: Ptr,
    tables: ResizeTables,
    g: ResizedPlanes,
    nearest: Static,
    windows: Static,
    vectors: Static,
    lanes: Static,
    row: int,
    last: int,
) -> int:
    """Compute the rows of y from `row` to `last` in bands. Return 1."""
    pitch, size = g.width * g.inner, g.entries
    most = imin(BAND // (size + pitch * g.height // imax(g.rows, 1)), imax(BAND // (2 * size), SOME_ROWS))
    single = g.height == 1 and g.rows == 1  # neighboring rows are of different images
    times = 1 if g.outer * g.rows * size >= FAR else 2
    apart = size >= LONG and g.rows >= times * g.height and not single
    while row < last:
        image, r = row // g.rows, row % g.rows
        left = last - row if single else imin(last - row, g.rows - r)
        count = left if apart else imin(left, imax(most, FEW_ROWS))
        source, target, fractions = shift(x, image * g.height * pitch), shift(y, row * size), shift(tables.fractions, r)
        rows = StripRows(shift(tables.lows, r), fractions, shift(fractions, g.rows), count, g.height, pitch, size)
        if apart:
            count = _by_lines(source, target, tables, rows, g, nearest, windows, vectors, lanes)
        elif single:
            _band(source, target, tables, rows, g.inner, "each", nearest, windows, vectors, lanes)
        elif nearest != "":
            _band(source, target, tables, rows, g.inner, "low", nearest, windows, vectors, lanes)
        elif g.rows < g.height:
            _band(source, target, tables, rows, g.inner, "rows", nearest, windows, vectors, lanes)
        else:
            _band(source, target, tables, rows, g.inner, "columns", nearest, windows, vectors, lanes)
        row += count
    return 1


def _band(
    x: Ptr,
    y: Ptr,
    tables: ResizeTables,
    rows: StripRows,
    step: int,
    order: Static,
    nearest: Static,
    windows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """y = the rows of a band, strip by strip. step: the elements of a row of x from one column to the next."""
    width, size = vectors * lanes, rows.size
    for strip in range((size + width - 1) // width):
        first = imax(imin(strip * width, size - width), 0)
        elements, weights = shift(tables.elements, first), shift(tables.weights, first)
        columns = StripColumns(elements, weights, shift(tables.bases, strip * vectors), size - first, step)
        resize_strip(x, shift(y, first), columns, rows, order, nearest, windows, vectors, lanes)


def _by_lines(
    x: Ptr,
    y: Ptr,
    tables: ResizeTables,
    rows: StripRows,
    g: ResizedPlanes,
    nearest: Static,
    windows: Static,
    vectors: Static,
    lanes: Static,
) -> int:
    """y = rows between HELD rows of x, one after the other. Return their number."""
    lows, size, lines = rows.lows, rows.size, tables.lines
    first, last, count = lows[0], lows[0], 0
    while count < rows.length and lows[count] >= first and lows[count] + 1 < first + HELD:
        last, count = imax(last, lows[count]), count + 1
    last = last if nearest != "" else imin(last + 1, g.height - 1)
    held = StripRows(lows, rows.fractions, rows.rests, last - first + 1, g.height, rows.pitch, size)
    _band(shift(x, first * rows.pitch), lines, tables, held, g.inner, "each", nearest, windows, vectors, lanes)
    for r in range(count):
        above, below = lows[r] - first, imin(lows[r] + 1, last) - first
        blend_row(shift(lines, above * size), shift(lines, below * size), shift(y, r * size), rows.fractions[r], size, nearest)
    return count
