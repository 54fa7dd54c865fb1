"""Attention, MultiHeadAttention and GroupQueryAttention of com.microsoft."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Node
from ort_lite_xla.along import Mixed, PaddedDims, Rule
from ort_lite_xla.operators.activations import MICROSOFT
from ort_lite_xla.operators.rotary import rotate, rows_at
from ort_lite_xla.operators.scores import (
    MASKED,
    SEEN,
    SOFTMAX,
    Attending,
    attend,
    behind,
    both,
    join_heads,
    split_heads,
    window,
)
from ort_lite_xla.registry import FLOATS, INDICES, Array, PaddingMask, XlaOp, has_input, lowering

_STAGES = {0: None, 1: SEEN, 2: SOFTMAX}
"""Attribute qk_output -> the stage of the scores that are a result."""


def _batch(axes: Mapping[int, int]) -> Rule:
    """Return a rule: only the batch may be padded, which these operands have at these axes, as a whole or broadcast."""

    def rule(dims: PaddedDims) -> list[PaddingMask]:
        dims.refuse_taint()
        for k, sizes in enumerate(dims.operands):
            rest = [size for axis, size in enumerate(sizes or ()) if axis != axes.get(k)]
            if any(isinstance(size, str) for size in rest):
                raise Mixed("another dimension than the batch is padded")
            if sizes and k in axes and sizes[axes[k]] not in (1, dims.operand(0)[0]):
                raise Mixed("the batches differ")
        return []

    return rule


# --- Attention and MultiHeadAttention
def _check_flags(node: Node) -> str | None:
    found = [name for name in ("do_rotary", "past_present_share_buffer") if node.attr(name, 0)]
    return f"{found[0]} is not supported" if found else None


@lowering(
    "Attention",
    domain=MICROSOFT,
    types=(FLOATS, FLOATS, FLOATS, INDICES, FLOATS, FLOATS),
    check=_check_flags,
    along=_batch({0: 0, 3: 0, 4: 1, 5: 0}),
)
def attention(
    op: XlaOp, x: Array, w: Array, bias: Array = None, mask: Array = None, past: Array = None, added: Array = None
) -> tuple[Array, Array]:
    """Attend to projections of x (B, S, I) by w (I, q + k + v). The past and the second result are (2, B, H, rows, size).

    Spec: onnxruntime com.microsoft Attention-1.
    """
    wide = x.dtype if op.vendor else jnp.promote_types(x.dtype, np.float32)
    projected = jnp.matmul(x, w, preferred_element_type=wide)
    projected = projected if bias is None else projected + bias.astype(wide)
    sizes = op.attr("qkv_hidden_sizes") or (w.shape[1] // 3,) * 3
    parts = jnp.split(projected, [sizes[0], sizes[0] + sizes[1]], 2)
    q, k, v = (split_heads(part, op.attr("num_heads")) for part in parts)
    if past is not None:
        k, v = behind(past[0].astype(wide), k), behind(past[1].astype(wide), v)
    y, _ = _attend(op, (q, k, v), 0 if past is None else past.shape[3], mask, added)
    present = jnp.stack([k, v]).astype(x.dtype) if op.wants(1) else None
    return join_heads(y).astype(x.dtype), present


def _check_heads(node: Node) -> str | None:
    if has_input(node, 8) or has_input(node, 9):
        return "a past in a buffer with room, or of beams (past_sequence_length, cache_indirection)"
    if has_input(node, 6) != has_input(node, 7):
        return "a past of keys without values, or of values without keys"
    return None


@lowering(
    "MultiHeadAttention",
    domain=MICROSOFT,
    types=(FLOATS, FLOATS, FLOATS, FLOATS, INDICES, FLOATS, FLOATS, FLOATS),
    check=_check_heads,
    along=_batch(dict.fromkeys((0, 1, 2, 4, 5, 6, 7), 0)),
)
def multi_head_attention(
    op: XlaOp,
    q: Array,
    k: Array = None,
    v: Array = None,
    bias: Array = None,
    mask: Array = None,
    added: Array = None,
    past_k: Array = None,
    past_v: Array = None,
) -> tuple[Array, ...]:
    """Attend to keys and values that are separate, packed together or another attention's past.

    Also returns them behind their past, and the scores. Spec: onnxruntime com.microsoft MultiHeadAttention-1.
    """
    heads = op.attr("num_heads")
    parts = [*_unpack(q), None, None] if k is None else [q, *_unpack(k), v]
    q, k, v = parts[:3]
    if bias is not None:
        q, k, v = _add_bias((q, k, v), bias)
    q, k, v = (split_heads(x, heads) for x in (q, k, v))
    k, v = behind(past_k, k), behind(past_v, v)
    before = 0 if past_k is None else past_k.shape[2]
    y, scores = _attend(op, (q, k, v), before, mask, added, MASKED if op.wants(3) else None)
    return join_heads(y), k, v, scores


def _unpack(x: Array) -> list[Array]:
    """Return the operands (B, S, heads * size) that are packed as (B, S, heads, count, size), or the one that is not."""
    return [x] if x.ndim != 5 else [x[:, :, :, k].reshape(*x.shape[:2], -1) for k in range(x.shape[3])]


def _add_bias(parts: tuple[Array, Array, Array], bias: Array) -> list[Array]:
    """Add to each (B, S, H) its piece of the bias; (B, heads, S, size) have theirs already."""
    widths = [part.shape[1] * part.shape[3] if part.ndim == 4 else part.shape[2] for part in parts]
    pieces = jnp.split(bias, [widths[0], widths[0] + widths[1]])
    return [part if part.ndim == 4 else part + piece for part, piece in zip(parts, pieces, strict=True)]


def _attend(
    op: XlaOp, heads: tuple[Array, Array, Array], before: int, mask: Array, added: Array, stage: int | None = None
) -> tuple[Array, Array]:
    """Attend with a padding mask, which adds `mask_filter_value`, an addend, and causality behind `before` rows of a past."""
    q, k, v = heads
    (batch, _, rows, _), length = q.shape, k.shape[2]
    addend = None if mask is None else _padding(mask, batch, length, op.attr("mask_filter_value", -10000.0))
    addend = added if addend is None else addend if added is None else addend + added
    causal = bool(op.attr("unidirectional", 0))
    visible = window(rows, length, before, right=0) if causal and before else None
    rules = Attending(op.attr("scale", 0.0), 0.0, causal and not before, visible, addend=addend, stage=stage, vendor=op.vendor)
    return attend(q, k, v, rules)


def _padding(mask: Array, batch: int, length: int, value: float) -> Array:
    """Return (B, 1, 1 or S, T) addends of a mask (B, T) or (B, S, T), or of the ends (B,), then perhaps starts, of valid keys.

    A mask (3 B + 2,) has ends and the starts of packed sequences; only the ends are used, as in onnxruntime.
    """
    if mask.ndim == 1:
        key = np.arange(length)
        valid = key < mask[:batch, None]
        if mask.shape[0] == 2 * batch:
            valid = valid & (key >= mask[batch:, None])
        valid = valid[:, None, None]
    else:
        valid = (mask > 0)[:, None] if mask.ndim == 3 else (mask > 0)[:, None, None]
    return jnp.where(valid, np.float32(0), np.float32(value))


# --- GroupQueryAttention
def _check_group_query(node: Node) -> str | None:
    for attribute, name in (("sliding_window_cache", "a cache that evicts"), ("kv_cache_bit_width", "a quantized cache")):
        if node.attr(attribute, 0):
            return name
    inputs = {
        12: "a quantized cache",
        13: "a quantized cache",
        14: "normalized queries",
        15: "normalized keys",
        16: "query_seqlens",
    }
    found = [name for index, name in inputs.items() if has_input(node, index)]
    if found:
        return found[0]
    if has_input(node, 1) != has_input(node, 2) or has_input(node, 3) != has_input(node, 4):
        return "keys without values, or values without keys"
    if node.attr("do_rotary", 0) and not (has_input(node, 7) and has_input(node, 8)):
        return "do_rotary without cos_cache and sin_cache"
    return None if node.attr("qk_output", 0) in _STAGES else f"qk_output {node.attr('qk_output')}"


def _grouped_along(dims: PaddedDims) -> list[PaddingMask]:
    """Allow any batch, and any number of keys if the caches have room for them and few rows are new.

    Keys beyond the last one of each sample are unseen anyway. A padded `total` is at least 6, and 5 before it was padded.
    """
    dims.refuse_taint(6)
    rows = dims.operand(0)[1]
    if 6 in dims.tainted and (isinstance(rows, str) or rows >= 5):
        raise Mixed("a prompt may look like rows after a past")
    bias = dims.operand(10)
    operands = [*dims.operands]
    if bias:
        operands[10] = bias[:-1]
    return _batch(dict.fromkeys((0, 1, 2, 3, 4, 5, 9, 10), 0))(dims._replace(operands=tuple(operands), tainted=frozenset()))


@lowering(
    "GroupQueryAttention",
    domain=MICROSOFT,
    types=(*[FLOATS] * 5, INDICES, INDICES, FLOATS, FLOATS, INDICES, FLOATS, FLOATS),
    contents=(6,),
    check=_check_group_query,
    along=_grouped_along,
)
def group_query_attention(
    op: XlaOp, q: Array, k: Array, v: Array, past_k: Array, past_v: Array, last: Array, total: Array, *more: Array
) -> tuple[Array, ...]:
    """Attend from q (B, S, H) to k and v, or those packed behind q, in caches (B, key heads, length, size).

    Sample b has last[b] + 1 keys, the last S of which are new; in a prompt, where `total` is S, the first S.
    Also returns the caches and the scores. Spec: onnxruntime com.microsoft GroupQueryAttention-1.
    """
    cos, sin, ids, added, sink = (*more, *[None] * 5)[:5]
    q, k, v = _grouped_heads(op, q, k, v)
    rows, heads = q.shape[2], q.shape[1]
    (length,) = op.numbers(6) or (0,)
    last = last.reshape(-1)
    later = rows < length
    first = last + 1 - rows if later else jnp.zeros_like(last)
    if op.attr("do_rotary", 0):
        positions = first[:, None] + np.arange(rows)
        if ids is not None:
            positions = ids if later else ids.reshape(-1)[:1, None] + np.arange(rows)
        q, k = (
            rotate(x, rows_at(cos, positions), rows_at(sin, positions), bool(op.attr("rotary_interleaved", 0))) for x in (q, k)
        )
    present_k, present_v = (_append(past, new, first, length) for past, new in ((past_k, k), (past_v, v)))
    size = op.attr("local_window_size", -1)
    right = 0 if op.attr("causal", 1) else -1
    seen = window(rows, length, first[:, None, None, None], size - 1 if size > 0 else -1, right)
    if sink is None and op.attr("smooth_softmax", 0):
        sink = jnp.zeros(heads, q.dtype)
    rules = Attending(
        op.attr("scale", 0.0),
        op.attr("softcap", 0.0),
        visible=both(np.arange(length) < last[:, None, None, None] + 1, seen),
        addend=added,
        sink=sink,
        stage=_STAGES[op.attr("qk_output", 0)] if op.wants(3) else None,
        vendor=op.vendor,
    )
    y, scores = attend(q, present_k[:, :, :length], present_v[:, :, :length], rules)
    return join_heads(y), present_k, present_v, scores


def _grouped_heads(op: XlaOp, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """Return queries, keys and values as heads, which may be packed together in q."""
    heads, groups = op.attr("num_heads"), op.attr("kv_num_heads")
    if k is None:
        size = q.shape[2] // (heads + 2 * groups)
        q, k, v = jnp.split(q, [heads * size, (heads + groups) * size], 2)
    return split_heads(q, heads), split_heads(k, groups), split_heads(v, groups)


def _append(past: Array, new: Array, first: Array, total: int) -> Array:
    """Return `total` rows, or as many as the past has if they are more: the past, from first[b] on the new rows, then zeros."""
    rows, before = new.shape[2], 0 if past is None else past.shape[2]
    at = np.arange(max(before, total)) - first[:, None]
    index = jnp.clip(at, 0, rows - 1)[:, None, :, None]
    found = jnp.where(((at >= 0) & (at < rows))[:, None, :, None], jnp.take_along_axis(new, index, 2, mode="clip"), 0)
    if past is None:
        return found
    wide = jnp.pad(past, [(0, 0), (0, 0), (0, max(total - before, 0)), (0, 0)])
    return jnp.where((at < 0)[:, None, :, None], wide, found.astype(past.dtype))
