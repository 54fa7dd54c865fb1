"""Scaled dot-product attention, which the attention operators of ONNX and com.microsoft share.

Queries are (batch, heads, rows, size), keys (batch, key heads, length, size); key heads divide heads. Products of 16-bit
floats are added up in float32, in which the softmax is computed too; the result is rounded once.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ort_lite.record import Record
from ort_lite_xla.registry import Array

RAW, CAPPED, MASKED, SOFTMAX, SEEN = range(5)
"""Stages of scores that may be a result: ONNX's qk_matmul_output_mode, and SEEN: as MASKED, with 0 for unseen keys."""


class Attending(Record, eq=False):
    """The rules of attention, apart from queries, keys and values.

    `visible` are bools and `addend` numbers that broadcast to the scores (batch, heads, rows, length); None: no such rule.
    `sink` is one more score per head, without a key.
    """

    scale: float = 0.0
    """0: 1 / sqrt(size)."""
    softcap: float = 0.0
    causal: bool = False
    """A query sees no key with a greater number than its own."""
    visible: Array = None
    mask: Array = None
    """Bools, which exclude keys as `visible` does, but count as a mask at the stage MASKED."""
    addend: Array = None
    sink: Array = None
    stage: int | None = None
    vendor: bool = False
    """cuDNN computes it if it can."""


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
    if rules.vendor and fits_cudnn(q, k, v, rules):
        return by_cudnn(q, k, v, rules), None
    batch, heads, rows, size = q.shape
    groups, length = k.shape[1], k.shape[2]
    if rules.causal:
        rules = rules.replace(visible=both(rules.visible, window(rows, length, 0, right=0)))
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


def fits_cudnn(q: Array, k: Array, v: Array, rules: Attending) -> bool:
    """Return True if cuDNN has a kernel: 16-bit floats, heads of up to 128 numbers, and a softmax of their scores."""
    plain = not rules.softcap and rules.sink is None and rules.stage is None
    narrow = q.dtype == k.dtype == v.dtype and q.dtype.itemsize == 2
    return bool(plain and narrow and q.size and k.size and q.shape[3] == v.shape[3] <= 128 and q.shape[3] % 8 == 0)


def by_cudnn(q: Array, k: Array, v: Array, rules: Attending) -> Array:
    """Return `attend` by cuDNN, which has no -inf: rows that see no key are set to 0 afterwards."""
    shape = (*q.shape[:3], k.shape[2])
    seen = both(rules.visible, rules.mask)
    seen = seen if rules.addend is None else both(seen, rules.addend > -np.inf)
    causal = rules.causal and seen is None
    if rules.causal and not causal:  # both may leave a row without a key
        seen = both(seen, window(q.shape[2], k.shape[2], 0, right=0))
    heads = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    y = jax.nn.dot_product_attention(
        *heads,
        bias=None if rules.addend is None else _to_rank_4(rules.addend.astype(q.dtype), shape),
        mask=None if seen is None else _to_rank_4(jnp.asarray(seen), shape),
        scale=rules.scale or q.shape[3] ** -0.5,
        is_causal=causal,
        implementation="cudnn",
    )
    y = jnp.swapaxes(y, 1, 2)
    return y if seen is None else jnp.where(jnp.any(_to_rank_4(seen, shape), -1, keepdims=True), y, 0)


def _to_rank_4(x: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast x to four dimensions, of which the last two are those of the scores."""
    wide = x.reshape(*(1,) * (4 - x.ndim), *x.shape)
    return jnp.broadcast_to(wide, (*wide.shape[:2], *shape[2:]))


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
    probabilities = _normalize(masked, seen, rules.sink)
    return probabilities, probabilities if rules.stage == SOFTMAX else kept


def _normalize(scores: Array, seen: Array, sink: Array) -> Array:
    """Return exp(scores) / (sum of exp(scores) + exp(sink)), 0 for unseen keys."""
    top = jnp.max(scores, -1, keepdims=True, initial=-np.inf)
    more: Array = 0
    if sink is not None:
        score = sink.astype(scores.dtype).reshape(1, -1, 1, 1)
        top = jnp.maximum(top, score)
        more = jnp.exp(score - top)
    powers = jnp.exp(scores - top)
    found = powers / (jnp.sum(powers, -1, keepdims=True) + more)
    return found if seen is None else jnp.where(seen, found, 0)
