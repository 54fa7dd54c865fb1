"""RotaryEmbedding of both domains: pairs of numbers of each head are rotated by angles that depend on the position."""

import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Node
from ort_lite_xla.along import Mixed, PaddedDims, Rule, rows_of_heads
from ort_lite_xla.operators.activations import MICROSOFT
from ort_lite_xla.operators.scores import join_heads, split_heads
from ort_lite_xla.registry import FLOATS, INDICES, Array, PaddingMask, XlaOp, lowering


def rotate(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """Rotate the first 2 * n numbers of heads x (B, H, S, size) by angles (B or 1, S, n), which are given by cosine and sine.

    Interleaved pairs are neighbours, others lie half of the numbers apart. 16-bit floats are rotated in float32.
    """
    wide = jnp.promote_types(x.dtype, np.float32)
    cos, sin = (table[:, None].astype(wide) for table in (cos, sin))
    half = cos.shape[-1]
    turned, rest = x[..., : 2 * half].astype(wide), x[..., 2 * half :]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        y = jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(turned.shape)
    else:
        a, b = turned[..., :half], turned[..., half:]
        y = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
    return jnp.concatenate([y.astype(x.dtype), rest], -1)


def rows_at(table: Array, positions: Array) -> Array:
    """Return the rows of a table of angles at the positions, of which those out of range mean the nearest."""
    return jnp.take(table, positions, 0, mode="clip")


def rotary_rule(ids: int, tables: tuple[int, int]) -> Rule:
    """Return a rule: batch and rows may be padded, also those of the positions `ids` and of angles for each row."""

    def rule(dims: PaddedDims) -> list[PaddingMask]:
        dims.refuse_taint()
        x = dims.operand(0)
        rows = (x[0], rows_of_heads(x))
        for index in (ids, *tables):
            sizes = dims.operand(index)
            own = sizes[:-1] if index in tables else sizes
            if len(own) == 2 and own != rows:
                raise Mixed("positions or angles are of other rows")
            if index in tables and isinstance(sizes[-1], str):
                raise Mixed("angles are padded")
        return []

    return rule


def _check_pairs(node: Node) -> str | None:
    interleaved = node.attr("interleaved", 0)
    if interleaved not in (0, 1):
        return f"interleaved {interleaved}"
    return "is_packed_batching is not supported" if node.attr("is_packed_batching", 0) else None


@lowering(
    "RotaryEmbedding", since=23, types=(FLOATS, FLOATS, FLOATS, INDICES), check=_check_pairs, along=rotary_rule(3, (1, 2))
)
def rotary_embedding(op: XlaOp, x: Array, cos: Array, sin: Array, ids: Array = None) -> Array:
    """Rotate by rows of tables (positions, n) at ids (B, S), or by tables (B, S, n). Spec: ONNX RotaryEmbedding-23."""
    if ids is not None:
        cos, sin = rows_at(cos, ids), rows_at(sin, ids)
    return _rotate_heads(op, x, op.attr("num_heads", 0), cos, sin)


@lowering(
    "RotaryEmbedding",
    domain=MICROSOFT,
    types=(FLOATS, INDICES, FLOATS, FLOATS),
    check=_check_pairs,
    along=rotary_rule(1, (2, 3)),
)
def microsoft_rotary_embedding(op: XlaOp, x: Array, ids: Array, cos: Array, sin: Array) -> Array:
    """Rotate by rows of tables at ids (B, S), or from position ids[0] on. Spec: onnxruntime com.microsoft RotaryEmbedding-1."""
    heads = op.attr("num_heads", 0)
    if x.ndim == 3 and not (heads and op.attr("rotary_embedding_dim", 0)):
        heads = x.shape[2] // max(2 * cos.shape[-1], 1)
    positions = ids.reshape(-1, 1) + np.arange(x.shape[-2]) if ids.ndim == 1 else ids
    return _rotate_heads(op, x, heads, rows_at(cos, positions), rows_at(sin, positions))


def _rotate_heads(op: XlaOp, x: Array, heads: int, cos: Array, sin: Array) -> Array:
    y = rotate(split_heads(x, heads), cos, sin, bool(op.attr("interleaved", 0)))
    return join_heads(y) if x.ndim == 3 else y
