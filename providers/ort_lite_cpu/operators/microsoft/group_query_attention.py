"""GroupQueryAttention: rotation, keys and values written into the cache, attention to the valid part of the cache."""

from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import DType
from ort_lite.shapes import equal, floordiv, less, maximum, same, select
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import attention as kernels
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.attention import cast_heads, columns_of, heads_of, mask_of
from ort_lite_cpu.operators.attention_kernels import AttentionOptions, Heads, Mask, emit_attention
from ort_lite_cpu.operators.microsoft.attention import bias_of
from ort_lite_cpu.operators.microsoft.cache_places import (
    CachePlace,
    PlaceSizes,
    append_to_cache,
    emit_places,
    emit_row_positions,
    resident_mask,
    widen_cache,
)
from ort_lite_cpu.operators.microsoft.quantized_cache import (
    CodedCache,
    append_to_coded_cache,
    emit_coded_attention,
    is_quantized,
)
from ort_lite_cpu.operators.rotary import emit_rotation
from ort_lite_cpu.operators.targets import round_targets, target_of
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.types import HALVES

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

Caches = tuple[Heads, Heads] | tuple[CodedCache, CodedCache]
"""Keys and values."""
_STAGES = {1: kernels.SEEN, 2: kernels.SOFTMAX}
PADDED = 16
"""The input query_seqlens."""


@operator("GroupQueryAttention", domain="com.microsoft", types=REAL | frozenset(HALVES))
def group_query_attention(op: NodeLowering) -> None:
    """Emit attention of q (B, S, H) to k and v (B, S, kv heads * D), or packed behind q, in caches (B, kv heads, length, D).

    Batch b has seqlens_k[b] + 1 keys, the last S of which are new; in a prompt, where there is no past, the first S. k and v of no
    rows add none. With query_seqlens, query_seqlens[b] rows are new, and the rest is padding. With sliding_window_cache, the cache
    keeps the last local_window_size keys, and as many older ones as `cache_places.resident` says. 16-bit floats are computed as
    float32, and stay as they are in caches. Spec: GroupQueryAttention-1.
    """
    _check(op)
    heads, kv_heads, wide = op.attr("num_heads"), op.attr("kv_num_heads"), _wide(op)
    q, k, v = queries_and_new(op, heads, kv_heads)
    total = op.scalar(6)
    later = less(q.shape[2], total)
    sizes = _sizes(op, q.shape, k.shape[2], total, later)
    place = emit_places(op, op.input(5), op.optional(PADDED), sizes, _does_not_fit)
    q, result, scores = cast_heads(op, q, wide), target_of(op, 0, wide), target_of(op, 3, wide) if op.wants(3) else None
    if op.attr("do_rotary", 0):
        caches, ids = (op.cast(op.input(7), wide), op.cast(op.input(8), wide)), op.optional(9)
        if op.has(PADDED):
            ids, later = emit_row_positions(op, place, ids, q.shape[2]), 1
        q, k = (rotate(op, cast_heads(op, x, wide), caches, place.table, ids, later) for x in (q, k))
    mask = mask_of(op, op.cast(bias_of(op, 10, total), wide), q.shape[:3]) if op.has(10) else Mask()
    y = heads_of(op, result, heads)
    if not sizes.window:
        _attend(op, q, _append(op, (k, v), place, 1), y, mask, place, scores)
    else:
        _attend_by_rows(op, q, (k, v), y, mask, place, sizes)
    round_targets(op, {0: result, 3: scores})


def _attend_by_rows(
    op: NodeLowering, q: Heads, new: tuple[Heads, Heads], y: Heads, mask: Mask, place: CachePlace, sizes: PlaceSizes
) -> None:
    """Emit attention to the window of a cache for one row of queries, and to the window with all new rows for several."""
    one, present = equal(q.shape[2], 1), _append(op, new, place, 1)
    if not same(one, 0):  # all keys that one query sees stay in the window
        _attend_to_window(op, q, present, y, mask, place.replace(turn=one))
    if not same(one, 1):
        sizes = sizes._replace(length=sizes.before + sizes.rows, staged=1)
        place = emit_places(op, op.input(5), op.optional(PADDED), sizes, _does_not_fit).replace(turn=1 - one)
        _attend_to_window(op, q, _append(op, new, place, -2), y, mask, place)


def _attend_to_window(op: NodeLowering, q: Heads, caches: Caches, y: Heads, mask: Mask, place: CachePlace) -> None:
    """Emit attention to the rows of a window, whose first row may have any position."""
    _attend(op, q, caches, y, resident_mask(op, mask, place, *q.shape[1:3]), place)


def _check(op: NodeLowering) -> None:
    if op.has(14) or op.has(15):
        raise op.reject("normalisation of queries and keys")
    if op.has(1) != op.has(2):
        raise op.reject("keys without values, or values without keys")
    if op.attr("do_rotary", 0) and not (op.has(7) and op.has(8)):
        raise op.reject("do_rotary without cos_cache and sin_cache")
    if op.has(3) != op.has(4):
        raise op.reject("a past of keys without values, or of values without keys")
    window, causal = op.attr("local_window_size", -1), op.attr("causal", 1)
    if causal not in (0, 1):
        raise op.reject(f"causal {causal}, expected 0 or 1")
    if window > 0 and not causal:
        raise op.reject("local_window_size without causal, which it needs")
    if op.has(PADDED) and not (op.has(3) and causal):
        raise op.reject("query_seqlens without a past or causal, which it needs")
    if _evicts(op):
        if window < 1 or not op.has(3):
            raise op.reject("sliding_window_cache without local_window_size or a past, which it needs")
        if op.wants(3):
            raise op.reject("the scores of a sliding_window_cache")


def _evicts(op: NodeLowering) -> bool:
    return bool(op.attr("sliding_window_cache", 0) == 1)


def _sizes(op: NodeLowering, queries: Shape, fresh: Dim, total: Dim, later: Dim) -> PlaceSizes:
    """Return the sizes that places follow from. Requires them to fit each other."""
    rows, before = queries[2], op.raw(3).shape[2] if op.has(3) else 0
    window, evicts, padded = op.attr("local_window_size", -1), _evicts(op), op.has(PADDED)
    lengths, same_rows = op.raw(5).size, equal(fresh, rows)
    op.require(equal(lengths, queries[0]), "{0} elements of seqlens_k for a batch of {1}", lengths, queries[0])
    shares = 0 if evicts or padded else equal(fresh, 0)
    op.require(select(same_rows, 1, shares), "{0} new rows of keys for {1} rows of queries", fresh, rows)
    if evicts:
        op.require(1 - less(before, window), "sliding_window_cache has {0} rows, local_window_size is {1}", before, window)
    else:
        fits = 1 if padded else select(equal(total, before + fresh), 1, 1 - less(before, total))
        message = "total_sequence_length is {0}, for {1} new rows and a past of {2}"
        op.require((1 - less(total, rows)) * fits, message, total, rows, before)
    length, follows = (before, 1) if evicts else (maximum(before, total), 1 if padded else later)
    sizes: Any = (queries[0], rows, fresh, before, length, total, follows, 1, window if evicts else 0)
    return PlaceSizes(*sizes)


def _append(op: NodeLowering, new: tuple[Heads, Heads], place: CachePlace, first: int) -> Caches:
    """Emit the past of keys and values with the new rows, as the outputs from `first` on; as temporaries, if that is negative."""
    if is_quantized(op):
        wide = [cast_heads(op, x, _wide(op)) for x in new]
        keys, values = (append_to_coded_cache(op, first + i, op.input(i + 3), op.input(i + 12), wide[i], place) for i in (0, 1))
        return keys, values
    own = [cast_heads(op, x, op.raw(0).dtype) for x in new]
    k, v = (append_to_cache(op, first + i, op.optional(i + 3), own[i], place) for i in (0, 1))
    return k, v


def _wide(op: NodeLowering) -> DType:
    """Return the type in which attention is computed."""
    return "float32" if op.raw(0).dtype in HALVES else op.raw(0).dtype


def _attend(
    op: NodeLowering, q: Heads, caches: Caches, y: Heads, mask: Mask, place: CachePlace, scores: Tensor | None = None
) -> None:
    """Emit attention to the rows of caches."""
    window = op.attr("local_window_size", -1)
    stage = _STAGES.get(op.attr("qk_output", 0)) if op.wants(3) else kernels.NOTHING
    if stage is None:
        raise op.reject(f"qk_output {op.attr('qk_output', 0)} for a fourth output, expected 1 or 2")
    rules = AttentionOptions(
        scale=float(op.attr("scale", 0.0)),
        softcap=float(op.attr("softcap", 0.0)),
        left=window - 1 if window > 0 else -1,
        right=0 if op.attr("causal", 1) else -1,
        past=kernels.PLACED,
        lengths=place.table,
        sink=_sink(op),
        stage=stage,
    )
    keys, values = caches
    if isinstance(keys, CodedCache) and isinstance(values, CodedCache):
        emit_coded_attention(op, q, keys, values, y, mask, rules, scores, place.seen, turn=place.turn)
    elif isinstance(keys, Heads) and isinstance(values, Heads):
        keys, values = (widen_cache(op, x, place) for x in (keys, values))
        emit_attention(op, q, keys, values, y, mask, rules, scores, turn=place.turn)


def _does_not_fit(failure: "Failure") -> str:
    end, rows, total = failure.element(0) + 1, failure.scalar("s.rows"), failure.scalar("s.total")
    if failure.has_operand(1) and 0 < end <= total:
        used, room = failure.element(1), failure.scalar("s.length")
        name = f"query_seqlens {used} at position {failure.at} of {failure.name(PADDED)!r}"
        if not 0 <= used <= min(rows, end):
            return f"{name} is out of range [0, {min(rows, end)}]"
        return f"{name}, of {rows} rows, leaves {end - used} earlier ones: the cache has room for {room}"
    first = rows if failure.scalar("s.follows") else 1
    last = f"the last key {end - 1} at position {failure.at} of {failure.name(5)!r}"
    return f"{last} is out of range [{first - 1}, {total}): {first} new rows end there, total_sequence_length is {total}"


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
    op: NodeLowering, x: Heads, caches: tuple[Tensor, Tensor], places: Tensor, ids: Tensor | None = None, later: Dim = 1
) -> Heads:
    """Rotate (B, H, S, D). Positions follow from places, or are `ids`: of a prompt, where `later` is 0, the first one alone."""
    rows = x.shape[2]
    y = heads_of(op, op.temporary(x.tensor.dtype, x.shape), x.shape[1])
    interleaved = bool(op.attr("rotary_interleaved", 0))
    turned = caches[0].shape[-1] * 2 if caches[0].shape else 0
    steps, per_row = ((kernels.NUMBERS, 0), 1) if ids is None else ((select(later, rows, 0), later), 1 - later)
    positions = places if ids is None else ids
    emit_rotation(op, x, y, caches, positions, steps, per_row=per_row, turned=turned, interleaved=interleaved)
    return y


def _sink(op: NodeLowering) -> Tensor | None:
    """Return one more score a head, (heads,): an input, or 0 for a smooth softmax."""
    if op.has(11):
        return op.cast(op.input(11), _wide(op))
    if op.attr("smooth_softmax", -1) != 1:
        return None
    import numpy as np

    return op.array(np.zeros(op.attr("num_heads"), _wide(op)))
