"""Pools of planes: the rows of a window are joined first, vector by vector, then the columns, in registers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, imax, imin, like, native, shift
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.streams import RowForm, RowStream

INFINITY = float("inf")


class PooledPlanes(NamedTuple):
    """The sizes of a pool from planes (planes, ih, iw) to (planes, oh, ow), and its windows: `lines` rows, `columns` columns."""

    planes: int
    ih: int
    iw: int
    oh: int
    ow: int
    lines: int
    down: int
    """The stride from one row of results to the next."""
    apart: int
    """The rows from one line of a window to the next: its dilation."""
    above: int
    """The rows of padding above a plane."""
    eh: int
    """The rows of a plane with its padding above and below, which count if padding does."""
    ew: int
    """The columns of a plane with its padding, likewise."""


class PoolForm(NamedTuple):
    """The compile-time sizes of windows: lines, their stride and dilation, and the rows of results that are computed together."""

    lines: StaticInt
    down: StaticInt
    apart: StaticInt
    rows: StaticInt


@native
@extents(x="g.planes * g.ih * g.iw", y="g.planes * g.oh * g.ow", counts="parts * g.ow")
def pool_planes(
    x: Ptr,
    y: Ptr,
    counts: Ptr,
    g: PooledPlanes,
    kind: Static,
    unrolled: Static,
    form: PoolForm,
    along: RowForm,
    part: int,
    parts: int,
) -> int:
    """y (planes, oh, ow) = kind over windows of x (planes, ih, iw): "max", "average" of the pixels inside x, "average_padded".

    unrolled: true if rows of results are computed together. counts: none for maxima. A window that lies entirely in the padding gives
    the least number, 0 for averages.
    Spec: ONNX MaxPool-22, AveragePool-22.
    """
    own = counts
    if kind != "max":
        own = shift(counts, part * g.ow)
        _count_columns(own, g, kind, along)
    row, end = g.planes * g.oh * part // parts, g.planes * g.oh * (part + 1) // parts
    while row < end:
        plane, first = row // g.oh, row % g.oh
        stop = imin(g.oh, first + end - row)
        _some_rows(
            shift(x, plane * g.ih * g.iw), shift(y, plane * g.oh * g.ow), own, first, stop, g, kind, unrolled, form, along
        )
        row += stop - first
    return OK


@native(inline=False)
def _some_rows(
    x: Ptr,
    y: Ptr,
    counts: Ptr,
    row: int,
    stop: int,
    g: PooledPlanes,
    kind: Static,
    unrolled: Static,
    form: PoolForm,
    along: RowForm,
) -> None:
    """Compute the rows from `row` to `stop` of the results y of one plane x: together where windows lie inside, if there are two."""
    before, reach = g.above, g.ih + g.above - (g.lines - 1) * g.apart
    if _repeats_edges(kind, form):
        before, reach = g.above - (g.lines - 1) * g.apart, g.ih + g.above
    first, last = imax(row, (imax(before, 0) + g.down - 1) // g.down), imin(stop, (imax(reach, 0) + g.down - 1) // g.down)
    if unrolled:
        if last - first < 2 or g.iw == 0:
            first, last = stop, stop
        while row < first:
            _one_row(x, y, counts, row, g, kind, form, along)
            row += 1
        while row < last:
            count = form.rows if last - first >= form.rows else 2
            row = imin(row, last - count)  # the last rows with some that were computed before
            top, out = row * g.down - g.above, shift(y, row * g.ow)
            if count > 2:
                _pool_rows(x, out, counts, top, g.lines, g.ih, g.iw, g.ow, g.lines, kind, form.rows, form, along)
            else:
                _pool_rows(x, out, counts, top, g.lines, g.ih, g.iw, g.ow, g.lines, kind, 2, form, along)
            row += count
    while row < stop:
        _one_row(x, y, counts, row, g, kind, form, along)
        row += 1


def _repeats_edges(kind: Static, form: PoolForm) -> Any:
    """Return True if the first or last row of a plane stands for those outside: of maxima without dilation, a window sees it anyway."""
    return kind == "max" and form.apart == 1


def _count_columns(counts: Ptr, g: PooledPlanes, kind: Static, along: RowForm) -> None:
    """counts (ow,) = the columns of each window that count, 1 if there are none."""
    for column in range(g.ow):
        first = column * along.stride - along.front
        if kind == "average":
            inside = pixels_before(g.iw, first, along.dilation, along.taps) - pixels_before(
                0, first, along.dilation, along.taps
            )
        else:
            inside = pixels_before(g.ew - along.front, first, along.dilation, along.taps)
        counts[column] = like(counts, imax(inside, 1))


@native(inline=False)
def _one_row(image: Ptr, y: Ptr, counts: Ptr, row: int, g: PooledPlanes, kind: Static, form: PoolForm, along: RowForm) -> None:
    """Compute row `row` of the results of a plane, whose windows may see rows outside of it."""
    top, out = row * g.down - g.above, shift(y, row * g.ow)
    skipped = pixels_before(0, top, g.apart, g.lines)
    seen = pixels_before(g.ih, top, g.apart, g.lines) - skipped
    if seen <= 0 or g.iw == 0:
        for column in range(g.ow):
            out[column] = like(out, -INFINITY) if kind == "max" else like(out, 0)
        return
    counted = seen
    if kind == "average_padded":
        counted = imax(pixels_before(g.eh - g.above, top, g.apart, g.lines), 1)
    top += skipped * g.apart
    _pool_rows(image, out, counts, top, seen, g.ih, g.iw, g.ow, counted, kind, 1, form, along)


def pixels_before(limit: int, first: int, dilation: int, window: int) -> int:
    """Return how many of a window's positions first, first + dilation, ... are below `limit`."""
    if first >= limit:
        return 0
    if first + (window - 1) * dilation < limit:
        return window
    return (limit - first + dilation - 1) // dilation


@emitter("void(*F,*F,*F,i64,i64,i64,i64,i64,i64,static,static,static,static,static,static,static,static,static,static,static)")
def _pool_rows(
    builder: Any,
    x: Any,
    y: Any,
    counts: Any,
    top: Any,
    seen: Any,
    ih: Any,
    iw: Any,
    ow: Any,
    counted: Any,
    kind: str,
    rows: int,
    form: PoolForm,
    along: RowForm,
) -> None:
    """y (rows, ow) = some rows of a pool of x (ih, iw); the first window begins with row `top` of it.

    seen: the lines of a window, those of the form unless there is one row. They lie inside, see `_repeats_edges`. counted: the lines by
    which sums are divided.
    """
    emit = Vectors(builder, x.type.pointee, along.lanes)
    join = _largest if kind == "max" else _sum
    outside = emit.constant(-INFINITY) if kind == "max" else emit.zero
    places = sorted({row * form.down + k * form.apart for row in range(rows) for k in range(form.lines)}) if rows > 1 else [0]
    sources = {}
    for place in places:
        line, last = builder.add(top, emit.integer(place)), builder.sub(ih, emit.integer(1))
        if rows > 1 and _repeats_edges(kind, form):
            line = builder.select(builder.icmp_signed("<", line, last), line, last)
            line = builder.select(builder.icmp_signed("<", line, emit.integer(0)), emit.integer(0), line)
        sources[place] = emit.move(x, builder.mul(iw, line))

    def read_together(column: Any, mask: Any) -> list[Any]:
        lines = {place: emit.load(emit.move(source, column), 0, mask) for place, source in sources.items()}
        return _join_lines(emit, lines, rows, form, join)

    def read_one(column: Any, mask: Any) -> list[Any]:
        place, step = emit.move(sources[0], column), emit.mul(iw, form.apart)

        def further(k: Any, joined: Sequence[Any]) -> list[Any]:
            return [join(emit, [joined[0], emit.load(emit.move(place, builder.mul(step, k)), 0, mask)])]

        return emit.loop(emit.integer(1), seen, 1, [emit.load(place, 0, mask)], further)[1]

    stream = RowStream(emit, along, rows, iw, outside, read_one if rows == 1 else read_together)
    many = emit.splat(builder.sitofp(counted, emit.element)) if kind != "max" else None

    def finish(number: Any, carried: Sequence[Any], masked: bool) -> list[Any]:
        taps, after = stream.step(number, carried, masked)
        at = emit.mul(number, along.lanes)
        mask = emit.mask(builder.sub(ow, at)) if masked else None
        divisor = builder.fmul(emit.load(emit.move(counts, at), 0, mask), many) if kind != "max" else None
        for row, own in enumerate(taps):
            value = join(emit, own)
            value = builder.fdiv(value, divisor) if kind != "max" else value
            emit.store(value, emit.move(y, builder.add(emit.mul(ow, row), at)), 0, mask)
        return after

    number, carried = emit.loop(emit.integer(0), stream.whole(ow), 1, stream.start(), lambda n, held: finish(n, held, False))
    last = builder.sdiv(builder.add(ow, emit.integer(along.lanes - 1)), emit.integer(along.lanes))
    emit.loop(number, last, 1, carried, lambda n, held: finish(n, held, True))


def _join_lines(emit: Vectors, lines: Mapping[int, Any], rows: int, form: PoolForm, join: Any) -> list[Any]:
    """Return the joined lines of each row of results, from the first on: sums do not depend on the rows that are computed together.

    Maxima are the same in any order. Two rows of them whose windows overlap but for a line share the others.
    """
    seen = [[lines[row * form.down + k * form.apart] for k in range(form.lines)] for row in range(rows)]
    if join is _sum or form.down != form.apart or form.lines < 3:
        return [join(emit, own) for own in seen]
    joined = []
    for row in range(0, rows, 2):
        shared = join(emit, seen[row][1:])
        joined += [join(emit, [seen[row][0], shared]), join(emit, [shared, seen[row + 1][-1]])]
    return joined


def _sum(emit: Vectors, values: Sequence[Any]) -> Any:
    """Return the sum of some vectors."""
    total = values[0]
    for value in values[1:]:
        total = emit.add(total, value)
    return total


def _largest(emit: Vectors, values: Sequence[Any]) -> Any:
    """Return the largest elements of some vectors, NaN where one of them is NaN: pairs are compared for that.

    Of equal ones the last is taken.
    """
    builder, largest = emit.builder, values[0]
    for value in values[1:]:
        largest = builder.select(builder.fcmp_ordered(">", largest, value), largest, value)
    pairs = list(zip(values[::2], [*values[1::2], values[-1]], strict=False))
    numbers = builder.fcmp_ordered("ord", *pairs[0])
    for pair in pairs[1:]:
        numbers = builder.and_(numbers, builder.fcmp_ordered("ord", *pair))
    return builder.select(numbers, largest, emit.constant(float("nan")))
