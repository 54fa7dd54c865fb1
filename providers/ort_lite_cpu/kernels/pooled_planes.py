"""Pools of planes: the rows of a window are joined first, vector by vector, then the columns, in registers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.lang import OK, Ptr, Static, emitter, imax, imin, like, native, shift, span
from ort_lite.native.extents import extents
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.streams import RowForm, Stream

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


@native
@extents(x="g.planes * g.ih * g.iw", y="g.planes * g.oh * g.ow", counts="parts * g.ow")
def pool_planes(
    x: Ptr, y: Ptr, counts: Ptr, g: PooledPlanes, kind: Static, lines: Static, form: RowForm, part: int, parts: int
) -> int:
    """y (planes, oh, ow) = kind over windows of x (planes, ih, iw): "max", "average" of the pixels inside x, "average_padded".

    lines: g.lines, where windows of so many lines inside a plane are unrolled; 0 if they are not. counts: none for maxima.
    A window that lies entirely in the padding gives the least number, 0 for averages. Spec: ONNX MaxPool-22, AveragePool-22.
    """
    own = counts
    if kind != "max":
        own = shift(counts, part * g.ow)
        for column in range(g.ow):
            first = column * form.stride - form.front
            if kind == "average":
                own[column] = like(own, imax(pixels_inside(first, g.iw, form.dilation, form.taps), 1))
            else:
                own[column] = like(own, imax(pixels_before(g.ew - form.front, first, form.dilation, form.taps), 1))
    rows = g.planes * g.oh
    start = rows * part // parts
    plane, row = start // imax(g.oh, 1), start % imax(g.oh, 1)
    for _ in span(rows, part, parts):
        top = row * g.down - g.above
        skipped = pixels_before(0, top, g.apart, g.lines)
        seen = pixels_before(g.ih, top, g.apart, g.lines) - skipped
        source, out = shift(x, (plane * g.ih + top + skipped * g.apart) * g.iw), shift(y, (plane * g.oh + row) * g.ow)
        if seen <= 0 or g.iw == 0:
            for column in range(g.ow):
                out[column] = like(out, -INFINITY) if kind == "max" else like(out, 0)
        else:
            rows_counted = seen
            if kind == "average_padded":
                rows_counted = imax(pixels_before(g.eh - g.above, top, g.apart, g.lines), 1)
            if lines > 0 and seen == lines:
                _pool_row(source, out, own, seen, g.apart * g.iw, g.iw, g.ow, rows_counted, kind, lines, form)
            else:
                _pool_row(source, out, own, seen, g.apart * g.iw, g.iw, g.ow, rows_counted, kind, 0, form)
        row += 1
        if row == g.oh:
            plane, row = plane + 1, 0
    return OK


def pixels_before(limit: int, first: int, dilation: int, window: int) -> int:
    """Return how many of a window's positions first, first + dilation, ... are below `limit`."""
    if first >= limit:
        return 0
    if first + (window - 1) * dilation < limit:
        return window
    return (limit - first + dilation - 1) // dilation


def pixels_inside(first: int, size: int, dilation: int, window: int) -> int:
    """Return how many of a window's positions lie in 0..size."""
    return pixels_before(size, first, dilation, window) - pixels_before(0, first, dilation, window)


@emitter("void(*F,*F,*F,i64,i64,i64,i64,i64,static,static,static,static,static,static,static)")
def _pool_row(
    builder: Any,
    x: Any,
    y: Any,
    counts: Any,
    seen: Any,
    step: Any,
    iw: Any,
    ow: Any,
    rows: Any,
    kind: str,
    lines: int,
    form: RowForm,
) -> None:
    """y (ow,) = one row of a pool from `seen` rows of x, `step` elements from one to the next; lines: their number if it is static."""
    emit = Vectors(builder, x.type.pointee, form.lanes)
    join = _largest if kind == "max" else _sum
    outside = emit.constant(-INFINITY) if kind == "max" else emit.zero

    def read(column: Any, mask: Any) -> Any:
        """Return a vector of columns of the rows, joined."""
        place = emit.move(x, column)
        if lines:
            return join(emit, [emit.load(emit.move(place, emit.mul(step, k)), 0, mask) for k in range(lines)])

        def along(k: Any, joined: Sequence[Any]) -> list[Any]:
            return [join(emit, [joined[0], emit.load(emit.move(place, builder.mul(step, k)), 0, mask)])]

        return emit.loop(emit.integer(1), seen, 1, [emit.load(place, 0, mask)], along)[1][0]

    stream = Stream(emit, form, iw, outside, read)
    many = emit.splat(builder.sitofp(rows, emit.element)) if kind != "max" else None

    def finish(number: Any, carried: Sequence[Any], masked: bool) -> list[Any]:
        taps, after = stream.step(number, carried, masked)
        value, at = join(emit, taps), emit.mul(number, form.lanes)
        mask = emit.mask(builder.sub(ow, at)) if masked else None
        if kind != "max":
            columns = emit.load(emit.move(counts, at), 0, mask)
            value = builder.fdiv(value, builder.fmul(columns, many))
        emit.store(value, emit.move(y, at), 0, mask)
        return after

    whole = stream.whole(ow)
    number, carried = emit.loop(emit.integer(0), whole, 1, stream.start(), lambda n, held: finish(n, held, False))
    last = builder.sdiv(builder.add(ow, emit.integer(form.lanes - 1)), emit.integer(form.lanes))
    emit.loop(number, last, 1, carried, lambda n, held: finish(n, held, True))


def _sum(emit: Vectors, values: Sequence[Any]) -> Any:
    """Return the sum of some vectors."""
    total = values[0]
    for value in values[1:]:
        total = emit.add(total, value)
    return total


def _largest(emit: Vectors, values: Sequence[Any]) -> Any:
    """Return the largest elements of some vectors, NaN where one of them is NaN: pairs are compared for that, not results."""
    builder, largest = emit.builder, values[0]
    for value in values[1:]:
        largest = builder.select(builder.fcmp_ordered(">", largest, value), largest, value)
    pairs = list(zip(values[::2], [*values[1::2], values[-1]], strict=False))
    numbers = builder.fcmp_ordered("ord", *pairs[0])
    for pair in pairs[1:]:
        numbers = builder.and_(numbers, builder.fcmp_ordered("ord", *pair))
    return builder.select(numbers, largest, emit.constant(float("nan")))
