"""Linear and nearest interpolation along two axes at once, through a buffer of a row or two."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ort_lite.dtypes import itemsize
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, cast, imax, imin, like, native, select, shift, span
from ort_lite.shapes import ceildiv, less, maximum, minimum, product
from ort_lite.shapes import select as either
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.access import fetch, put
from ort_lite_cpu.kernels.resized_planes import HELD, ResizedPlanes, ResizeTables, blend_row, by_strips
from ort_lite_cpu.kernels.strips import LEAST, strip_lanes
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.coordinates import AxisScale, as_coordinate, floor_of, nearest_of, source_coordinate

FEW = 16
"""Elements behind a column from which on a loop over them pays. With fewer, each has its entry in the table of columns."""


def table_entries(columns: Dim, inner: Dim) -> Dim:
    """Return the entries of the table of columns: one a column, or one an element where a column has few."""
    return columns * either(less(inner, FEW), inner, 1)


@native
@extents(
    x="g.outer * g.height * g.width * g.inner",
    y="g.outer * g.rows * g.columns * g.inner",
    table="parts * (2 * g.entries + g.rows + ceildiv(g.entries, LEAST) + 1)",
    weights="parts * (g.entries + 2 * g.rows)",
    lines="parts * g.room",
)
def interpolate_planes(
    x: Ptr,
    y: Ptr,
    table: Ptr,
    weights: Ptr,
    lines: Ptr,
    g: ResizedPlanes,
    down: AxisScale,
    across: AxisScale,
    unchanged: int,
    how: Static,
    nearest: Static,
    wide: Static,
    part: int,
    parts: int,
) -> int:
    """y = x, resized along rows and columns, or along rows only if not `wide`.

    The kernel fills table (parts, 2 * entries + rows + vectors), weights (parts, entries + 2 * rows) and lines (parts, room), and
    reads them. Vectors are those of strips, see `by_strips`.
    unchanged: 1 if the positions are those of x. Height and width are positive where rows and columns are: the lowering of Resize.
    """
    size, pitch = g.columns * g.inner, g.width * g.inner
    table = shift(table, part * (2 * g.entries + g.rows + (g.entries + LEAST - 1) // LEAST + 1))
    weights = shift(weights, part * (g.entries + 2 * g.rows))
    lines, lows, fractions = shift(lines, part * g.room), shift(table, 2 * g.entries), shift(weights, g.entries)
    if wide:
        _fill_table(table, weights, g, across, unchanged, how, nearest)
    for r in range(g.rows):
        c = coordinate(r, g.height, g.rows, down, unchanged, how, nearest)
        low = imin(imax(floor_of(c), 0), g.height - 1)
        w = like(weights, c - low)
        put(lows, r, low)
        put(fractions, r, w)
        put(fractions, g.rows + r, like(weights, 1) - w)
    tables = ResizeTables(table, shift(lows, g.rows), weights, lows, fractions, lines)
    if wide and g.inner < FEW and by_strips(x, y, tables, g, nearest, g.lanes, part, parts):
        return OK
    even, odd = -1, -1  # the rows of x that the two lines hold
    for row in span(g.outer * g.rows, part, parts):
        low, w = lows[row % g.rows], fractions[row % g.rows]
        first = row // g.rows * g.height + low
        last = first if w == like(w, 0) else first - low + imin(low + 1, g.height - 1)
        if not wide:
            blend_row(shift(x, first * pitch), shift(x, last * pitch), shift(y, row * size), w, size, nearest)
        elif g.rows < g.height:  # few rows of x serve two results
            if nearest != "":
                _columns(shift(x, first * pitch), shift(y, row * size), table, weights, g, nearest)
            else:
                blend_row(shift(x, first * pitch), shift(x, last * pitch), lines, w, pitch, nearest)
                _columns(lines, shift(y, row * size), table, weights, g, nearest)
        else:
            for k in range(first, last + 1):
                if k % 2 == 0 and even != k:
                    _columns(shift(x, k * pitch), lines, table, weights, g, nearest)
                    even = k
                if k % 2 == 1 and odd != k:
                    _columns(shift(x, k * pitch), shift(lines, size), table, weights, g, nearest)
                    odd = k
            blend_row(shift(lines, first % 2 * size), shift(lines, last % 2 * size), shift(y, row * size), w, size, nearest)
    return OK


def coordinate(i: int, n: int, m: int, scale: AxisScale, unchanged: int, how: Static, nearest: Static) -> Any:
    """Return the coordinate of output position i of m among the n input positions: from the first to the last of them.

    It is a whole number if `nearest`, a `nearest_mode`, is not "".
    """
    if nearest != "":
        above, below = as_coordinate(scale.above, "nearest"), as_coordinate(scale.below, "nearest")
        factor = as_coordinate(scale.given, "nearest") if scale.given != 0.0 else above / below
        c = like(factor, i) if unchanged else source_coordinate(i, n, m, factor, 0.0, 1.0, how)
        return cast(imin(imax(nearest_of(c, nearest), 0), n - 1), "f64")
    ratio = scale.given if scale.given != 0.0 else cast(scale.above, "f64") / cast(scale.below, "f64")
    at = like(ratio, i) if unchanged else source_coordinate(i, n, m, ratio, 0.0, 1.0, how)
    return min(max(at, 0.0), cast(n - 1, "f64"))


def _fill_table(
    table: Ptr, weights: Ptr, g: ResizedPlanes, across: AxisScale, unchanged: int, how: Static, nearest: Static
) -> int:
    """table (2, entries) = the elements of a row between which each entry lies, weights = those of the second."""
    each = g.inner if g.inner < FEW else 1
    step = 1 if g.inner < FEW else g.inner
    for column in range(g.columns):
        c = coordinate(column, g.width, g.columns, across, unchanged, how, nearest)
        low = imin(imax(floor_of(c), 0), g.width - 1)
        w = like(weights, c - low)
        high = imin(low + 1, g.width - 1)
        for j in range(each):
            table[column * each + j] = (low * each + j) * step
            table[g.entries + column * each + j] = (high * each + j) * step
            weights[column * each + j] = w
    return 0


def _columns(x: Ptr, line: Ptr, table: Ptr, weights: Ptr, g: ResizedPlanes, nearest: Static) -> int:
    """line (columns, inner) = x (width, inner), resized. An infinity without weight does not count.

    Nothing that one call puts may be fetched by another: `blend_row` stands between them.
    """
    if g.inner >= FEW:
        for k in range(g.entries):
            blend_row(
                shift(x, table[k]), shift(x, table[g.entries + k]), shift(line, k * g.inner), weights[k], g.inner, nearest
            )
    elif nearest != "":
        for k in range(g.entries):
            put(line, k, fetch(x, fetch(table, k)))
    else:
        for k in range(g.entries):
            w, v, after = fetch(weights, k), fetch(x, fetch(table, k)), fetch(x, fetch(table, g.entries + k))
            one, zero = like(w, 1), like(w, 0)
            put(line, k, select(w == zero, v, v * (one - w) + after * w))
    return 0


COLUMN, SAMPLE, BYTE = 8.0, 0.4, 0.03
"""The nanoseconds of a row or of an entry of the table, of an element that columns are read for, and of a byte of the result."""
STRIP_COLUMN, STRIP_SAMPLE, STRIP_BYTE = 1.5, 0.08, 0.025
"""The same for strips. Where columns become so few that elements are gathered after all, an element takes as long as without them."""


class ResizedAxes(NamedTuple):
    """The axes of a tensor that are resized, in its storage order, with the scale of every axis and the options of Resize."""

    op: NodeLowering
    shape: Sequence[Dim]
    """The shape of the result, in logical order."""
    order: tuple[int, ...]
    axes: Sequence[int]
    scales: Sequence[AxisScale]
    rules: Mapping[str, Any]


def resize_planes(work: ResizedAxes, x: Tensor) -> Tensor:
    """Return x, resized along two neighboring axes at a time, the innermost first."""
    dims, order, left = list(x.shape), work.order, list(work.axes)
    while left:
        axis = left.pop()
        at, old = order.index(axis), [dims[k] for k in order]
        m, inner, dims[axis], across = work.shape[axis], product(old[at + 1 :]), work.shape[axis], work.scales[axis]
        sizes: tuple[Dim, ...]
        if left and left[-1] == order[at - 1]:
            above = left.pop()
            dims[above], down, wide = work.shape[above], work.scales[above], True
            sizes = (product(old[: at - 1]), old[at - 1], old[at], dims[above], m, inner)
        elif isinstance(inner, int) and inner >= FEW:
            down, wide = across, False
            sizes = (product(old[:at]), old[at], 1, m, 1, inner)
        else:
            down, wide = AxisScale(1, 1, 0.0), True
            sizes = (product(old[:at]), 1, old[at], 1, m, inner)
        y = work.op.builder.new(x.dtype, tuple(dims), order)
        _emit(work, x, y, sizes, down, across, wide)
        x = y
    return x


def _emit(
    work: ResizedAxes, x: Tensor, y: Tensor, sizes: Sequence[Dim], down: AxisScale, across: AxisScale, wide: bool
) -> None:
    """Emit y = x, resized. The sizes are those of `ResizedPlanes` up to `inner`."""
    op, rules = work.op, work.rules
    outer, height, width, rows, columns, inner = sizes
    nearest = rules["nearest"] if rules["mode"] == "nearest" else ""
    few = not isinstance(inner, int) or inner < FEW
    lanes = strip_lanes(op.target) if wide and few and x.dtype == "float32" else 0
    lines = maximum((HELD if lanes else 2) * columns, width) * inner
    entries, room = (table_entries(columns, inner), lines) if wide else (0, 0)
    column, sample, byte = (STRIP_COLUMN, STRIP_SAMPLE, STRIP_BYTE) if lanes else (COLUMN, SAMPLE, BYTE)
    cost = linear_work(outer * rows + entries, column) + linear_work(y.size * itemsize(y.dtype), byte)
    cost += linear_work(outer * minimum(height, rows) * columns * inner, sample) if wide else 0
    steps, parts = 2 * entries + rows + ceildiv(entries, LEAST) + 1, entries + 2 * rows
    shapes = (("int64", steps), ("float32" if nearest else x.dtype, parts), (x.dtype, room))
    scratch = [op.temporary(dtype, (op.options.threads, size)) for dtype, size in shapes]
    lengths: Any = (*sizes, entries, room, lanes)
    given: dict[str, Any] = {"g": ResizedPlanes(*lengths), "down": down, "across": across, "wide": wide, "nearest": nearest}
    given |= {"how": rules["how"], "unchanged": rules["unchanged"], "slices": 1, "work": cost}
    op.emit(interpolate_planes, [x, y, *scratch], **given)
