"""Attention and what belongs to it."""

from ort_lite.dtypes import DType, from_onnx
from ort_lite.inference import Info, Op, shape_rule
from ort_lite.shapes import Dim, floordiv
from ort_lite_transforms.shapes.elementwise import like


def _heads(op: Op, index: int, name: str) -> tuple[Dim, Dim, Dim, Dim]:
    """(batch, heads, sequence, head size) of a 4-D input or a 3-D one, (batch, sequence, heads * head size)."""
    shape = op.shape(index)
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) != 3:
        raise op.error(f"input {index} should have rank 3 or 4")
    heads = op.attr(name)
    if not heads:
        raise op.error(f"{name} should be given for inputs of rank 3")
    return shape[0], heads, shape[1], floordiv(shape[2], heads)


def _check_share(op: Op, total: Dim, heads: Dim, who: str, name: str) -> None:
    if op.at_load and isinstance(total, int) and isinstance(heads, int) and total % heads:
        raise op.error(f"{who}, which cannot be shared out to {name} {heads}")


@shape_rule("Attention", types=(0, 1, 2, 0))
def attention(op: Op) -> list[Info]:
    """Y in the form of Q, with V's head size; keys and values with the past; scores. Spec: ONNX Attention-24."""
    batch, heads, queries, _ = _heads(op, 0, "q_num_heads")
    _, kv_heads, length, size = _heads(op, 1, "kv_num_heads")
    if isinstance(kv_heads, int) and kv_heads:
        _check_share(op, heads, kv_heads, f"{heads} heads of queries", "kv_num_heads")
    value_size = _heads(op, 2, "kv_num_heads")[3]
    total = length + (op.shape(4)[2] if op.has(4) else 0)
    three = op.rank(0) == 3
    return [
        op.tensor(op.dtype(0), [batch, queries, heads * value_size] if three else [batch, heads, queries, value_size]),
        op.tensor(op.dtype(1), [batch, kv_heads, total, size]),
        op.tensor(op.dtype(2), [batch, kv_heads, total, value_size]),
        op.tensor(op.dtype(0), [batch, heads, queries, total]),
    ]


@shape_rule("FlexAttention", domain="ai.onnx.preview")
def flex_attention(op: Op) -> list[Info]:
    """(B, heads, S, V's head size). Its graphs get the scores. Spec: ONNX preview FlexAttention-1."""
    seen = op.dtype(0)
    default = 11 if seen == "float64" else 1
    scores = op.tensor(from_onnx(op.attr("softmax_precision", default)), [*op.shape(0)[:3], op.shape(1)[2]])
    for name in ("score_mod", "prob_mod"):
        if op.attr(name) is not None:
            op.body(op.attr(name), [scores])
    return [op.tensor(op.dtype(0), [*op.shape(0)[:3], op.shape(2)[3]])]


def _state(op: Op) -> DType:
    """The type of the past state, or, without one, that of the queries."""
    return op.dtype(3) if op.has(3) else op.dtype(0)


@shape_rule("LinearAttention", types=(0, _state))
def linear_attention(op: Op) -> list[Info]:
    """(B, T, heads * V's head size), the state (B, kv heads, d_k, d_v). Spec: ONNX LinearAttention-27.

    com.microsoft's has as many heads as queries or keys, whichever are more, and the states of the last `state_window` steps.
    """
    batch, steps, columns = op.shape(0)
    heads, kv_heads = op.attr("q_num_heads"), op.attr("kv_num_heads")
    value = floordiv(op.shape(2)[2], kv_heads)
    window = (op.attr("state_window"),) if op.attr("state_window", 0) else ()
    out = op.tensor(op.dtype(0), (batch, steps, value * max(heads, kv_heads)))
    return [out, op.tensor(_state(op), (*window, batch, kv_heads, floordiv(columns, heads), value))]


@shape_rule("RotaryEmbedding")
def rotary_embedding(op: Op) -> list[Info]:
    """y like x; of rank 3 its heads lie side by side. Spec: ONNX RotaryEmbedding-23."""
    shape, heads = op.shape(0), op.attr("num_heads", 0)
    if len(shape) == 3 and not op.node.domain and op.at_load and heads < 1:
        raise op.error(f"num_heads is {heads}, but an input of rank 3 needs 1 or more")
    return [like(op)]


RULES = [*attention, *flex_attention, *linear_attention, *rotary_embedding]
