"""Attention and MultiHeadAttention of com.microsoft, and its form for decoders: biases of projections, padding masks, the past."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, like, native, read_once, span
from ort_lite.shapes import equal, floordiv, less, product, select
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import work_of_copy
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.kernels.gemm import attention as kernels
from ort_lite_cpu.lowering.broadcast import joint_dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.rooms import Rooms
from ort_lite_cpu.lowering.strided import emit_strided_copy
from ort_lite_cpu.lowering.tensor import Expression, Tensor, bits
from ort_lite_cpu.operators.attention import columns_of, heads_of, join, join_past, mask_of
from ort_lite_cpu.operators.attention_kernels import AttentionOptions, Heads, Mask, emit_attention
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm, emit_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.operators.rotary import HeadSteps, head_steps
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

BEAMS = 9
"""The input cache_indirection."""


@operator("Attention", domain="com.microsoft", types=REAL)
def attention(op: NodeLowering) -> None:
    """Emit attention (B, S, v) of x (B, S, I) and weights (I, q + k + v); past and present (2, B, H, rows, size).

    Spec: onnxruntime Attention-1.
    """
    x = op.input(0)
    batch, rows, _ = x.shape
    total = op.raw(1).shape[1]
    sizes: Sequence[Dim] = op.attr("qkv_hidden_sizes") or (floordiv(total, 3),) * 3
    projected = op.temporary(x.dtype, (batch, rows, total))
    bias, constant = op.optional(2), op.constant(1)
    spec = Product(batch * rows, total, x.shape[2], bias=bias)
    if constant is not None:
        emit_gemm(op, spec, x, constant, source=constant, y=projected)
    else:
        emit_dynamic_gemm(op, spec, x, op.input(1), projected)
    attend(op, projected, sizes, past=4, mask=3, bias=5)


def attend(op: NodeLowering, projected: Tensor, sizes: Sequence[Dim], *, past: int, mask: int, bias: int | None) -> None:
    """Emit attention of the projections (B, S, q + k + v). past, mask, bias: numbers of inputs."""
    for attribute in ("do_rotary", "past_present_share_buffer"):
        if op.attr(attribute, 0):
            raise op.reject(attribute)
    heads, (batch, rows, hidden) = op.attr("num_heads"), projected.shape
    if len(sizes) != 3 or any(isinstance(size, int) and size < 0 for size in sizes):
        raise op.reject(f"qkv_hidden_sizes {list(sizes)}")
    every = sizes[0] + sizes[1] + sizes[2]
    op.require(equal(every, hidden), "queries, keys and values have {0} columns, their projections {1}", every, hidden)
    starts = (0, sizes[0], sizes[0] + sizes[1])
    q, k, v = (columns_of(op, projected, heads, start, size) for start, size in zip(starts, sizes, strict=True))
    earlier = op.optional(past)
    before: Dim = 0 if earlier is None else earlier.shape[3]
    if earlier is not None or op.wants(1):
        k, v = _join_both(op, earlier, k, v)
    masked = _mask(op, mask, bias, (batch, heads, rows), before + rows, ignores_columns=True)
    right = 0 if op.attr("unidirectional", 0) else -1
    rules = AttentionOptions(float(op.attr("scale", 0.0)), right=right, past=before)
    emit_attention(op, q, k, v, heads_of(op, op.output(0), heads), masked, rules)


def _join_both(op: NodeLowering, past: Tensor | None, k: Heads, v: Heads) -> tuple[Heads, Heads]:
    """Return keys and values behind their past, in one tensor: output 1 if it is wanted."""
    batch, heads, rows, size = k.shape
    op.require(equal(size, v.shape[3]), "with a past keys and values have one size: {0} and {1}", size, v.shape[3])
    if past is not None:
        op.agree(past.shape, (2, batch, heads, past.shape[3], size), "the past does not go with what is new")
    total = rows + (0 if past is None else past.shape[3])
    shape = (2, batch, heads, total, size)
    present = op.output(1) if op.wants(1) else op.temporary(k.tensor.dtype, shape)
    op.agree(present.shape, shape, "keys and values do not fit what there is of them")
    half, rooms = product(shape[1:]), Rooms(0 if past is None else past.shape[3], total)
    steps = (heads * total * size, total * size, size)
    for number, new in enumerate((k, v)):
        past_at = 0 if past is None else number * product(past.shape[1:])
        join(op, past, new, present, rooms, past_at, number * half)
    return Heads(present, shape[1:], steps), Heads(present, shape[1:], steps, half)


class InputNumbers(NamedTuple):
    """The numbers of inputs that MultiHeadAttention and its form for decoders have in different places."""

    bias: int
    mask: int
    added: int
    past: int
    """The past of keys; that of values comes next."""
    used: int
    """The number of valid rows in a past that is a buffer with room for more."""
    width: int = 0
    """The number of beams; 0: there is no such input."""


@operator("MultiHeadAttention", domain="com.microsoft", types=REAL)
def multi_head_attention(op: NodeLowering) -> None:
    """Emit attention of queries (B, S, H) to keys and values that are separate, packed together or another attention's past.

    Spec: onnxruntime MultiHeadAttention-1.
    """
    _attend_heads(op, InputNumbers(bias=3, mask=4, added=5, past=6, used=8))


@operator("DecoderMaskedMultiHeadAttention", domain="com.microsoft", types=REAL)
def decoder_masked_multi_head_attention(op: NodeLowering) -> None:
    """Emit attention of one query a sequence, with a past in a buffer that keeps its size, or with the heads of cross attention.

    Spec: onnxruntime DecoderMaskedMultiHeadAttention-1.
    """
    if op.has(5) and not (op.attr("past_present_share_buffer", 0) and op.has(7)):
        raise op.reject("a past without past_present_share_buffer and past_sequence_length")
    _attend_heads(op, InputNumbers(bias=10, mask=3, added=4, past=5, used=7, width=8))


def _attend_heads(op: NodeLowering, at: InputNumbers) -> None:
    heads = op.attr("num_heads")
    q, k, v = _operands(op, heads)
    _check_beams(op, at, q.shape[0])
    if op.has(at.bias):
        q, k, v = _add_bias(op, (q, k, v), at.bias)
    past = op.optional(at.past)
    before: Dim = 0 if past is None else past.shape[2]
    if past is not None and op.has(at.used):
        before = op.scalar(at.used)
        k, v = (_put_behind(op, op.input(at.past + number), new, before, number + 1) for number, new in enumerate((k, v)))
        if op.has(BEAMS):
            k, v = (_of_beams(op, op.input(BEAMS), kept, before) for kept in (k, v))
    elif past is not None and op.has(BEAMS):
        raise op.reject("cache_indirection without past_sequence_length")
    else:
        k, v = (join_past(op, at.past + number, new, number + 1, q.tensor.dtype) for number, new in enumerate((k, v)))
    mask = _mask(op, at.mask, at.added, q.shape[:3], k.shape[2])
    right = 0 if op.attr("unidirectional", 0) else -1
    stage = kernels.MASKED if op.wants(3) else kernels.NOTHING
    rules = AttentionOptions(float(op.attr("scale", 0.0)), right=right, past=before, stage=stage)
    emit_attention(op, q, k, v, heads_of(op, op.output(0), heads), mask, rules, op.output(3) if op.wants(3) else None)


def _put_behind(op: NodeLowering, past: Tensor, new: Heads, before: Dim, index: int) -> Heads:
    """Emit output `index`: the past (batch, heads, room, size) with the new rows behind the first `before`. Return the valid rows."""
    batch, heads, rows, size = new.shape
    room, total = past.shape[2], before + rows
    op.agree(past.shape, (batch, heads, room, size), "the past does not go with what is new")
    fits = (1 - less(before, 0)) * (1 - less(room, total))
    op.require(fits, "{0} rows behind {1}, in a past of {2}", rows, before, room)
    present = op.output(index) if op.wants(index) else op.temporary(past.dtype, past.shape)
    steps = (heads * room * size, room * size, size)
    old, kept = bits(past), bits(present)
    op.emit(
        primitives.copy, [old, kept], count=past.size, work=work_of_copy(past.dtype, past.size), inplace=(1, 0), over=(1, 0)
    )
    emit_strided_copy(op, new.tensor, present, new.shape, (*new.steps, 1), (*steps, 1), new.at, before * size)
    return Heads(present, (batch, heads, total, size), steps)


def _operands(op: NodeLowering, heads: int) -> tuple[Heads, Heads, Heads]:
    q = op.input(0)
    if len(q.shape) == 5:
        return _slice_heads(op, q, 0, 3), _slice_heads(op, q, 1, 3), _slice_heads(op, q, 2, 3)
    if not op.has(1) or (len(op.raw(1).shape) != 5 and not op.has(2)):
        raise op.reject("queries without keys and values")
    k = op.input(1)
    if len(k.shape) == 5:
        return heads_of(op, q, heads), _slice_heads(op, k, 0, 2), _slice_heads(op, k, 1, 2)
    return heads_of(op, q, heads), heads_of(op, k, heads), heads_of(op, op.input(2), heads)


def _slice_heads(op: NodeLowering, x: Tensor, number: int, count: int) -> Heads:
    """Return operand `number` of (B, S, heads, count, size)."""
    batch, rows, heads, _, size = x.shape
    row = heads * count * size
    return Heads(x, (batch, heads, rows, size), (rows * row, count * size, row), number * size)


def _add_bias(op: NodeLowering, parts: tuple[Heads, Heads, Heads], index: int) -> tuple[Heads, Heads, Heads]:
    """Return each with its piece of the bias, input `index` (hidden sizes of q, k and v), as (B, heads, rows, size).

    Keys and values that come as (B, heads, rows, size) include theirs already.
    """
    bias = op.input(index)
    widths = [part.shape[1] * part.shape[3] for part in parts]
    op.agree(bias.shape, (widths[0] + widths[1] + widths[2],), "the bias does not fit queries, keys and values")
    done: list[Heads] = []
    at: Dim = 0
    for part, width in zip(parts, widths, strict=True):
        if len(part.tensor.shape) == 4:
            done.append(part)
        else:
            made = op.temporary(part.tensor.dtype, part.shape)
            op.emit(add_bias, [part.tensor, bias, made], g=head_steps(part), bias_at=at, work=made.size)
            done.append(heads_of(op, made, part.shape[1]))
        at = at + width
    return done[0], done[1], done[2]


@native
@extents(
    x="walk(g.x_at, g.batch, g.x_batch, g.heads, g.x_head, g.rows, g.x_row, g.size, 1)",
    bias="bias_at + g.heads * g.size",
    y="g.batch * g.heads * g.rows * g.size",
)
def add_bias(x: Ptr, bias: Ptr, y: Ptr, g: HeadSteps, bias_at: int, part: int, parts: int) -> int:
    """y (batch, heads, rows, size) = x at its steps + bias[bias_at:] (heads, size)."""
    for job in span(g.batch * g.heads * g.rows, part, parts):
        i, h, b = job % g.rows, job // g.rows % g.heads, job // g.rows // g.heads
        source, addend = g.x_at + b * g.x_batch + h * g.x_head + i * g.x_row, bias_at + h * g.size
        for j in range(g.size):
            y[job * g.size + j] = x[source + j] + bias[addend + j]
    return OK


# --- Beams
def _check_beams(op: NodeLowering, at: InputNumbers, batch: Dim) -> None:
    """Require that beam_width and cache_indirection (groups, beams, columns) agree, also where there is no past to read by them."""
    width = op.scalar(at.width) if at.width and op.has(at.width) else None
    if op.has(BEAMS):
        groups, beams, _ = op.raw(BEAMS).shape
        op.require(equal(groups * beams, batch), "{0} groups of {1} beams for a batch of {2}", groups, beams, batch)
        if width is not None:
            op.require(equal(width, beams), "beam_width is {0}, cache_indirection is for {1} beams", width, beams)
    elif width is not None:
        op.require(equal(width, 1), "beam_width is {0}, but there is no cache_indirection", width)


def _of_beams(op: NodeLowering, rows: Tensor, kept: Heads, before: Dim) -> Heads:
    """Return rows of the past from the sequences that each beam came by: `rows` (groups, beams, columns) has the beam of each row."""
    batch, heads, total, size = kept.shape
    _, beams, columns = rows.shape
    room = kept.tensor.shape[2]
    op.require(equal(columns, room), "cache_indirection has {0} columns for a past of {1}", columns, room)
    made = op.temporary(kept.tensor.dtype, (batch, heads, total, size))
    given: dict[str, Any] = {"batch": batch, "heads": heads, "room": room, "total": total, "size": size}
    given |= {"before": before, "beams": beams, "columns": columns}
    op.emit(follow_beams, [kept.tensor, rows, made], **given, work=made.size // 2, message=_no_beam)
    return heads_of(op, made, heads)


def _no_beam(failure: "Failure") -> str:
    return failure.outside("beam", 1, 0, failure.scalar("beams"), BEAMS)


@native
@extents(x="batch * heads * room * size", rows="batch * columns", y="batch * heads * total * size")
def follow_beams(
    x: Ptr,
    rows: Ptr,
    y: Ptr,
    batch: int,
    heads: int,
    room: int,
    total: int,
    size: int,
    before: int,
    beams: int,
    columns: int,
    part: int,
    parts: int,
) -> int:
    """y[b, h, t] = x[b // beams * beams + rows[b, t], h, t] for t below `before`, else x[b, h, t]."""
    for job in span(batch * heads * total, part, parts):
        t, h, b = job % total, job // total % heads, job // total // heads
        source = b
        if t < before:
            beam = int(read_once(rows, b * columns + t))
            if beam < 0 or beam >= beams:
                return failure_status(INDEX_OUT_OF_RANGE, b * columns + t)
            source = b // beams * beams + beam
        for i in range(size):
            y[job * size + i] = x[((source * heads + h) * room + t) * size + i]
    return OK


# --- Masks
def _mask(
    op: NodeLowering, padding: int, bias: int | None, wanted: Shape, total: Dim, *, ignores_columns: bool = False
) -> Mask:
    """Return the sum of input `bias` and of `mask_filter_value` for keys that input `padding` masks."""
    given = _padding(op, padding, (wanted[0], wanted[2], total), ignores_columns) if op.has(padding) else None
    if bias is None or not op.has(bias):
        return Mask() if given is None else mask_of(op, given, wanted)
    added = bias_of(op, bias, total)
    if given is None:
        return mask_of(op, added, wanted)
    shape = tuple(joint_dim(a, b) for a, b in zip(given.shape, added.shape, strict=True))
    both = Tensor(added.dtype, shape, pending=Expression("{0} + {1}", (given, added), node=op.node))
    return mask_of(op, op.builder.materialize(both), wanted)


def bias_of(op: NodeLowering, index: int, keys: Dim) -> Tensor:
    """Return input `index`, an addend for each score: (batch or 1, heads or 1, rows, keys)."""
    bias = op.input(index)
    op.agree(bias.shape[3:], (keys,), "the attention bias does not fit queries and keys")
    return bias


def _padding(op: NodeLowering, index: int, wanted: tuple[Dim, Dim, Dim], ignores_columns: bool) -> Tensor:
    """Return (B, 1, 1 or S, T) floats of a padding mask (B, T), (B, S, T), or (B,) or (2 B,): ends, then starts, of valid keys.

    `wanted` is B, S and T. A mask (3 B + 2,) has ends and the starts of packed sequences; only the ends are used, as in onnxruntime.
    `ignores_columns`: a mask (B or 1, 1) masks nothing.
    """
    mask, dtype, (batch, _, total) = op.input(index), op.info().dtype, wanted
    assert dtype is not None
    value = float(op.attr("mask_filter_value", -10000.0))
    rank = len(mask.shape)
    if rank not in (1, 2, 3):
        raise op.reject(f"a mask of rank {rank}")
    if rank > 1:
        ignored = equal(mask.shape[1], 1) if rank == 2 and ignores_columns else 0
        column = (select(equal(mask.shape[0], 1), 1, batch), 1)
        keys = tuple(select(ignored, one, full) for one, full in zip(column, (batch, total), strict=True))
        op.agree(mask.shape, wanted if rank == 3 else keys, "the mask does not fit queries and keys")
        made = op.temporary(dtype, (batch, 1, wanted[1] if rank == 3 else 1, total))
        op.emit(mask_bias, [mask, made], n=made.size, ignored=ignored, value=value)
        return made
    starts = equal(mask.shape[0], 2 * batch)
    fits = select(equal(mask.shape[0], batch), 1, equal(mask.shape[0], 3 * batch + 2))
    op.require(select(starts, 1, fits), "a mask of {0} lengths for a batch of {1}", mask.shape[0], batch)
    made = op.temporary(dtype, (batch, 1, 1, total))
    op.emit(limits, [mask, made], batch=batch, total=total, starts=starts, value=value, message=_negative_end)
    return made


def _negative_end(failure: "Failure") -> str:
    return f"the end of the keys of sample {failure.at} is {failure.element(0, failure.at)}, expected 0 or more"


@native
@extents(mask="select(ignored, 0, n)", y="n")
def mask_bias(mask: Ptr, y: Ptr, n: int, ignored: int, value: float, part: int, parts: int) -> int:
    """y = 0 where the mask is positive or `ignored`, else `value`."""
    for i in span(n, part, parts):
        y[i] = like(y, 0) if ignored or mask[i] > 0 else like(y, value)
    return OK


@native
@extents(ends="batch + select(starts, batch, 0)", y="batch * total")
def limits(ends: Ptr, y: Ptr, batch: int, total: int, starts: int, value: float, part: int, parts: int) -> int:
    """y[b, t] = 0 for t below ends[b], if `starts` from ends[batch + b] on; elsewhere `value`. Ends may lie beyond the keys."""
    for b in span(batch, part, parts):
        first, last = int(ends[batch + b]) if starts else 0, int(ends[b])
        if last < 0:
            return failure_status(INDEX_OUT_OF_RANGE, b)
        for t in range(total):
            y[b * total + t] = like(y, 0) if first <= t < last else like(y, value)
    return OK
