"""Attention of com.microsoft: Attention, QAttention, MultiHeadAttention and DecoderMaskedMultiHeadAttention."""

from typing import Any

from ort_lite.testing.generator.arrays import Contents, between
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

MICROSOFT = "com.microsoft"
FLAGS = between(0, 1)
SCALES = between(0.01, 0.1)


def scores_bias(draw: Draw, index: int, batch: int, heads: int, rows: int, keys: int) -> str:
    """Return a bias with one number per score. Its batch and head axes may be 1."""
    return draw.tensor(index, (draw.choice((1, batch)), draw.choice((1, heads)), rows, keys))


def padding_mask(draw: Draw, index: int, batch: int, rows: int, keys: int, ranks: tuple[int, ...] = (1, 2, 3)) -> str:
    """Return a mask of the keys: lengths, lengths and starts, lengths and bounds of packed sequences, or one flag per key."""
    rank = draw.choice(ranks)
    if rank > 1:
        return draw.tensor(index, (batch, keys) if rank == 2 else (batch, rows, keys), FLAGS)
    count = draw.choice((batch, 2 * batch, 3 * batch + 2))
    return draw.tensor(index, (count,), between(0, keys))


def scores_attributes(draw: Draw, heads: int) -> dict[str, Any]:
    """Return the attributes that the attention operators share; most are sometimes left out."""
    return {
        "num_heads": heads,
        "unidirectional": draw.maybe(draw.integer(0, 1)),
        "scale": draw.maybe(draw.choice((0.0, 0.25, 1.0)), 0.3),
        "mask_filter_value": draw.maybe(draw.choice((-10000.0, -1.0)), 0.3),
    }


@recipe("Attention", domain=MICROSOFT)
def attention(draw: Draw) -> NodeProposal:
    """Draw self-attention. Keys and values have the same size if there is a past or a present output."""
    batch, rows, width = (draw.integer(1, 4) for _ in range(3))
    heads, size = draw.integer(1, 3), draw.integer(1, 5)
    remembers = draw.chance(0.5)
    value_size = size if remembers or draw.chance(0.5) else draw.integer(1, 5)
    sizes = [heads * size, heads * size, heads * value_size]
    past = draw.integer(0, 4) if remembers and draw.chance(0.6) else None
    keys = rows + (past or 0)
    operands = [
        draw.tensor(0, (batch, rows, width)),
        draw.tensor(1, (width, sum(sizes))),
        draw.tensor(2, (sum(sizes),)) if draw.chance(0.8) else "",
        padding_mask(draw, 3, batch, rows, keys) if draw.chance(0.5) else "",
        "" if past is None else draw.tensor(4, (2, batch, heads, past, size)),
        scores_bias(draw, 5, batch, heads, rows, keys) if draw.chance(0.3 if past is None else 0.05) else "",
    ]
    split = sizes if value_size != size else draw.maybe(sizes, 0.3)
    return call(operands, 1 + remembers, qkv_hidden_sizes=split, **scores_attributes(draw, heads))


@recipe("QAttention", domain=MICROSOFT)
def q_attention(draw: Draw) -> NodeProposal:
    """Draw quantized inputs and weights of self-attention, with scales per tensor or per column."""
    batch, rows, width = (draw.integer(1, 4) for _ in range(3))
    heads, size = draw.integer(1, 3), draw.integer(1, 5)
    hidden, remembers = 3 * heads * size, draw.chance(0.5)
    past = draw.integer(0, 4) if remembers and draw.chance(0.6) else None
    bytes_: Contents = between(-128, 255)
    columns: Shape = (hidden,) if draw.chance(0.3) else ()
    zeros = [draw.chance(0.7), draw.chance(0.7)]
    operands = [
        draw.tensor(0, (batch, rows, width), bytes_),
        draw.tensor(1, (width, hidden), bytes_),
        draw.tensor(2, (hidden,)),
        draw.tensor(3, (), SCALES),
        draw.tensor(4, columns, SCALES),
        padding_mask(draw, 5, batch, rows, rows + (past or 0)) if draw.chance(0.5) else "",
        draw.tensor(6, (), bytes_) if zeros[0] else "",
        draw.tensor(7, columns, bytes_) if zeros[1] else "",
        "" if past is None else draw.tensor(8, (2, batch, heads, past, size)),
    ]
    return call(operands, 1 + remembers, **scores_attributes(draw, heads))


def follow_scores(draw: Draw) -> None:
    """Give queries and scores the same type, whichever of the two the target varies."""
    if draw.types["QK"] != "float32":
        draw.types["T"] = draw.types["QK"]
    draw.types["QK"] = draw.types["T"]


def _outputs(draw: Draw, remembers: bool) -> tuple[bool, ...]:
    """Return which outputs are present: the result, both presents or neither, and the scores."""
    presents = remembers or draw.chance(0.4)
    return (True, presents, presents, draw.chance(0.3))


@recipe("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(draw: Draw) -> NodeProposal:
    """Draw queries, keys and values: separate, packed together, keys packed with values, or both from another attention's past."""
    follow_scores(draw)
    form = draw.choice(("apart",) * 6 + ("packed", "packed", "keys and values", "other", "other"))
    batch, rows, heads, size = draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 3), draw.integer(1, 5)
    length = rows if form == "packed" else draw.integer(1, 5)
    value_size = draw.integer(1, 5) if form == "apart" and draw.chance(0.4) else size
    query: Shape = (batch, rows, heads, 3, size) if form == "packed" else (batch, rows, heads * size)
    shapes: dict[str, tuple[Shape | None, Shape | None]] = {
        "apart": ((batch, length, heads * size), (batch, length, heads * value_size)),
        "packed": (None, None),
        "keys and values": ((batch, length, heads, 2, size), None),
        "other": ((batch, heads, length, size), (batch, heads, length, size)),
    }
    others = ["" if shape is None else draw.tensor(index, shape) for index, shape in enumerate(shapes[form], 1)]
    past = draw.integer(0, 4) if form == "apart" and value_size == size and draw.chance(0.4) else None
    keys = length + (past or 0)
    biased = form == "apart" and draw.chance(0.4)
    operands = [
        draw.tensor(0, query),
        *others,
        draw.tensor(3, (heads * (2 * size + value_size),)) if biased else "",
        padding_mask(draw, 4, batch, rows, keys) if draw.chance(0.3) else "",
        scores_bias(draw, 5, batch, heads, rows, keys) if draw.chance(0.3) else "",
        *("" if past is None else draw.tensor(index, (batch, heads, past, size)) for index in (6, 7)),
    ]
    outputs = _outputs(draw, past is not None)
    return call(operands, outputs, **scores_attributes(draw, heads))


@recipe("DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def decoder_masked_multi_head_attention(draw: Draw) -> NodeProposal:
    """Draw one query per sequence, with a past in a buffer of its final size, or with cross-attention's keys and values."""
    follow_scores(draw)
    groups, beams, heads, size = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 3), draw.integer(1, 5)
    batch, hidden = groups * beams, heads * size
    if draw.chance(0.3):
        return _of_other_heads(draw, batch, heads, size)
    room = draw.integer(1, 6)
    used = draw.integer(0, room - 1)
    apart = (batch, 1, hidden)
    searches = draw.chance(0.4)
    operands = [
        *(draw.tensor(index, apart) for index in range(3)),
        draw.tensor(3, (batch, used + 1), FLAGS) if draw.chance(0.3) else "",
        scores_bias(draw, 4, batch, heads, 1, used + 1) if draw.chance(0.3) else "",
        *(draw.tensor(index, (batch, heads, room, size)) for index in (5, 6)),
        draw.scalar([used], "int32"),
        draw.scalar([beams], "int32") if searches else "",
        draw.tensor(9, (groups, beams, room), between(0, beams - 1)) if searches else "",
        draw.tensor(10, (3 * hidden,)) if draw.chance(0.3) else "",
    ]
    attributes = _decoder_attributes(draw, heads)
    scores = attributes["output_qk"] == 1
    return call(operands, (True, True, True, scores), past_present_share_buffer=1, **attributes)


def _of_other_heads(draw: Draw, batch: int, heads: int, size: int) -> NodeProposal:
    length = draw.integer(1, 5)
    operands = [
        draw.tensor(0, (batch, 1, heads * size)),
        *(draw.tensor(index, (batch, heads, length, size)) for index in (1, 2)),
        draw.tensor(3, (batch, length), FLAGS) if draw.chance(0.3) else "",
        scores_bias(draw, 4, batch, heads, 1, length) if draw.chance(0.2) else "",
    ]
    attributes = _decoder_attributes(draw, heads)
    return call(operands, (True, False, False, attributes["output_qk"] == 1), **attributes)


def _decoder_attributes(draw: Draw, heads: int) -> dict[str, Any]:
    attributes = scores_attributes(draw, heads)
    del attributes["unidirectional"]
    return {**attributes, "output_qk": draw.maybe(draw.integer(0, 1))}
