"""RotaryEmbedding: pairs of numbers of each head are rotated by angles that depend on the position."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, Static, failure_status, native, null, read_once, span
from ort_lite.shapes import equal, floordiv, less, product, same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.attention import Heads, heads_of, step_arguments
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


class HeadSteps(NamedTuple):
    """Heads (batch, heads, rows, size), and where they lie in memory."""

    batch: int
    heads: int
    rows: int
    size: int
    x_at: int
    x_batch: int
    x_head: int
    x_row: int


@native
@extents(
    x="walk(x_at, batch, x_batch, heads, x_head, rows, x_row, max(size, turned), 1)",
    ids="walk(0, batch, ids_batch, rows, ids_row)",
    cosines="positions * (turned // 2)",
    sines="positions * (turned // 2)",
    y="walk(0, batch, y_batch, heads, y_head, rows, y_row, max(size, turned), 1)",
)
def rotate(
    x: Ptr,
    ids: Ptr,
    cosines: Ptr,
    sines: Ptr,
    y: Ptr,
    g: HeadSteps,
    y_batch: int,
    y_head: int,
    y_row: int,
    turned: int,
    positions: int,
    ids_batch: int,
    ids_row: int,
    base: int,
    weight: int,
    per_batch: int,
    per_row: int,
    interleaved: Static,
    part: int,
    parts: int,
) -> int:
    """y = x with the first `turned` numbers of each head rotated: (a, b) -> (a cos - b sin, a sin + b cos).

    Row i of batch b has the position base + weight * ids[b, i] + b * per_batch + i * per_row, which is a row of cosines and
    sines (positions, turned / 2). interleaved: a and b are neighbours, else they come from two halves. `emit_rotation` looks after
    `turned`, which is even and not negative. Spec: ONNX RotaryEmbedding-23.
    """
    half = turned // 2
    for job in span(g.batch * g.rows * g.heads, part, parts):
        h, i, b = job % g.heads, job // g.heads % g.rows, job // g.heads // g.rows
        position = base + b * per_batch + i * per_row
        if not null(ids):
            position += weight * int(read_once(ids, b * ids_batch + i * ids_row))
        if position < 0 or position >= positions:
            return failure_status(INDEX_OUT_OF_RANGE, b * g.rows + i)
        source, target = g.x_at + b * g.x_batch + h * g.x_head + i * g.x_row, b * y_batch + h * y_head + i * y_row
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
    base: Dim = 0,
    weight: Dim = 1,
    per_batch: Dim = 0,
    per_row: Dim = 0,
    turned: Dim = 0,
    interleaved: bool = False,
) -> None:
    """y = x rotated by rows of the caches (..., turned / 2); `turned` 0: all of a head. See `rotate`."""
    cosines, sines = caches
    if len(cosines.shape) < 2:
        raise op.reject(f"a cache of rank {len(cosines.shape)}")
    size = x.shape[3]
    turned = size if same(turned, 0) else turned
    if not same(cosines.shape[-1] * 2, turned):
        op.require(equal(cosines.shape[-1] * 2, turned), "a cache has rows of {0}, expected {1} / 2", cosines.shape[-1], turned)
    op.require(1 - less(size, turned), "{0} of the {1} numbers of a head cannot be rotated", turned, size)
    op.agree(cosines.shape, sines.shape, "the caches differ in shape")
    op.agree(y.shape, x.shape, "the result does not fit the heads")
    operands = [x.tensor, ids, cosines, sines, y.tensor]
    given = {**x.sizes, **x.arguments("x"), **step_arguments("y", y.steps)}
    given |= {"turned": turned, "interleaved": interleaved, "positions": product(cosines.shape[:-1])}
    given |= {"ids_batch": ids_steps[0], "ids_row": ids_steps[1]}
    given |= {"base": base, "weight": weight, "per_batch": per_batch, "per_row": per_row}
    op.emit(rotate, operands, **given, work=product(x.shape), message=_no_angle)


def _no_angle(failure: "Failure") -> str:
    rows, positions = failure.scalar("rows"), failure.scalar("positions")
    steps = ("ids_batch", "ids_row", "base", "weight", "per_batch", "per_row")
    ids_batch, ids_row, base, weight, per_batch, per_row = map(failure.scalar, steps)
    b, i = divmod(failure.at, rows)
    position = base + b * per_batch + i * per_row
    if failure.has_operand(1):
        position += weight * failure.element(1, b * ids_batch + i * ids_row)
    return f"position {position}, of row {i} of sample {b}, is out of range [0, {positions}) of the caches"


def _plain(op: NodeLowering) -> dict[str, Any]:
    if op.attr("interleaved", 0) not in (0, 1):
        raise op.reject(f"interleaved {op.attr('interleaved')}; it should be 0 or 1")
    return {"turned": op.attr("rotary_embedding_dim", 0), "interleaved": op.attr("interleaved", 0) == 1}


@operator("RotaryEmbedding", since=23, types=REAL)
def rotary_embedding(op: NodeLowering) -> None:
    """X (B, H, S, D) or (B, S, H * D); caches (positions, D / 2) looked up by position_ids (B, S), or (B, S, D / 2)."""
    x = heads_of(op, op.input(0), op.attr("num_heads", 0))
    y = heads_of(op, op.output(0), x.shape[1])
    caches, rows = (op.input(1), op.input(2)), x.shape[2]
    if op.has(3):
        ids = op.input(3)
        op.agree(ids.shape, (x.shape[0], rows), "position_ids do not fit")
        emit_rotation(op, x, y, caches, ids, (rows, 1), **_plain(op))
        return
    op.agree(caches[0].shape[:2], (x.shape[0], rows), "the caches do not fit")
    emit_rotation(op, x, y, caches, None, per_batch=rows, per_row=1, **_plain(op))


@operator("RotaryEmbedding", domain="com.microsoft", types=REAL)
def microsoft_rotary_embedding(op: NodeLowering) -> None:
    """Emit com.microsoft's RotaryEmbedding. position_ids come second: (B, S), or (1,) for the first row's position."""
    if op.attr("is_packed_batching", 0):
        raise op.reject("is_packed_batching")
    ids, caches = op.input(1), (op.input(2), op.input(3))
    x = op.input(0)
    turned = op.attr("rotary_embedding_dim", 0)
    heads = op.attr("num_heads", 0)
    if len(x.shape) == 3 and not (turned and heads):
        heads = floordiv(x.shape[2], caches[0].shape[-1] * 2) if caches[0].shape else 0
    split = heads_of(op, x, heads)
    y = heads_of(op, op.output(0), heads)
    if len(ids.shape) == 1:
        op.agree(ids.shape, (1,), "position_ids do not fit")
        emit_rotation(op, split, y, caches, ids, per_row=1, **_plain(op))
        return
    op.agree(ids.shape, (split.shape[0], split.shape[2]), "position_ids do not fit")
    emit_rotation(op, split, y, caches, ids, (split.shape[2], 1), **_plain(op))
