"""GroupQueryAttention: rotation, keys and values written into the cache, attention to the valid part of the cache."""

from typing import TYPE_CHECKING, Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, address, failure_status, like, native, read_once, span
from ort_lite.shapes import equal, floordiv, less, maximum, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import attention as kernels
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, bits
from ort_lite_cpu.operators.attention import columns_of, heads_of, mask_of
from ort_lite_cpu.operators.attention_kernels import AttentionOptions, Heads, Mask, emit_attention
from ort_lite_cpu.operators.microsoft.attention import bias_of
from ort_lite_cpu.operators.microsoft.quantized_cache import append_to_coded_cache, emit_coded_attention, is_quantized
from ort_lite_cpu.operators.rotary import HeadSteps, emit_rotation, head_steps
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

_STAGES = {1: kernels.SEEN, 2: kernels.SOFTMAX}


@operator("GroupQueryAttention", domain="com.microsoft", types=REAL)
def group_query_attention(op: NodeLowering) -> None:
    """Emit attention of q (B, S, H) to k and v (B, S, kv heads * D), or packed behind q, in caches (B, kv heads, length, D).

    Batch b has seqlens_k[b] + 1 keys, the last S of which are new; in a prompt, where there is no past, the first S.
    Spec: GroupQueryAttention-1.
    """
    _check(op)
    heads, kv_heads = op.attr("num_heads"), op.attr("kv_num_heads")
    q, k, v = queries_and_new(op, heads, kv_heads)
    rows = q.shape[2]
    lengths, total = op.input(5), op.scalar(6)
    before: Dim = op.raw(3).shape[2] if op.has(3) else 0
    fits = select(equal(total, before + rows), 1, (1 - less(before, total)) * (1 - less(total, rows)))
    op.require(fits, "total_sequence_length is {0}, for {1} new rows and a past of {2}", total, rows, before)
    later = less(rows, total)
    if op.attr("do_rotary", 0):
        caches, positions = (op.input(7), op.input(8)), op.optional(9)
        q, k = (rotate(op, x, caches, lengths, later, positions) for x in (q, k))
    mask = mask_of(op, bias_of(op, 10, (*q.shape[:3], total)), q.shape[:3]) if op.has(10) else Mask()
    window = op.attr("local_window_size", -1)
    stage = _STAGES.get(op.attr("qk_output", 0)) if op.wants(3) else kernels.NOTHING
    if stage is None:
        raise op.reject(f"qk_output {op.attr('qk_output', 0)} for a fourth output, expected 1 or 2")
    rules = AttentionOptions(
        scale=float(op.attr("scale", 0.0)),
        softcap=float(op.attr("softcap", 0.0)),
        left=window - 1 if window > 0 else -1,
        right=0 if op.attr("causal", 1) else -1,
        past=0 - later,
        lengths=lengths,
        extra=1,
        sink=_sink(op, heads),
        stage=stage,
    )
    scores = op.output(3) if stage != kernels.NOTHING else None
    y, pasts, new = heads_of(op, op.output(0), heads), (op.optional(3), op.optional(4)), (k, v)
    if is_quantized(op):
        coded = [
            append_to_coded_cache(op, i + 1, op.input(i + 3), op.input(i + 12), new[i], lengths, later, total) for i in (0, 1)
        ]
        emit_coded_attention(op, q, coded[0], coded[1], y, mask, rules, scores, total)
    else:
        keys, values = (append_to_cache(op, i + 1, pasts[i], new[i], lengths, later, total) for i in (0, 1))
        emit_attention(op, q, keys, values, y, mask, rules, scores)


def _check(op: NodeLowering) -> None:
    if op.attr("sliding_window_cache", 0):
        raise op.reject("a cache that evicts")
    if op.has(14) or op.has(15):
        raise op.reject("normalisation of queries and keys")
    if op.has(16):
        raise op.reject("query_seqlens, the lengths of padded queries")
    if op.has(1) != op.has(2):
        raise op.reject("keys without values, or values without keys")
    if op.attr("do_rotary", 0) and not (op.has(7) and op.has(8)):
        raise op.reject("do_rotary without cos_cache and sin_cache")
    if op.has(3) != op.has(4):
        raise op.reject("a past of keys without values, or of values without keys")


def queries_and_new(op: NodeLowering, heads: int, kv_heads: int) -> tuple[Heads, Heads, Heads]:
    """Return the queries, new keys and new values of the first three inputs, or of the first one, where they are packed."""
    q = op.input(0)
    if op.has(1):
        return heads_of(op, q, heads), heads_of(op, op.input(1), kv_heads), heads_of(op, op.input(2), kv_heads)
    size, every = floordiv(q.shape[2], heads + 2 * kv_heads), heads + 2 * kv_heads
    op.require(equal(size * every, q.shape[2]), "{0} columns do not make {1} heads", q.shape[2], every)
    starts = (0, heads, heads + kv_heads)
    parts = [columns_of(op, q, n, start * size, n * size) for n, start in zip((heads, kv_heads, kv_heads), starts, strict=True)]
    return parts[0], parts[1], parts[2]


def rotate(
    op: NodeLowering, x: Heads, caches: tuple[Tensor, Tensor], lengths: Tensor, later: Dim, positions: Tensor | None = None
) -> Heads:
    """Rotate (B, heads, S, D). Positions are an input, the first one alone for a prompt, or follow from the lengths: 0, 1, ... in a
    prompt.
    """
    rows = x.shape[2]
    y = heads_of(op, op.temporary(x.tensor.dtype, x.shape), x.shape[1])
    interleaved = bool(op.attr("rotary_interleaved", 0))
    turned = caches[0].shape[-1] * 2 if caches[0].shape else 0
    if positions is not None:
        steps = (select(later, rows, 0), later)
        emit_rotation(op, x, y, caches, positions, steps, per_row=1 - later, turned=turned, interleaved=interleaved)
    else:
        base = select(later, 1 - rows, 0)
        emit_rotation(
            op, x, y, caches, lengths, (1, 0), base=base, weight=later, per_row=1, turned=turned, interleaved=interleaved
        )
    return y


def append_to_cache(
    op: NodeLowering, index: int, past: Tensor | None, new: Heads, lengths: Tensor, later: Dim, total: Dim
) -> Heads:
    """Emit output `index`: the past with the new rows behind its valid ones. Return the first `total` rows."""
    before: Dim = 0 if past is None else past.shape[2]
    shape = (*new.shape[:2], maximum(before, total), new.shape[3])
    if past is not None:
        op.agree(past.shape, (*new.shape[:2], before, new.shape[3]), "the past does not go with what is new")
    present = op.output(index) if op.wants(index) else op.temporary(new.tensor.dtype, shape)
    op.agree(present.shape, shape, "keys and values do not go with the queries")
    if {x.dtype for x in (past, new.tensor, present) if x is not None} != {new.tensor.dtype}:
        raise op.reject(f"a past that is not of {new.tensor.dtype}")
    operands, length = [None if past is None else bits(past), bits(new.tensor), lengths, bits(present)], present.shape[2]
    sizes: dict[str, Any] = {"before": before, "length": length, "total": total, "later": later}
    work = present.size // 2
    op.emit(append, operands, g=head_steps(new), **sizes, work=work, over=(3, 0), message=_does_not_fit)
    batch, heads, _, size = new.shape  # as those of `present`, whose shape may have names where these are numbers
    return Heads(present, (batch, heads, total, size), (heads * length * size, length * size, size))


def _does_not_fit(failure: "Failure") -> str:
    first, total = failure.scalar("g.rows") if failure.scalar("later") else 1, failure.scalar("total")
    last = f"the last key {failure.element(2)} at position {failure.at} of {failure.name(5)!r}"
    return f"{last} is out of range [{first - 1}, {total}): {first} new rows end there, total_sequence_length is {total}"


@native
@extents(
    past="g.batch * g.heads * before * g.size",
    new="walk(g.x_at, g.batch, g.x_batch, g.heads, g.x_head, g.rows, g.x_row, g.size, 1)",
    lengths="g.batch",
    y="g.batch * g.heads * length * g.size",
)
def append(
    past: Ptr,
    new: Ptr,
    lengths: Ptr,
    y: Ptr,
    g: HeadSteps,
    before: int,
    length: int,
    total: int,
    later: int,
    part: int,
    parts: int,
) -> int:
    """y (batch, heads, length, size) = rows of past (batch, heads, before, size), then the `rows` new ones, then zeros.

    The new ones begin at lengths[b] + 1 - rows, or, unless `later`, at 0. No length exceeds `total`, which is at most `length`.
    Where y is the past, only the new rows are written.
    """
    rows, size = g.rows, g.size
    same = address(past) == address(y)
    count = rows if same else length
    for job in span(g.batch * g.heads * count, part, parts):
        head = job // count
        h, b = head % g.heads, head // g.heads
        end = int(read_once(lengths, b)) + 1
        first = end - rows if later else 0
        if first < 0 or end < 1 or end > total or first + rows > length:
            return failure_status(INDEX_OUT_OF_RANGE, b)
        t = job % count + (first if same else 0)
        p = (head * length + t) * size
        if first <= t < first + rows:
            source = g.x_at + b * g.x_batch + h * g.x_head + (t - first) * g.x_row
            for i in range(size):
                y[p + i] = new[source + i]
        elif t < min(first, before):
            source = (head * before + t) * size
            for i in range(size):
                y[p + i] = past[source + i]
        else:
            for i in range(size):
                y[p + i] = like(y, 0)
    return OK


def _sink(op: NodeLowering, heads: int) -> Tensor | None:
    """Return one more score a head, (heads,): an input, or 0 for a smooth softmax."""
    if op.has(11):
        return op.input(11)
    if op.attr("smooth_softmax", -1) != 1:
        return None
    import numpy as np

    return op.array(np.zeros(heads, op.raw(0).dtype))
