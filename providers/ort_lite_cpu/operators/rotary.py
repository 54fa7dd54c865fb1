"""RotaryEmbedding: pairs of numbers of each head are rotated by angles that depend on the position."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, Static, failure_status, like, native, null, read_once, span
from ort_lite.shapes import equal, floordiv, less, product, same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.attention import heads_of
from ort_lite_cpu.operators.attention_kernels import Heads
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


class HeadSteps(NamedTuple):
    """Heads (batch, heads, rows, size) of an operand x, and its steps through memory."""

    batch: int
    heads: int
    rows: int
    size: int
    x_at: int
    x_batch: int
    x_head: int
    x_row: int


class ResultSteps(NamedTuple):
    """The steps of heads of a result from one batch, head and row to the next."""

    batch: int
    head: int
    row: int


class RowPositions(NamedTuple):
    """The position of row i of batch b: ids[b * ids_batch + i * ids_row] + b * per_batch + i * per_row."""

    positions: int
    """The number of positions; all are below it."""
    ids_batch: int
    ids_row: int
    per_batch: int
    per_row: int


def head_steps(x: Heads) -> HeadSteps:
    """Return the sizes and steps of heads, for kernels."""
    sizes: Any = (*x.shape, *x.place)
    return HeadSteps(*sizes)


@native
@extents(
    x="walk(g.x_at, g.batch, g.x_batch, g.heads, g.x_head, g.rows, g.x_row, max(g.size, turned), 1)",
    ids="walk(0, g.batch, at.ids_batch, g.rows, at.ids_row)",
    cosines="at.positions * (turned // 2)",
    sines="at.positions * (turned // 2)",
    y="walk(0, g.batch, to.batch, g.heads, to.head, g.rows, to.row, max(g.size, turned), 1)",
)
def rotate(
    x: Ptr,
    ids: Ptr,
    cosines: Ptr,
    sines: Ptr,
    y: Ptr,
    g: HeadSteps,
    to: ResultSteps,
    at: RowPositions,
    turned: int,
    interleaved: Static,
    part: int,
    parts: int,
) -> int:
    """y = x with the first `turned` numbers of each head rotated: (a, b) -> (a cos - b sin, a sin + b cos).

    The position of a row, see RowPositions, is its row of cosines and sines (positions, turned / 2). interleaved: a and b are
    neighbours, else they come from two halves. `turned` is even and not negative. Rows are walked in the order of x in memory.
    Spec: ONNX RotaryEmbedding-23.
    """
    half, by_head = turned // 2, g.x_head >= g.x_row
    inner = g.rows if by_head else g.heads
    outer = g.heads if by_head else g.rows
    near, far, b = -1, 0, 0
    for job in span(g.batch * g.rows * g.heads, part, parts):
        if near < 0:  # the first row; divisions for each would take as long as its rotation
            near, far, b = job % inner, job // inner % outer, job // inner // outer
        else:
            near += 1
            if near == inner:
                near, far = 0, far + 1
                if far == outer:
                    far, b = 0, b + 1
        h, i = (far, near) if by_head else (near, far)
        position = b * at.per_batch + i * at.per_row
        if not null(ids):
            position += int(read_once(ids, b * at.ids_batch + i * at.ids_row))
        if position < 0 or position >= at.positions:
            return failure_status(INDEX_OUT_OF_RANGE, b * g.rows + i)
        source, target = g.x_at + b * g.x_batch + h * g.x_head + i * g.x_row, b * to.batch + h * to.head + i * to.row
        angle = position * half
        for j in range(half):
            c, s = cosines[angle + j], sines[angle + j]
            if interleaved:
                first, second = x[source + 2 * j], x[source + 2 * j + 1]
                y[target + 2 * j] = first * c - second * s
                y[target + 2 * j + 1] = first * s + second * c
            else:
                first, second = x[source + j], x[source + half + j]
                y[target + j] = first * c - second * s
                y[target + half + j] = first * s + second * c
        for j in range(turned, g.size):
            y[target + j] = x[source + j]
    return OK


def emit_rotation(
    op: NodeLowering,
    x: Heads,
    y: Heads,
    caches: tuple[Tensor, Tensor],
    ids: Tensor | None,
    ids_steps: tuple[Dim, Dim] = (0, 0),
    *,
    per_batch: Dim = 0,
    per_row: Dim = 0,
    turned: Dim = 0,
    interleaved: bool = False,
) -> None:
    """Emit y = x rotated by rows of the caches (..., turned / 2); `turned` 0: all of a head. See `rotate`."""
    cosines, sines = caches
    size = x.shape[3]
    turned = size if same(turned, 0) else turned
    if not same(cosines.shape[-1] * 2, turned):
        op.require(equal(cosines.shape[-1] * 2, turned), "a cache has rows of {0}, expected {1} / 2", cosines.shape[-1], turned)
    op.require(1 - less(size, turned), "{0} of the {1} numbers of a head cannot be rotated", turned, size)
    op.agree(y.shape, x.shape, "the result does not fit the heads")
    operands = [x.tensor, ids, cosines, sines, y.tensor]
    numbers: Any = (product(cosines.shape[:-1]), *ids_steps, per_batch, per_row)
    steps: Any = y.steps
    given: dict[str, Any] = {"g": head_steps(x), "to": ResultSteps(*steps), "at": RowPositions(*numbers)}
    op.emit(rotate, operands, **given, turned=turned, interleaved=interleaved, work=product(x.shape), message=_no_angle)


def _no_angle(failure: "Failure") -> str:
    at = RowPositions(*(failure.scalar(f"at.{field}") for field in RowPositions._fields))
    b, i = divmod(failure.at, failure.scalar("g.rows"))
    position = b * at.per_batch + i * at.per_row
    if failure.has_operand(1):
        position += failure.element(1, b * at.ids_batch + i * at.ids_row)
    return f"position {position}, of row {i} of sample {b}, is out of range [0, {at.positions}) of the caches"


def _plain(op: NodeLowering) -> dict[str, Any]:
    if op.attr("interleaved", 0) not in (0, 1):
        raise op.reject(f"interleaved {op.attr('interleaved')}; it should be 0 or 1")
    return {"turned": op.attr("rotary_embedding_dim", 0), "interleaved": op.attr("interleaved", 0) == 1}


@operator("RotaryEmbedding", since=23, types=REAL)
def rotary_embedding(op: NodeLowering) -> None:
    """Emit X (B, H, S, D) or (B, S, H * D), rotated by caches (positions, D / 2) at position_ids (B, S), or by caches (B, S, D / 2).

    Spec: ONNX RotaryEmbedding-23.
    """
    x = heads_of(op, op.input(0), op.attr("num_heads", 0))
    y = heads_of(op, op.output(0), x.shape[1])
    caches, rows = (op.input(1), op.input(2)), x.shape[2]
    if op.has(3):
        emit_rotation(op, x, y, caches, op.input(3), (rows, 1), **_plain(op))
        return
    op.agree(caches[0].shape[:2], (x.shape[0], rows), "the caches do not fit")
    emit_rotation(op, x, y, caches, None, per_batch=rows, per_row=1, **_plain(op))


@operator("RotaryEmbedding", domain="com.microsoft", types=REAL)
def microsoft_rotary_embedding(op: NodeLowering) -> None:
    """Emit com.microsoft's RotaryEmbedding. position_ids come second: (B, S), or (1,) for the first row's position.

    Packed batches are one long sequence, whose ids start anew. Spec: onnxruntime RotaryEmbedding-1.
    """
    ids, caches = op.input(1), (op.input(2), op.input(3))
    x, y = _split_heads(op, caches[0].shape[-1])
    if len(ids.shape) == 1:
        emit_rotation(op, x, y, caches, ids, per_row=1, **_plain(op))
        return
    emit_rotation(op, x, y, caches, ids, (x.shape[2], 1), **_plain(op))


def _split_heads(op: NodeLowering, half: Dim) -> tuple[Heads, Heads]:
    """Return the heads of input 0 and of the result. If attributes do not tell their number, caches of `half` columns do."""
    x, heads = op.input(0), op.attr("num_heads", 0)
    if len(x.shape) == 3 and not (heads and op.attr("rotary_embedding_dim", 0)):
        heads = 0 if same(half, 0) else floordiv(x.shape[2], half * 2)
    return heads_of(op, x, heads), heads_of(op, op.output(0), heads)


@native
@extents(
    ids="3 * rows",
    cosines="positions * half",
    sines="positions * half",
    streams="half",
    cosine="rows * half",
    sine="rows * half",
)
def merge_angles(
    ids: Ptr,
    cosines: Ptr,
    sines: Ptr,
    streams: Ptr,
    cosine: Ptr,
    sine: Ptr,
    rows: int,
    positions: int,
    half: int,
    scale: float,
    part: int,
    parts: int,
) -> int:
    """cosine, sine (rows, half) = scale * column j of the row of cosines and sines at the position ids[streams[j], row]."""
    for row in span(rows, part, parts):
        for stream in range(3):
            position = int(read_once(ids, stream * rows + row))
            if position < 0 or position >= positions:
                return failure_status(INDEX_OUT_OF_RANGE, stream * rows + row)
            for j in range(half):
                if int(streams[j]) == stream:
                    cosine[row * half + j] = cosines[position * half + j] * like(cosines, scale)
                    sine[row * half + j] = sines[position * half + j] * like(sines, scale)
    return OK


@operator("MRotaryEmbedding", domain="com.microsoft", types=REAL)
def multimodal_rotary_embedding(op: NodeLowering) -> None:
    """Emit a rotation by angles whose columns come from one of three positions. Spec: onnxruntime MRotaryEmbedding-1."""
    ids, caches = op.input(1), (op.input(2), op.input(3))
    batch, rows = ids.shape[1:]
    half = op.dim(2, 1)
    streams, layout = op.attr("mrope_section"), op.attr("mrope_layout", 0)
    if len(streams) != 3 or min(streams) < 0 or sum(streams) != half or layout not in (0, 1):
        raise op.reject(f"mrope_section {streams} and mrope_layout {layout} for caches of {half} columns")
    merged = tuple(op.temporary(caches[0].dtype, (batch, rows, half)) for _ in caches)
    operands = [ids, *caches, op.table(_streams_of(streams, layout)), *merged]
    sizes: dict[str, Any] = {"rows": batch * rows, "positions": caches[0].shape[0], "half": half}
    scale = float(op.attr("scale", 1.0))
    op.emit(merge_angles, operands, **sizes, scale=scale, work=batch * rows * half * 3, message=_no_position)
    x, y = _split_heads(op, half)
    emit_rotation(op, x, y, (merged[0], merged[1]), None, per_batch=rows, per_row=1, **_plain(op))


def _streams_of(sections: Sequence[int], layout: int) -> Array:
    """Return the stream of each column: sections one behind the other, or (layout 1) every third column of its section."""
    if not layout:
        return np.repeat(np.arange(3, dtype=np.int32), sections)
    found = np.zeros(sum(sections), np.int32)
    for stream in (1, 2):
        found[stream : sections[stream] * 3 : 3] = stream
    return found


def _no_position(failure: "Failure") -> str:
    stream, row = divmod(failure.at, failure.scalar("rows"))
    position, positions = failure.element(0, failure.at), failure.scalar("positions")
    return f"position {position}, of row {row} in stream {stream}, is out of range [0, {positions}) of the caches"
