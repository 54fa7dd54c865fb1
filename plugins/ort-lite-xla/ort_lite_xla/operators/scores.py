"""Scaled dot-product attention, which the attention operators of ONNX and com.microsoft share.

Queries are (batch, heads, rows, size), keys (batch, key heads, length, size); key heads divide heads. Products of 16-bit
floats are added up in float32, in which the softmax is computed too; the result is rounded once.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ort_lite.record import Record
from ort_lite_xla.registry import Array

RAW, CAPPED, MASKED, SOFTMAX, SEEN = range(5)
"""Stages of scores that may be a result: ONNX's qk_matmul_output_mode, and SEEN: as MASKED, with 0 for unseen keys."""


class Attending(Record, eq=False):
    """The rules of attention, apart from queries, keys and values.

    `visible` are bools and `addend` numbers that broadcast to the scores (batch, heads, rows, length); None: no such rule.
    `sink` is one more score per head, without a key. The softmax is computed in the type `rounded`, if there is one.
    """

    scale: float = 0.0
    """0: 1 / sqrt(size)."""
    softcap: float = 0.0
    visible: Array = None
    mask: Array = None
    """Bools, which exclude keys as `visible` does, but count as a mask at the stage MASKED."""
    addend: Array = None
    sink: Array = None
    rounded: Any = None
    stage: int | None = None


def split_heads(x: Array, heads: int) -> Array:
    """Return (batch, heads, rows, size) of (batch, rows, heads * size), or x itself if it has four dimensions."""
    return x if x.ndim == 4 else jnp.swapaxes(x.reshape(*x.shape[:2], heads, x.shape[2] // heads if heads else 0), 1, 2)


def join_heads(x: Array) -> Array:
    """Return (batch, rows, heads * size) of (batch, heads, rows, size)."""
    batch, heads, rows, size = x.shape
    return jnp.swapaxes(x, 1, 2).reshape(batch, rows, heads * size)


def behind(past: Array, new: Array) -> Array:
    """Return the new rows behind those of the past, if there is one."""
    return new if past is None else jnp.concatenate([past, new.astype(past.dtype)], 2)


def window(rows: int, length: int, offset: Array | int, left: int = -1, right: int = -1) -> Array:
    """Return the keys that each query sees, (..., rows, length); None if it sees all.

    Query i is at the position i + offset, (batch, 1, 1, 1) or a number. It sees `left` keys before it and `right` after it;
    -1: all.
    """
    if left < 0 and right < 0:
        return None
    position = np.arange(rows)[:, None] + offset
    key = np.arange(length)
    seen = key <= position + right if right >= 0 else None
    after = key >= position - left if left >= 0 else None
    return both(seen, after)


def both(a: Array, b: Array) -> Array:
    """Return the conjunction of two conditions, either of which may be None."""
    return b if a is None else a if b is None else a & b


def attend(q: Array, k: Array, v: Array, rules: Attending) -> tuple[Array, Array]:
    """Return softmax(scale * q @ k^T) @ v, (batch, heads, rows, value size) in the type of q, and the scores at `rules.stage`."""
    batch, heads, rows, size = q.shape
    groups, length = k.shape[1], k.shape[2]
    wide = np.dtype(jnp.promote_types(jnp.result_type(q, k, v), np.float32))
    shared = q.reshape(batch, groups, heads // groups if groups else 0, rows, size)
    narrow = np.dtype(jnp.promote_types(q.dtype, k.dtype)) if wide == np.float32 else wide
    scores = jnp.einsum("bgrsd,bgtd->bgrst", shared.astype(narrow), k.astype(narrow), preferred_element_type=wide)
    scale = np.array(rules.scale or (size**-0.5 if size else 1.0)).astype(wide)
    probabilities, kept = _softmax(scores.reshape(batch, heads, rows, length) * scale, rules)
    shares = probabilities.reshape(batch, groups, heads // groups if groups else 0, rows, length)
    result = jnp.einsum("bgrst,bgtv->bgrsv", shares, v.astype(wide))
    result = result.reshape(batch, heads, rows, v.shape[3]).astype(q.dtype)
    return result, None if kept is None else kept.astype(q.dtype)


def _softmax(scores: Array, rules: Attending) -> tuple[Array, Array]:
    """Return the probabilities of the keys, which are 0 if a query sees none, and the scores at `rules.stage`."""
    kept = scores if rules.stage == RAW else None
    if rules.softcap > 0:
        cap = np.array(rules.softcap).astype(scores.dtype)
        scores = cap * jnp.tanh(scores / cap)
    kept = scores if rules.stage == CAPPED else kept
    seen = both(rules.visible, rules.mask)
    if rules.addend is not None:
        scores = scores + rules.addend.astype(scores.dtype)
        seen = both(seen, rules.addend > -np.inf)
    masked = scores if seen is None else jnp.where(seen, scores, -np.inf)
    if rules.stage in (MASKED, SEEN):
        unseen = rules.stage == SEEN and rules.visible is not None
        kept = jnp.where(rules.visible, masked, 0) if unseen else masked
    probabilities = _normalize(masked, seen, rules.sink, rules.rounded)
    return probabilities, probabilities if rules.stage == SOFTMAX else kept


def _normalize(scores: Array, seen: Array, sink: Array, rounded: Any) -> Array:
    """Return exp(scores) / (sum of exp(scores) + exp(sink)), 0 for unseen keys. Every step is rounded to the type `rounded`."""
    dtype = scores.dtype
    scores = scores if rounded is None else scores.astype(rounded)
    top = jnp.max(scores, -1, keepdims=True, initial=-np.inf)
    more: Array = 0
    if sink is not None:
        score = sink.astype(scores.dtype).reshape(1, -1, 1, 1)
        top = jnp.maximum(top, score)
        more = jnp.exp(score - top)
    powers = jnp.exp(scores - top)
    found = (powers / (jnp.sum(powers, -1, keepdims=True) + more)).astype(dtype)
    return found if seen is None else jnp.where(seen, found, 0)
