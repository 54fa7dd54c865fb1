"""Attention, rotary embeddings and linear attention."""

from collections.abc import Sequence
from random import Random
from typing import Any

from ort_lite.dtypes import Array, to_numpy, to_onnx
from ort_lite.testing.generator.arrays import between, numpy_random
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import unless_default, weight

SMALL = between(-1, 1)
PRECISIONS = ("float32", "float16", "float64", "bfloat16")


def readable_mask(rng: Random, shape: Sequence[int], dtype: str) -> Array:
    """Return a Boolean mask, nearly always with at least one visible key in each row."""
    mask = numpy_random(rng).random(tuple(shape)) < 0.6
    if rng.random() < 0.9 and mask.size:
        mask[..., 0] = True
    return mask.astype(to_numpy(dtype))


@recipe("Attention")
def attention(draw: Draw) -> NodeProposal:
    """Draw queries `(B, Hq, S, D)` with keys and values `(B, Hkv, L, D)` after a past, or all of rank 3. Hkv divides Hq."""
    batch, heads = draw.size(2), draw.integer(1, 2)
    queries, length = draw.integer(1, 5), draw.integer(1, 5)
    size, value_size = draw.choice([1, 2, 4, 8]), draw.choice([1, 3, 4, 8])
    shared = draw.choice([1, 1, 2, 3])
    flat = draw.chance(0.4)
    shapes = [(batch, heads * shared, queries, size), (batch, heads, length, size), (batch, heads, length, value_size)]
    operands = [
        draw.tensor(index, (n, rows, count * columns) if flat else (n, count, rows, columns))
        for index, (n, count, rows, columns) in enumerate(shapes)
    ]
    before = draw.integer(0, 3) if draw.chance(0.3) else None
    total = length + (before or 0)
    operands.append(_mask(draw, (batch, heads * shared, queries), total) if draw.chance(0.5) else "")
    if before is not None:
        operands += [draw.tensor(index, (batch, heads, before, n)) for index, n in ((4, size), (5, value_size))]
    elif draw.has_input(6) and draw.chance(0.3):
        operands += ["", "", draw.tensor(6, (batch,), between(1, length))]
    attributes: dict[str, Any] = {"q_num_heads": heads * shared, "kv_num_heads": heads} if flat else {}
    outputs = draw.choice([[True], [True], [True, True, True], [True, False, False, True], [True] * 4])
    if before is not None:
        outputs = draw.choice([[True] * 3, [True] * 3, [True] * 4])
    return call(operands, outputs, **attributes, **_rules(draw, len(outputs) == 4))


def _mask(draw: Draw, front: tuple[int, int, int], total: int) -> str:
    """Return a mask of rank 2 to 4 that broadcasts to `(B, H, S, total)`. From version 24 on it may have fewer columns."""
    columns = total - draw.integer(0, total - 1) if draw.has_input(6) and draw.chance(0.15) else total
    batch, heads, queries = front
    shape = draw.choice(
        [
            (queries, columns),
            (1, 1, queries, columns),
            (batch, heads, queries, columns),
            (batch, 1, queries, columns),
            (heads, queries, columns),
            (1, columns),
        ]
    )
    return draw.tensor(3, shape, readable_mask if draw.kind(3) == "bool" else None)


def _rules(draw: Draw, with_scores: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "is_causal": draw.choice([None, None, 0, 1]),
        "scale": draw.choice([None, None, 0.5, 1.0, 0.125]),
        "softcap": draw.choice([None, None, 0.0, 2.0, 0.5]),
        "softmax_precision": draw.maybe(to_onnx(draw.choice(PRECISIONS)), 0.2),
        "qk_matmul_output_mode": draw.choice([None, 0, 1, 2, 3]) if with_scores else None,
    }
    for name in ("left_window_size", "right_window_size"):
        if draw.has_attribute(name):
            found[name] = draw.choice([None, None, -1, 0, 1, 2])
    return found


@recipe("RotaryEmbedding")
def rotary_embedding(draw: Draw) -> NodeProposal:
    """Draw heads of even size, and angles for each position, selected by ids, or for each row."""
    batch, heads, rows, size = draw.size(2), draw.integer(1, 3), draw.integer(1, 5), 2 * draw.integer(1, 4)
    partial = draw.chance(0.3)
    turned = 2 * draw.integer(1, size // 2) if partial else size
    flat = draw.chance(0.5)
    shape = (batch, rows, heads * size) if flat else (batch, heads, rows, size)
    positions = draw.integer(1, 6)
    by_ids = draw.chance(0.6)
    cache = (positions, turned // 2) if by_ids else (batch, rows, turned // 2)
    operands = [draw.tensor(0, shape), weight(draw, 1, cache, SMALL), weight(draw, 2, cache, SMALL)]
    if by_ids:
        operands.append(draw.tensor(3, (batch, rows), between(0, positions - 1)))
    return call(
        operands,
        num_heads=heads if flat else draw.maybe(heads, 0.2),
        interleaved=draw.choice([None, 0, 1]),
        rotary_embedding_dim=turned if partial else unless_default(draw, 0, 0),
    )


@recipe("LinearAttention")
def linear_attention(draw: Draw) -> NodeProposal:
    """Draw an update rule, which determines decays and betas. Without a past, the state has the type of the queries."""
    batch, steps, heads, shared = draw.size(2), draw.integer(1, 4), draw.integer(1, 2), draw.choice([1, 1, 2])
    size, width = draw.choice([1, 2, 4]), draw.choice([1, 3, 4])
    rule = draw.choice(["linear", "gated", "delta", "gated_delta", None])
    gated, delta = rule in ("gated", "gated_delta", None), rule in ("delta", "gated_delta", None)
    past = draw.chance(0.4) or draw.types["S"] != draw.types["T"]
    operands = [
        draw.tensor(0, (batch, steps, heads * shared * size), SMALL if delta else None),
        draw.tensor(1, (batch, steps, heads * size), SMALL if delta else None),
        draw.tensor(2, (batch, steps, heads * width)),
        draw.tensor(3, (batch, heads, size, width)) if past else "",
        draw.tensor(4, (batch, steps, heads * draw.choice([1, size])), between(-1, 0)) if gated else "",
        draw.tensor(5, (batch, steps, draw.choice([1, heads])), between(0, 1)) if delta else "",
    ]
    return call(
        operands,
        2,
        q_num_heads=heads * shared,
        kv_num_heads=heads,
        update_rule=rule,
        scale=draw.choice([None, 0.0, 0.5, 1.0]),
        chunk_size=draw.choice([None, None, 1, 2, 64]),
    )
