"""Caches of keys and values: the places of new rows among those of the past, in a buffer with room or in a window that moves on."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    Ptr,
    Static,
    address,
    bf16_to_f32,
    f16_to_f32,
    failure_status,
    like,
    native,
    null,
    read_once,
    span,
)
from ort_lite.record import Record
from ort_lite.shapes import same, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.gemm.attention import COUNT, DROP, KEEP, NUMBERS, OFFSET, POSITION, SKIP, TAKE, VALID
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.rooms import Rooms, rooms_of
from ort_lite_cpu.lowering.tensor import Tensor, bits
from ort_lite_cpu.operators.attention_kernels import Heads, Mask
from ort_lite_cpu.operators.rotary import HeadSteps, head_steps
from ort_lite_cpu.types import HALVES

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.lowered import Message

WIDEN = 0.05
"""Nanoseconds of a 16-bit number that becomes a float32."""


class PlaceSizes(NamedTuple):
    """The sizes from which the places of rows follow. A batch entry has seqlens + extra keys, `total` at most."""

    batch: int
    rows: int
    """Rows of queries."""
    fresh: int
    """New rows of keys: as many, or none."""
    before: int
    """Rows of the past; of a window, its capacity."""
    length: int
    """Rows of the result."""
    total: int
    follows: int
    """1: the last keys belong to the queries; 0: the first ones do, in a prompt."""
    extra: int
    window: int = 0
    """The keys that the cache keeps at least: of older ones, it keeps what its capacity allows. 0: it keeps all."""
    staged: int = 0
    """1: the result has all rows of the past and all new ones, so that queries see what a window does not keep."""


class CachePlace(Record):
    """The places of rows in a cache of `length` rows, of which the first `seen` may count."""

    table: Tensor
    """(batch, NUMBERS), see `kernels.gemm.attention`."""
    length: Dim
    seen: Dim
    turn: Dim = 1
    """If this is 0, rows are not written."""
    lent: bool = True
    """True if a caller may lend one buffer for past and present."""


@native
def resident(end: int, s: PlaceSizes) -> int:
    """Return how many of `end` keys are in a window. A full one loses its oldest s.before - s.window + 1 keys at once."""
    step = s.before - s.window + 1
    return end if end <= s.before or step < 1 else end - step * ((end - s.before + step - 1) // step)


@native
@extents(lengths="s.batch", valid="s.batch", y="s.batch * NUMBERS")
def place_rows(lengths: Ptr, valid: Ptr, y: Ptr, s: PlaceSizes, part: int, parts: int) -> int:
    """y (batch, NUMBERS) = the places of rows, from the number of keys of each entry and of its new rows that are no padding.

    valid: null if all rows are valid. Spec: onnxruntime GroupQueryAttention-1.
    """
    for b in span(s.batch, part, parts):
        end = int(read_once(lengths, b)) + s.extra
        used = s.rows if null(valid) else int(read_once(valid, b))
        first = end - used if s.follows else 0
        if end < 1 or end > s.total or used < 0 or used > s.rows or first < 0:
            return failure_status(INDEX_OUT_OF_RANGE, b)
        take = min(used, s.fresh)
        keep, drop, skip = first if s.fresh > 0 else end, 0, 0
        count, offset = end, first
        if s.window > 0:
            count = resident(first, s) + used if s.staged else resident(end, s)
            take, offset = min(used, count), max(count - used, 0)
            keep, skip = count - take, used - take
            drop = resident(first, s) - keep
        elif keep > s.before or (first + s.rows > s.length and s.fresh > 0):
            return failure_status(INDEX_OUT_OF_RANGE, b)
        p = b * NUMBERS
        y[p + POSITION] = like(y, first)
        y[p + COUNT] = like(y, count)
        y[p + OFFSET] = like(y, offset)
        y[p + DROP] = like(y, drop)
        y[p + KEEP] = like(y, keep)
        y[p + SKIP] = like(y, skip)
        y[p + TAKE] = like(y, take)
        y[p + VALID] = like(y, used)
    return OK


@native
def moves(places: Ptr, b: int, before: int, rows: int, length: int) -> tuple[int, int, int, int]:
    """Return DROP, KEEP, SKIP and TAKE of batch entry b, limited to the rows of past, new rows and result."""
    p = b * NUMBERS
    drop = min(max(int(read_once(places, p + DROP)), 0), before)
    keep = min(max(int(read_once(places, p + KEEP)), 0), before - drop, length)
    skip = min(max(int(read_once(places, p + SKIP)), 0), rows)
    return drop, keep, skip, min(max(int(read_once(places, p + TAKE)), 0), rows - skip, length - keep)


@native
@extents(
    past="g.batch * g.heads * before * g.size",
    new="walk(g.x_at, g.batch, g.x_batch, g.heads, g.x_head, g.rows, g.x_row, g.size, 1)",
    places="g.batch * NUMBERS",
    y="g.batch * g.heads * length * g.size",
)
def append(past: Ptr, new: Ptr, places: Ptr, y: Ptr, g: HeadSteps, before: int, length: int, part: int, parts: int) -> int:
    """y (batch, heads, length, size) = rows of past (batch, heads, before, size), then new ones, then zeros.

    Where y is the past, whose rows then stay in place, only the new ones are written.
    """
    size, same = g.size, address(past) == address(y)
    count = g.rows if same else length
    for job in span(g.batch * g.heads * count, part, parts):
        head = job // count
        h, b = head % g.heads, head // g.heads
        drop, keep, skip, take = moves(places, b, before, g.rows, length)
        t = job % count + (keep if same else 0)
        p = (head * length + t) * size
        if keep <= t < keep + take:
            source = g.x_at + b * g.x_batch + h * g.x_head + (t - keep + skip) * g.x_row
            for i in range(size):
                y[p + i] = new[source + i]
        elif t < keep:
            source = (head * before + drop + t) * size
            for i in range(size):
                y[p + i] = past[source + i]
        elif not same:
            for i in range(size):
                y[p + i] = like(y, 0)
    return OK


@native
@extents(places="batch * NUMBERS", ids="batch * rows", y="batch * rows")
def row_positions(places: Ptr, ids: Ptr, y: Ptr, batch: int, rows: int, part: int, parts: int) -> int:
    """y (batch, rows) = the positions of rows: ids, or, if null, one behind the other. Those of padding are 0."""
    for job in span(batch * rows, part, parts):
        i, p = job % rows, job // rows * NUMBERS
        y[job] = like(y, 0)
        if i < int(places[p + VALID]):
            y[job] = like(y, places[p + POSITION] + i) if null(ids) else like(y, ids[job])
    return OK


@native
@extents(
    x="walk(g.x_at, g.batch, g.x_batch, g.heads, g.x_head, g.rows, g.x_row, g.size, 1)",
    y="g.batch * g.heads * g.rows * g.size",
)
def widen_rows(x: Ptr, y: Ptr, g: HeadSteps, half: Static, part: int, parts: int) -> int:
    """y (batch, heads, rows, size) = rows of x, of the 16-bit type `half`, as float32."""
    for job in span(g.batch * g.heads * g.rows, part, parts):
        i, h, b = job % g.rows, job // g.rows % g.heads, job // g.rows // g.heads
        source = g.x_at + b * g.x_batch + h * g.x_head + i * g.x_row
        for d in range(g.size):
            y[job * g.size + d] = f16_to_f32(x[source + d]) if half == "float16" else bf16_to_f32(x[source + d])
    return OK


class BiasSizes(NamedTuple):
    """The sizes of a result (batch, heads, rows, length), and the steps of x, whose rows have `columns` columns."""

    batch: int
    heads: int
    rows: int
    length: int
    columns: int
    x_batch: int
    x_head: int
    x_row: int


@native
@extents(
    x="walk(0, g.batch, g.x_batch, g.heads, g.x_head, g.rows, g.x_row, g.columns, 1)",
    places="g.batch * NUMBERS",
    y="g.batch * g.heads * g.rows * g.length",
)
def resident_columns(x: Ptr, places: Ptr, y: Ptr, g: BiasSizes, part: int, parts: int) -> int:
    """y (batch, heads, rows, length) = the columns of x, one for each position, from the first position that the cache has."""
    for job in span(g.batch * g.heads * g.rows, part, parts):
        i, h, b = job % g.rows, job // g.rows % g.heads, job // g.rows // g.heads
        base = int(read_once(places, b * NUMBERS + POSITION)) - int(read_once(places, b * NUMBERS + OFFSET))
        base = min(max(base, 0), g.columns)
        source = b * g.x_batch + h * g.x_head + i * g.x_row + base
        for j in range(g.length):
            y[job * g.length + j] = x[source + j] if base + j < g.columns else like(y, 0)
    return OK


def emit_places(op: NodeLowering, lengths: Tensor, valid: Tensor | None, sizes: PlaceSizes, message: "Message") -> CachePlace:
    """Emit the table of places in a cache whose rows may be as many as `sizes.length` says."""
    table = op.temporary("int64", (sizes.batch, NUMBERS))
    op.emit(place_rows, [lengths, valid, table], types=("i32", "i32", "i64"), s=sizes, work=sizes.batch, message=message)
    return CachePlace(table, sizes.length, sizes.length if sizes.window else sizes.total, lent=not sizes.window)


def append_to_cache(op: NodeLowering, output: int, past: Tensor | None, new: Heads, place: CachePlace) -> Heads:
    """Emit the past with the new rows behind its valid ones, as an output, or, for a negative `output`, as a temporary."""
    batch, heads, _, size = new.shape
    before: Dim = 0 if past is None else past.shape[2]
    if past is not None:
        op.agree(past.shape, (batch, heads, before, size), "the past does not go with what is new")
    present = present_of(op, output, new.tensor.dtype, (batch, heads, place.length, size), place.turn)
    if {x.dtype for x in (past, new.tensor, present) if x is not None} != {new.tensor.dtype}:
        raise op.reject(f"a past that is not of {new.tensor.dtype}")
    rooms = rooms_of(op, past, present, output, place.length) if place.lent else Rooms(before, place.length)
    operands = [None if past is None else bits(past), bits(new.tensor), place.table, bits(present)]
    sizes: dict[str, Any] = {"g": steps_in(new, place), "before": rooms.past, "length": rooms.present}
    op.emit(append, operands, **sizes, work=present.size // 2, over=(3, 0) if place.lent else None)
    steps = (heads * rooms.present * size, rooms.present * size, size)
    return Heads(present, (batch, heads, place.seen, size), steps)


def widen_cache(op: NodeLowering, cache: Heads, place: CachePlace) -> Heads:
    """Emit the rows of a cache that may count as float32, if its elements are 16-bit floats. Returns others as they are."""
    dtype, (batch, heads, rows, size) = cache.tensor.dtype, cache.shape
    if dtype not in HALVES:
        return cache
    y = op.temporary("float32", (select(place.turn, batch, 0), heads, rows, size))
    op.emit(widen_rows, [cache.tensor, y], g=steps_in(cache, place), half=dtype, work=linear_work(y.size, WIDEN))
    return Heads(y, cache.shape, (heads * rows * size, rows * size, size))


def present_of(op: NodeLowering, output: int, dtype: str, shape: tuple[Dim, ...], turn: Dim) -> Tensor:
    """Return the output, or memory for (batch, heads, rows, columns), of which nothing is needed if `turn` is 0."""
    if output < 0 or not op.wants(output):
        return op.temporary(dtype, (select(turn, shape[0], 0), *shape[1:]))
    present = op.output(output)
    op.agree(present.shape, shape, "keys and values do not go with the queries")
    return present


def steps_in(new: Heads, place: CachePlace) -> HeadSteps:
    """Return the sizes and steps of new rows: of none if it is not the place's turn."""
    steps = head_steps(new)
    sizes: Any = (select(place.turn, new.shape[0], 0), *steps[1:])
    return HeadSteps(*sizes)


def emit_row_positions(op: NodeLowering, place: CachePlace, ids: Tensor | None, rows: Dim) -> Tensor:
    """Emit the positions (batch, rows) of queries and new keys, some of which are padding."""
    batch = place.table.shape[0]
    y = op.temporary("int64", (batch, rows))
    sizes: dict[str, Any] = {"batch": batch, "rows": rows}
    op.emit(row_positions, [place.table, ids, y], types=("i64", "i64", "i64"), **sizes, work=batch * rows)
    return y


def resident_mask(op: NodeLowering, mask: Mask, place: CachePlace, heads: Dim, rows: Dim) -> Mask:
    """Return a mask whose columns are positions, with those of the rows of a window."""
    if mask.tensor is None:
        return mask
    batch, shared = select(place.turn, place.table.shape[0], 0), same(mask.steps[1], 0)
    planes, plane = 1 if shared else heads, rows * place.length
    y = op.temporary(mask.tensor.dtype, (batch, planes, rows, place.length))
    sizes: Any = (batch, planes, rows, place.length, mask.columns, *mask.steps)
    op.emit(resident_columns, [mask.tensor, place.table, y], g=BiasSizes(*sizes), work=y.size)
    return Mask(y, (planes * plane, 0 if shared else plane, place.length), place.length)
