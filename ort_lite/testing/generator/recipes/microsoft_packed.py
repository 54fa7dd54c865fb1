"""Operators of com.microsoft on packed requests, packed weights and listed blocks."""

from typing import Any

import numpy as np

from ort_lite.dtypes import to_onnx
from ort_lite.testing.generator.arrays import between, numpy_random
from ort_lite.testing.generator.draft import Rejected
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import MICROSOFT
from ort_lite.testing.generator.recipes.microsoft_quantized import WHOLE

_FORMATS = {
    0: (1, 4),
    1: (1, 2),
    2: (32, 18),
    6: (32, 22),
    8: (32, 34),
    13: (256, 176),
    14: (256, 210),
    20: (32, 18),
    23: (256, 136),
    30: (1, 2),
    42: (64, 18),
}
"""packed_type -> the numbers of a block and its bytes."""
_TURNS = between(-1, 1)
_SMALL = between(-0.6, 0.6)


def _requests(draw: Draw) -> tuple[str, int, int]:
    """Draw the offsets of packed requests, none of them empty. Return them with the number of requests and that of tokens."""
    lengths = [draw.integer(1, 4) for _ in range(draw.integer(1, 3))]
    return draw.array(np.cumsum([0, *lengths]).astype(np.int32)), len(lengths), sum(lengths)


@recipe("NGramHashMapping", "VarlenNGramHashMapping", domain=MICROSOFT)
def ngram_hash_mapping(draw: Draw) -> NodeProposal:
    """Draw a few distinct tokens, of texts of one length or of packed requests, and sometimes those before them."""
    packed, capacity = draw.op_type.startswith("Varlen"), 0
    longest, heads, tokens = draw.integer(2, 4), draw.integer(1, 3), between(0, 4)
    width = (longest - 1) * heads
    offsets, requests, total = _requests(draw) if packed else ("", draw.integer(1, 3), 0)
    shape: Shape = (total,) if packed else (requests, draw.integer(1, 6))
    past, segments = draw.chance(0.5), draw.chance(0.4)
    operands = [
        draw.tensor(0, shape, tokens),
        draw.tensor(1, (longest + draw.integer(0, 1),), WHOLE),
        draw.tensor(2, (width,), between(1, 50)),
        *([offsets] if packed else []),
        draw.tensor(3 + packed, (requests, longest - 1), tokens) if past else "",
        draw.tensor(4 + packed, (width,), between(0, 99)) if draw.chance(0.5) else "",
        draw.scalar(3, draw.types["M"]) if draw.chance(0.5) else "",
        draw.tensor(6 + packed, shape, between(0, 1)) if segments else "",
    ]
    if packed:
        capacity = draw.choice((0, 0, 2, 4))
        operands.append(
            draw.tensor(8, (requests, longest - 1), between(0, 1)) if past and segments and draw.chance(0.6) else ""
        )
        operands.append(draw.tensor(9, (requests,), between(0, 4)) if capacity else "")
    return call(
        operands,
        (True, True, packed and segments, capacity > 0),
        max_ngram_size=longest,
        n_head_per_ngram=heads,
        pad_id=draw.integer(0, 7),
        reset_on_eos=draw.maybe(draw.integer(0, 1)),
        state_update_capacity=capacity or None,
    )


@recipe("VarlenCausalConvWithState", domain=MICROSOFT)
def varlen_causal_conv_with_state(draw: Draw) -> NodeProposal:
    """Draw packed tokens, depthwise weights and the state of each request."""
    offsets, requests, tokens = _requests(draw)
    channels, taps, dilation, capacity = draw.integer(1, 4), draw.integer(2, 4), draw.choice((1, 1, 2)), draw.choice((0, 0, 3))
    operands = [
        draw.tensor(0, (tokens, channels)),
        draw.tensor(1, (channels, 1, taps)),
        offsets,
        draw.tensor(3, (channels,)) if draw.chance(0.5) else "",
        draw.tensor(4, (requests, channels, (taps - 1) * dilation)),
        draw.tensor(5, (requests,), between(0, 3)) if capacity else "",
    ]
    return call(
        operands,
        3 if capacity else 2,
        activation=draw.choice((None, "none", "silu", "swish")),
        dilation=dilation if dilation > 1 else draw.maybe(1),
        state_update_capacity=capacity or None,
    )


@recipe("GatedDeltaNet", domain=MICROSOFT)
def gated_delta_net(draw: Draw) -> NodeProposal:
    """Draw an update rule, which determines decay and beta, for heads that are packed or not. Gates have the queries' type."""
    if draw.types["TG"] != "float32":
        draw.types["T"] = draw.types["TG"]
    draw.types["TG"] = draw.types["T"]
    rule = draw.choice(("linear", "gated", "delta", "gated_delta"))
    offsets, requests, tokens = _requests(draw)
    heads, size, width = draw.integer(1, 2), draw.integer(1, 4), draw.integer(1, 4)
    outs, packed, capacity = heads * draw.integer(1, 2), draw.chance(0.3), draw.choice((0, 0, 3))
    lead: Shape = (tokens,)
    if draw.chance(0.3):
        offsets, lead = "", (requests, draw.integer(1, 3))
    fades = (size,) if draw.chance(0.4) else ()
    gate = draw.choice((None, "softplus", "qwen", "sigmoid", "kda")) if "gated" in rule else None
    if packed:
        rows = [draw.tensor(0, (*lead, 2 * heads * size + outs * width), _SMALL), "", ""]
    else:
        rows = [draw.tensor(index, (*lead, heads, size), _SMALL) for index in (0, 1)]
        rows.append(draw.tensor(2, (*lead, outs, width)))
    operands = [
        *rows,
        offsets,
        draw.tensor(4, (*lead, outs, *fades), between(-1, 0)) if "gated" in rule else "",
        draw.tensor(5, (*lead, outs), between(0, 1)) if "delta" in rule else "",
        draw.tensor(6, (requests, outs, width, size)) if packed or not offsets or draw.chance(0.6) else "",
        draw.tensor(7, (outs,), _TURNS) if gate else "",
        draw.tensor(8, (outs, *(fades if draw.chance(0.5) else ())), _TURNS) if gate else "",
        draw.tensor(9, (requests,), between(0, 3)) if capacity else "",
        draw.tensor(10, (1,), between(0, 1)) if capacity and draw.chance(0.4) else "",
    ]
    return call(
        operands,
        3 if capacity else 2,
        update_rule=rule if rule != "gated_delta" else draw.maybe(rule),
        gate_activation=gate,
        beta_activation=draw.maybe(draw.choice(("none", "sigmoid"))) if "delta" in rule else None,
        gate_lower_bound=draw.maybe(-3.0),
        qk_l2_norm=draw.maybe(draw.integer(0, 1)),
        scale=draw.maybe(draw.choice((0.0, 0.5))),
        state_update_capacity=capacity or None,
    )


@recipe("GatherPacked", domain=MICROSOFT)
def gather_packed(draw: Draw) -> NodeProposal:
    """Draw rows of blocks of any format. Bytes below 64 make finite floats."""
    kind = draw.choice(tuple(_FORMATS))
    numbers, nbytes = _FORMATS[kind]
    blocks, rows = draw.integer(1, 2) if numbers > 1 else draw.integer(1, 6), draw.integer(1, 4)
    data = draw.tensor(0, (rows, blocks * nbytes), draw.choice((WHOLE, between(0, 63))), draw.maybe(True, 0.7))
    indices = draw.tensor(1, draw.shape(0, 2, most=2), between(-2, rows))
    return call([data, indices], K=blocks * numbers, packed_type=kind, output_dtype=to_onnx(draw.types["T2"]))


@recipe("MatMulFpQ4", domain=MICROSOFT)
def matmul_fp_q4(draw: Draw) -> NodeProposal:
    """Draw a blob of blocks of 32 codes, each behind a scale and, for one of the two kinds, a zero point."""
    kind, k, n = draw.integer(0, 1), draw.integer(1, 70), draw.integer(1, 9)
    random, count = numpy_random(draw.rng), n * -(-k // 32)
    scales = random.uniform(0.01, 0.1, (count, 1)).astype(np.float32).view(np.uint8)
    rest = random.integers(0, 256, (count, 16 + kind), np.uint8)
    rest[:, :kind] &= 15
    blob = draw.array(np.concatenate([scales, rest], 1).reshape(-1), True)
    a = draw.tensor(0, (*draw.shape(1, 2, most=4, least=1), k))
    return call([a, blob, draw.ints(k, n, constant=True)], blk_quant_type=kind if kind != 1 else draw.maybe(1))


@recipe("MRotaryEmbedding", domain=MICROSOFT)
def multimodal_rotary_embedding(draw: Draw) -> NodeProposal:
    """Draw three positions for each row, and how many columns each of them rotates."""
    batch, rows, heads, half = draw.integer(1, 2), draw.integer(1, 4), draw.integer(1, 3), draw.choice((4, 8))
    first = draw.integer(0, half)
    second = draw.integer(0, half - first)
    constant = draw.chance(0.5)
    size, length, flat = half * 2 + draw.choice((0, 0, 8)), draw.integer(1, 6), draw.chance(0.5)
    operands = [
        draw.tensor(0, (batch, rows, heads * size) if flat else (batch, heads, rows, size)),
        draw.tensor(1, (3, batch, rows), between(0, length - 1)),
        *(draw.tensor(index, (length, half), _TURNS, constant) for index in (2, 3)),
    ]
    partial = size != half * 2
    return call(
        operands,
        mrope_section=[first, second, half - first - second],
        mrope_layout=draw.maybe(draw.integer(0, 1)),
        interleaved=draw.maybe(draw.integer(0, 1)),
        num_heads=heads if partial or flat else None,
        rotary_embedding_dim=half * 2 if partial else None,
        scale=draw.maybe(1.5),
    )


@recipe("SparseAttention", domain=MICROSOFT)
def sparse_attention(draw: Draw) -> NodeProposal:
    """Draw a prompt or rows after a past, in a buffer of blocks, of which each row lists its own and some before it."""
    if draw.types["T"] == "bfloat16":
        raise Rejected("SparseAttention of bfloat16 is for GPUs")
    batch, shared, groups, size, blocks = draw.integer(1, 2), draw.integer(1, 2), draw.integer(1, 2), 16, draw.integer(1, 2)
    heads, length, rows = shared * groups, 16 * blocks, draw.integer(1, 3)
    total = rows if draw.chance(0.4) else draw.integer(rows, length)
    layouts = draw.choice((1, heads))
    mask = np.tril(numpy_random(draw.rng).random((layouts, blocks, blocks)) < 0.5) | np.eye(blocks, dtype=bool)
    starts = np.concatenate([np.zeros((layouts, 1), int), mask.sum(2).cumsum(1)], 1).astype(np.int32)
    columns = np.full((layouts, starts[:, -1].max()), -1, np.int32)
    for layout, found in zip(mask, columns, strict=True):
        found[: layout.sum()] = np.nonzero(layout)[1]
    packed, rotary = draw.chance(0.3), draw.chance(0.4)
    widths: list[Any] = [heads + 2 * shared, None, None] if packed else [heads, shared, shared]
    operands = [
        *(draw.tensor(i, (batch, rows, one * size)) if one else "" for i, one in enumerate(widths)),
        *(draw.tensor(index, (batch, shared, length, size)) for index in (3, 4)),
        draw.array(starts),
        draw.array(columns),
        draw.array(np.array([total], np.int32)),
        draw.tensor(8, (batch,), between(total if total == rows else rows, total)),
        *(draw.tensor(index, (length, size // 2), _TURNS) if rotary else "" for index in (9, 10)),
    ]
    return call(
        operands,
        3,
        num_heads=heads,
        kv_num_heads=shared,
        sparse_block_size=16,
        do_rotary=1 if rotary else draw.maybe(0),
        rotary_interleaved=draw.maybe(draw.integer(0, 1)) if rotary else None,
        scale=draw.maybe(0.25),
    )
