"""Attention of ONNX."""

import jax.numpy as jnp
import numpy as np

from ort_lite import dtypes
from ort_lite.graph import Node
from ort_lite_xla.along import Mixed, PaddedDims, Sizes, rows_of_heads
from ort_lite_xla.operators.scores import Attending, attend, behind, both, join_heads, split_heads, window
from ort_lite_xla.registry import ALL, FLOATS, INDICES, Array, PaddingMask, XlaOp, has_input, lowering

HALVES = ("float16", "bfloat16")
DOUBLE = dtypes.to_onnx("float64")


def _check_attention(node: Node) -> str | None:
    if has_input(node, 6) and (has_input(node, 4) or has_input(node, 5)):
        return "nonpad_kv_seqlen beside a past, whose rows all count"
    if has_input(node, 4) != has_input(node, 5):
        return "a past of keys without values, or of values without keys"
    asked, queries = node.attr("softmax_precision", 0), node.inputs[0]
    if asked in map(dtypes.to_onnx, HALVES) and queries is not None and queries.dtype not in HALVES:
        return "softmax_precision is of fewer bits than the queries"
    mode = node.attr("qk_matmul_output_mode", 0)
    return None if mode in range(4) else f"qk_matmul_output_mode {mode}"


def _attention_along(dims: PaddedDims) -> list[PaddingMask]:
    """Allow any batch and number of queries. More keys need a mask that excludes them, or causality."""
    dims.refuse_taint()
    q, k, mask = dims.operand(0), dims.operand(1), dims.operand(3)
    rows, length = rows_of_heads(q), rows_of_heads(k)
    if rows_of_heads(dims.operand(2)) != length or {sizes[0] for sizes in dims.operands if sizes and sizes is not mask} != {
        q[0]
    }:
        raise Mixed("keys and values differ in length, or batches do")
    causal = bool(dims.node.attr("is_causal", 0))
    if has_input(dims.node, 6) and isinstance(rows, str):
        raise Mixed("the positions of queries count from the last one")
    if has_input(dims.node, 4):
        past = dims.operand(4)
        if any(isinstance(size, str) for size in (past[2], length)):
            raise Mixed("rows follow padded ones")
    for size, whole in zip(reversed(mask), (length, rows, _heads(q), q[0]), strict=False):
        if size not in (1, whole) and (isinstance(size, str) or isinstance(whole, str)):
            raise Mixed("the mask has other dimensions")
    if not isinstance(length, str):
        return []
    own = [PaddingMask(1, len(k) - 2, "zero"), PaddingMask(2, len(k) - 2, "zero")]
    if mask and mask[-1] == length:
        return [*own, PaddingMask(3, len(mask) - 1, "lowest")]
    if causal and rows == length and not has_input(dims.node, 4):
        return own
    raise Mixed("no mask excludes the padded keys")


def _heads(sizes: Sizes) -> int | str:
    return sizes[1] if len(sizes) == 4 else 1


@lowering(
    "Attention",
    since=23,
    types=(FLOATS, FLOATS, FLOATS, ALL, FLOATS, FLOATS, INDICES),
    check=_check_attention,
    along=_attention_along,
)
def attention(
    op: XlaOp,
    q: Array,
    k: Array,
    v: Array,
    mask: Array = None,
    past_k: Array = None,
    past_v: Array = None,
    lengths: Array = None,
) -> tuple[Array, ...]:
    """Attend from q to k and v, (B, H, rows, size) or (B, rows, H * size), behind a past. Also returns them and the scores.

    Spec: ONNX Attention-25.
    """
    flat = q.ndim == 3
    q = split_heads(q, op.attr("q_num_heads", 0))
    k, v = (behind(past, split_heads(x, op.attr("kv_num_heads", 0))) for past, x in ((past_k, k), (past_v, v)))
    rows, length = q.shape[2], k.shape[2]
    causal, visible = _visible(op, rows, length, past_k, lengths)
    bools, addend, beyond = _mask(mask, length)
    rules = Attending(
        op.attr("scale", 0.0),
        op.attr("softcap", 0.0),
        causal,
        both(visible, beyond),
        bools,
        addend,
        vendor=op.vendor,
        stage=op.attr("qk_matmul_output_mode", 0) if op.wants(3) else None,
    )
    double = op.attr("softmax_precision", 0) == DOUBLE and q.dtype.itemsize > 2
    y, scores = attend(q.astype(np.float64) if double else q, k, v, rules)
    y = y.astype(q.dtype)
    return (join_heads(y) if flat else y), k, v, None if scores is None else scores.astype(q.dtype)


def _visible(op: XlaOp, rows: int, length: int, past: Array, lengths: Array) -> tuple[bool, Array]:
    """Return True if plain causality is all that there is, and otherwise the keys that each query sees; None: all."""
    left, right = op.attr("left_window_size", -1), 0 if op.attr("is_causal", 0) else op.attr("right_window_size", -1)
    if lengths is not None:
        count = lengths.reshape(-1, 1, 1, 1)
        return False, both(np.arange(length) < count, window(rows, length, count - rows, left, right))
    if past is None and right == 0 and left < 0:
        return True, None
    return False, window(rows, length, 0 if past is None else past.shape[2], left, right)


def _mask(mask: Array, length: int) -> tuple[Array, Array, Array]:
    """Return the mask as bools or as an addend, and the keys that it reaches; later ones are unseen."""
    if mask is not None and mask.shape[-1] > length:
        mask = mask[..., :length]
    if mask is None:
        return None, None, None
    short = length - mask.shape[-1]
    beyond = np.arange(length) < mask.shape[-1] if short > 0 else None
    wide = jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, short)]) if short > 0 else mask
    return (wide, None, beyond) if mask.dtype == np.bool_ else (None, wide, beyond)
