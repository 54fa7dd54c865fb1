"""Operators of language models in the domain com.microsoft: gates, routers, rotations, hashes and recurrences.

Sources: onnxruntime's contrib operator documentation, and its results where that is silent.
"""

from ort_lite.dtypes import from_onnx
from ort_lite.inference import Info, Op
from ort_lite.shapes import floordiv, product
from ort_lite_transforms.shapes.elementwise import like
from ort_lite_transforms.shapes.fused import microsoft_rule


@microsoft_rule("HyperConnectionPostMix", "MRotaryEmbedding")
def same_shape(op: Op) -> list[Info]:
    """y like x."""
    return [like(op)]


@microsoft_rule("EngramGate", "LinearAttentionGate", types=(0, 0))
def same_shapes(op: Op) -> list[Info]:
    """Both outputs like x."""
    return [like(op), like(op)]


@microsoft_rule("HyperConnectionPreMix")
def hyper_connection_pre_mix(op: Op) -> list[Info]:
    """(..., C, H), or (..., C * H) with num_branches C, -> (..., H)."""
    shape, count = op.shape(0), op.attr("num_branches", 0)
    features = [*shape[:-1], floordiv(shape[-1], count)] if count else [*shape[:-2], shape[-1]]
    return [op.tensor(op.dtype(0), features)]


@microsoft_rule("NGramHashMapping", types=(0, 0))
def n_gram_hash_mapping(op: Op) -> list[Info]:
    """(B, S) -> hashes (B, S, H) and the last ids (B, max_ngram_size - 1)."""
    before = op.attr("max_ngram_size") - 1
    hashes = [*op.shape(0), before * op.attr("n_head_per_ngram")]
    return [op.tensor(op.dtype(0), hashes), op.tensor(op.dtype(0), [op.shape(0)[0], before])]


@microsoft_rule("VarlenNGramHashMapping", types=(0, 0, "int32", 0))
def varlen_n_gram_hash_mapping(op: Op) -> list[Info]:
    """(T,) and offsets (B + 1,) -> hashes (T, H), the last ids and segments of each request, and its states."""
    before, requests = op.attr("max_ngram_size") - 1, op.shape(3)[0] - 1
    hashes = [*op.shape(0), before * op.attr("n_head_per_ngram")]
    states = [requests, op.attr("state_update_capacity", 0), before]
    last = [requests, before]
    return [
        op.tensor(op.dtype(0), hashes),
        op.tensor(op.dtype(0), last),
        op.tensor("int32", last),
        op.tensor(op.dtype(0), states),
    ]


@microsoft_rule("MoEGroupRouter", types=(0, "float32", "float32"))
def moe_group_router(op: Op) -> list[Info]:
    """(..., E), or (N, K) with weights (E, K), -> (N, E)."""
    shape = op.shape(0)
    scores = [shape[0], op.shape(2)[0]] if op.has(2) else [product(shape[:-1]), shape[-1]]
    return [op.tensor(op.dtype(0), scores), op.tensor("float32", scores), op.tensor("float32", scores)]


@microsoft_rule("VarlenCausalConvWithState", types=(0, 0, 0))
def varlen_causal_conv_with_state(op: Op) -> list[Info]:
    """(T, C), offsets (B + 1,) and a state (B, C, k) -> (T, C), the state, and the first tokens of each request."""
    tokens = [op.shape(2)[0] - 1, op.attr("state_update_capacity", 0), op.shape(0)[1]]
    return [like(op), like(op, 4), op.tensor(op.dtype(0), tokens)]


@microsoft_rule("GatherPacked", types=(lambda op: from_onnx(op.attr("output_dtype", 16)),))
def gather_packed(op: Op) -> list[Info]:
    """Indices -> (..., K)."""
    return [op.tensor(from_onnx(op.attr("output_dtype", 16)), [*op.shape(1), op.attr("K")])]


@microsoft_rule("GatedDeltaNet", types=(0, "float32", "float32"))
def gated_delta_net(op: Op) -> list[Info]:
    """(T, heads, K) with values (T, outs, V), or packed rows with a state (B, outs, V, K): (T, outs, V) and the state."""
    query = op.shape(0)
    lead = query[: len(query) - (2 if op.has(1) else 1)]
    if op.has(1):
        (heads, size), (outs, width) = query[len(lead) :], op.shape(2)[len(lead) :]
    else:
        outs, width, size = op.shape(6)[1:]
        heads = floordiv(query[-1] - outs * width, 2 * size)
    requests = op.shape(3)[0] - 1 if op.has(3) else op.shape(6)[0]
    fades = size if op.has(4) and len(op.shape(4)) == len(lead) + 2 and op.shape(4)[-1] != 1 else 1
    steps = op.attr("state_update_capacity", 0) * (outs * fades + heads * size + outs * width)
    return [
        op.tensor(op.dtype(0), [*lead, outs, width]),
        op.tensor("float32", [requests, outs, width, size]),
        op.tensor("float32", [requests, steps]),
    ]


RULES = [
    *same_shape,
    *same_shapes,
    *hyper_connection_pre_mix,
    *n_gram_hash_mapping,
    *varlen_n_gram_hash_mapping,
    *gated_delta_net,
    *gather_packed,
    *moe_group_router,
    *varlen_causal_conv_with_state,
]
