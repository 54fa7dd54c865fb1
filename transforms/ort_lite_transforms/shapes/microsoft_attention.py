"""Attention in the domain com.microsoft. Sources as in microsoft.py."""

from functools import partial

from ort_lite.dtypes import DType
from ort_lite.inference import ContentsUnknown, Info, Op
from ort_lite.shapes import Dim, floordiv, maximum
from ort_lite_transforms.shapes.attention import linear_attention
from ort_lite_transforms.shapes.conv import causal_conv
from ort_lite_transforms.shapes.elementwise import like
from ort_lite_transforms.shapes.fused import also, microsoft_rule


@microsoft_rule("Attention")
def attention(op: Op) -> list[Info]:
    """x (B, S, I), weights (I, q + k + v) -> (B, S, v); keys and values (2, B, heads, past + S, head size)."""
    batch, steps, _ = op.shape(0)
    sizes = op.attr("qkv_hidden_sizes")
    hidden: Dim = sizes[2] if sizes else floordiv(op.shape(1)[1], 3)
    return [op.tensor(op.dtype(0), (batch, steps, hidden)), _present(op, 4, batch, steps, hidden)]


@microsoft_rule("QAttention", types=(3,))
def q_attention(op: Op) -> list[Info]:
    """Infer as Attention, in the scale's type."""
    batch, steps, _ = op.shape(0)
    hidden = floordiv(op.shape(1)[1], 3)
    present = _present(op, 8, batch, steps, hidden)
    return [op.tensor(op.dtype(3), (batch, steps, hidden)), op.tensor(op.dtype(3), present.shape)]


def _present(op: Op, past: int, batch: Dim, steps: Dim, hidden: Dim) -> Info:
    heads = op.attr("num_heads")
    if op.has(past) and op.attr("past_present_share_buffer", 0):
        return like(op, past)
    before: Dim = op.shape(past)[3] if op.has(past) else 0
    return op.tensor(op.dtype(0), (2, batch, heads, before + steps, floordiv(hidden, heads)))


@microsoft_rule("MultiHeadAttention")
def multi_head_attention(op: Op) -> list[Info]:
    """q (B, S, H), k (B, L, H), v (B, L, V) -> (B, S, V); keys and values (B, heads, past + L, size); scores.

    Queries may be packed with keys and values, (B, S, heads, 3, size), keys with values, (B, L, heads, 2, size), and both may
    come as (B, heads, L, size), from cross attention's past.
    """
    query, heads = op.shape(0), op.attr("num_heads")
    batch, steps = query[:2]
    size = query[-1] if len(query) == 5 else floordiv(query[2], heads)
    length, value_size = steps, size
    if op.has(1):
        key = op.shape(1)
        length = key[2] if len(key) == 4 else key[1]
    if op.has(2):
        value = op.shape(2)
        value_size = value[3] if len(value) == 4 else floordiv(value[2], heads)
    return _heads(op, 6, 8, (batch, heads, steps, length), (size, value_size))


@microsoft_rule("DecoderMaskedMultiHeadAttention")
def decoder_masked_multi_head_attention(op: Op) -> list[Info]:
    """Infer MultiHeadAttention of one query; keys and values (B, 1, H), or (B, heads, L, size) of cross attention."""
    (batch, steps, hidden), heads = op.shape(0), op.attr("num_heads")
    size = floordiv(hidden, heads)
    length = op.shape(1)[2] if op.has(1) and len(op.shape(1)) == 4 else steps
    return _heads(op, 5, 7, (batch, heads, steps, length), (size, size))


def _heads(op: Op, past: int, count: int, sizes: tuple[Dim, ...], head_sizes: tuple[Dim, Dim]) -> list[Info]:
    """The outputs, with a past in input `past` that grows, or, where input `count` says how many rows of it count, does not."""
    (batch, heads, steps, length), dtype = sizes, op.dtype(0)
    rows: Dim = op.shape(past)[2] if op.has(past) else 0
    total = kept = rows + length
    if op.has(past) and op.has(count):
        known, kept = op.contents_or_none(count), rows
        if known is None:
            op.needs(ContentsUnknown(count))
        total = op.fresh() if known is None else known[0] + length
    return [
        op.tensor(dtype, (batch, steps, head_sizes[1] * heads)),
        *(_cache(op, past + k, kept, (batch, heads, size)) for k, size in enumerate(head_sizes)),
        op.tensor(dtype, (batch, heads, steps, total)),
    ]


def _cache(op: Op, past: int, length: Dim, sizes: tuple[Dim, Dim, Dim]) -> Info:
    """Keys or values (B, heads, `length`, head size) with the dimensions of the past in input `past`, if the node has one.

    `sizes` are those of the new rows. The past's may have names in place of their numbers, which onnxruntime keeps; if it is
    quantised, its head size is a packed one.
    """
    dtype = _cache_type(op, past)
    if not op.has(past):
        return op.tensor(dtype, (*sizes[:2], length, sizes[2]))
    shape = op.shape(past)
    return op.tensor(dtype, (*shape[:2], length, *shape[3:]))


def _cache_type(op: Op, past: int) -> DType:
    """The type of the past in input `past`, or, without one, that of the queries."""
    return op.dtype(past) if op.has(past) else op.dtype(0)


@microsoft_rule("GroupQueryAttention", types=(0, partial(_cache_type, past=3), partial(_cache_type, past=4), 0))
def group_query_attention(op: Op) -> list[Info]:
    """q (B, S, H), packed with k and v or not -> (B, S, H), the caches, scores (B, heads, S, all that is seen)."""
    batch, steps, hidden = op.shape(0)
    heads, kv_heads = op.attr("num_heads"), op.attr("kv_num_heads")
    size = floordiv(hidden, heads if op.has(1) else heads + 2 * kv_heads)
    seen = _key_count(op, steps)
    length = seen
    if op.has(3):
        room = op.shape(3)[2]
        length = room if op.attr("sliding_window_cache", 0) == 1 else maximum(room, seen)
    return [
        op.tensor(op.dtype(0), (batch, steps, size * heads)),
        *(_cache(op, past, length, (batch, kv_heads, size)) for past in (3, 4)),
        op.tensor(op.dtype(0), (batch, heads, steps, seen)),
    ]


def _key_count(op: Op, steps: Dim) -> Dim:
    """The number of keys that are seen: `total_sequence_length`, which is that of the new rows where there is no past."""
    total = op.contents_or_none(6)
    if total is not None:
        return total[0]
    if not op.has(3):
        return steps
    op.needs(ContentsUnknown(6))
    return op.fresh()


@microsoft_rule("SparseAttention", types=(0, 3, 4))
def sparse_attention(op: Op) -> list[Info]:
    """q (B, S, H), packed with k and v or not -> (B, S, H) and the caches."""
    batch, steps, hidden = op.shape(0)
    heads, kv_heads = op.attr("num_heads"), op.attr("kv_num_heads")
    size = floordiv(hidden, heads if op.has(1) else heads + 2 * kv_heads)
    return [op.tensor(op.dtype(0), (batch, steps, size * heads)), like(op, 3), like(op, 4)]


@microsoft_rule("EmbedLayerNormalization", types=(2, "int32", 2))
def embed_layer_normalization(op: Op) -> list[Info]:
    """ids (B, S) -> (B, S, H), mask index (B,), the sum of the embeddings."""
    batch, steps = op.shape(0)
    embedded = op.tensor(op.dtype(2), (batch, steps, op.shape(2)[1]))
    return [embedded, op.tensor("int32", (batch,)), embedded]


@microsoft_rule("QEmbedLayerNormalization", types=("float32", "int32"))
def q_embed_layer_normalization(op: Op) -> list[Info]:
    """Infer as EmbedLayerNormalization, in float32."""
    batch, steps = op.shape(0)
    return [op.tensor("float32", (batch, steps, op.shape(2)[1])), op.tensor("int32", (batch,))]


RULES = [
    *attention,
    *q_attention,
    *multi_head_attention,
    *decoder_masked_multi_head_attention,
    *group_query_attention,
    *sparse_attention,
    *embed_layer_normalization,
    *q_embed_layer_normalization,
    *also(linear_attention),
    *also(causal_conv),
]
