"""Parts of decoders of com.microsoft: grouped queries, rotary embeddings, linear attention, causal convolution, matching of drafts."""

from typing import Any

import numpy as np

from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draft import Rejected
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import MICROSOFT, scores_bias

_TURNS = between(-1, 1)


@recipe("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(draw: Draw) -> NodeProposal:
    """Draw a prompt, or rows after a past that grows by them or is a buffer with room.

    A cache has the type of the queries.
    """
    if draw.types["T_CACHE"] not in ("bfloat16", "float16", "float32"):
        raise Rejected(f"GroupQueryAttention has no cache of {draw.types['T_CACHE']}")
    if draw.types["T_CACHE"] != "float32":
        draw.types["T"] = draw.types["T_CACHE"]
    draw.types["T_CACHE"] = draw.types["T"]
    batch, shared, groups, size = draw.integer(1, 3), draw.integer(1, 2), draw.integer(1, 2), draw.choice((8, 16, 16))
    heads, past, rows = shared * groups, draw.choice((None, draw.integer(1, 6))), draw.integer(1, 3)
    batch = 1 if past is not None and rows > 1 and draw.chance(0.7) else batch
    before = past or 0
    total = before + rows if past is None or past < rows or draw.chance(0.5) else draw.integer(rows, before)
    cache = (batch, shared, before, size)
    together = draw.chance(0.3)
    operands = [
        draw.tensor(0, (batch, rows, size * (heads + 2 * shared if together else heads))),
        *("" if together else draw.tensor(index, (batch, rows, shared * size)) for index in (1, 2)),
        *("" if past is None else draw.tensor(index, cache) for index in (3, 4)),
        draw.tensor(5, (batch,), between(*_last_keys(draw, rows, total))),
        draw.scalar(total if draw.chance(0.5) else [total], "int32"),
        *_rotation(draw, batch, rows, total, size),
        scores_bias(draw, 10, batch, heads, rows, total) if draw.chance(0.25) else "",
        draw.tensor(11, (heads,)) if draw.chance(0.2) else "",
    ]
    scores = draw.choice((0, 0, 1, 2))
    return call(
        operands,
        (True, True, True, scores > 0),
        num_heads=heads,
        kv_num_heads=shared,
        do_rotary=int(bool(operands[7])) or draw.maybe(0),
        rotary_interleaved=draw.maybe(draw.integer(0, 1)),
        qk_output=scores or draw.maybe(0),
        **_rules(draw),
    )


def _last_keys(draw: Draw, rows: int, total: int) -> tuple[int, int]:
    """Return the range of the position of a sequence's last key. Rows of a prompt after it are padding, with undefined results."""
    whole = rows == total and draw.chance(0.8)
    return (total - 1 if whole else 0 if rows == total else rows - 1), total - 1


def _rules(draw: Draw) -> dict[str, Any]:
    return {
        "scale": draw.maybe(draw.choice((0.0, 0.25, 1.0)), 0.3),
        "softcap": draw.maybe(draw.choice((0.0, 1.0, 8.0)), 0.4),
        "smooth_softmax": draw.maybe(draw.integer(0, 1), 0.3),
        "local_window_size": draw.maybe(draw.choice((-1, 1, 2, 4)), 0.4),
    }


def _rotation(draw: Draw, batch: int, rows: int, total: int, size: int) -> tuple[str, str, str]:
    """Return the caches of cosines and sines, and positions, all or the positions omitted. Positions of a prompt are consecutive.

    onnxruntime rotates 8 columns at a time.
    """
    if draw.chance(0.5):
        return "", "", ""
    length, columns = total + draw.integer(0, 3), size // 2 if draw.chance(0.8) else size // 4
    positions = draw.tensor(9, (batch, rows), between(0, length - rows)) if draw.chance(0.3) else ""
    return draw.tensor(7, (length, columns), _TURNS), draw.tensor(8, (length, columns), _TURNS), positions


@recipe("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(draw: Draw) -> NodeProposal:
    """Draw heads as an axis, derived from the caches, or given by `num_heads` if only part of a head is rotated."""
    batch, rows, heads, size = draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 3), 8 * draw.integer(1, 2)
    part = draw.choice((size // 2, size // 4)) * 2 if draw.chance(0.4) else size
    length = rows + draw.integer(0, 4)
    first = draw.chance(0.4)
    shape: Shape = (batch, heads, rows, size) if draw.chance(0.4) else (batch, rows, heads * size)
    operands = [
        draw.tensor(0, shape),
        draw.tensor(1, (1,), between(0, length - rows)) if first else draw.tensor(1, (batch, rows), between(0, length - 1)),
        draw.tensor(2, (length, part // 2), _TURNS),
        draw.tensor(3, (length, part // 2), _TURNS),
    ]
    partial = part != size
    return call(
        operands,
        interleaved=draw.maybe(draw.integer(0, 1)),
        num_heads=heads if partial else draw.maybe(heads, 0.3),
        rotary_embedding_dim=part if partial else None,
    )


@recipe("LinearAttention", domain=MICROSOFT)
def linear_attention(draw: Draw) -> NodeProposal:
    """Draw an update rule, which determines decay and beta. The state has the type of the queries."""
    if draw.types["S"] != "float32":
        draw.types["T"] = draw.types["S"]
    draw.types["S"] = draw.types["T"]
    rule = draw.choice(("linear", "gated", "delta", "gated_delta"))
    batch, steps, size, width = draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 5), draw.integer(1, 5)
    few, many = sorted((draw.integer(1, 2), draw.integer(1, 2)))
    queries, keys = (few, few * many) if draw.chance(0.3) else (few * many, few)
    small = between(-0.6, 0.6)
    fades = keys * draw.choice((1, size))
    operands = [
        draw.tensor(0, (batch, steps, queries * size), small),
        draw.tensor(1, (batch, steps, keys * size), small),
        draw.tensor(2, (batch, steps, keys * width)),
        draw.tensor(3, (batch, keys, size, width)) if draw.chance(0.6) else "",
        draw.tensor(4, (batch, steps, fades), between(-1, 0)) if "gated" in rule else "",
        draw.tensor(5, (batch, steps, draw.choice((1, keys))), between(0, 1)) if "delta" in rule else "",
    ]
    return call(
        operands,
        2,
        q_num_heads=queries,
        kv_num_heads=keys,
        update_rule=rule if rule != "gated_delta" else draw.maybe(rule),
        scale=draw.maybe(draw.choice((0.0, 0.5, 1.0))),
        chunk_size=draw.maybe(draw.choice((16, 64)), 0.2),
    )


@recipe("CausalConvWithState", domain=MICROSOFT)
def causal_conv_with_state(draw: Draw) -> NodeProposal:
    """Draw a signal `(N, C, L)`, a depthwise weight and sometimes a bias and a past state."""
    batch, channels, length, taps = draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 7), draw.integer(1, 4)
    dilation = draw.choice((1, 1, 1, 2, 3))
    operands = [
        draw.tensor(0, (batch, channels, length)),
        draw.tensor(1, (channels, 1, taps)),
        draw.tensor(2, (channels,)) if draw.chance(0.6) else "",
        draw.tensor(3, (batch, channels, (taps - 1) * dilation)) if draw.chance(0.6) else "",
    ]
    activation = draw.maybe(draw.choice(("none", "silu", "swish")), 0.8)
    return call(operands, 2, activation=activation, ndim=draw.maybe(1, 0.2), dilation=dilation if dilation > 1 else None)


@recipe("BifurcationDetector", domain=MICROSOFT)
def bifurcation_detector(draw: Draw) -> NodeProposal:
    """Draw a draft with one token more than the source has after the last match. Few distinct tokens make matches likely."""
    tokens = between(1, 4)
    length = draw.integer(1, 8)
    start = draw.integer(0, length)
    operands = [
        draw.tensor(0, (length,), tokens),
        draw.tensor(1, (draw.integer(1, 4),), tokens),
        draw.array(np.array([start])),
    ]
    if draw.chance(0.7):
        operands.append(draw.tensor(3, (length - start + 1,), tokens))
    shortest = draw.integer(1, 2)
    longest = shortest + draw.integer(0, 2)
    limited = draw.chance(0.6)
    return call(operands, 2, min_ngram_size=shortest if limited else None, max_ngram_size=longest if limited else None)
