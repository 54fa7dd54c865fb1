"""Normalizations and activations of com.microsoft, and operators that move, count or remove elements."""

from typing import Any

import numpy as np

from ort_lite.testing.generator.arrays import between, indices, is_integer
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import FLAGS, MICROSOFT

_EPSILONS = (1e-12, 1e-5, 0.1)


@recipe("Gelu", "QuickGelu", domain=MICROSOFT)
def gelu(draw: Draw) -> NodeProposal:
    """Draw an operand, and for QuickGelu sometimes `alpha`."""
    alpha = draw.maybe(draw.choice((1.702, 1.0, 0.5, -1.0)), 0.7) if draw.op_type == "QuickGelu" else None
    return call([draw.value(0, open_shape=True).name], alpha=alpha)


@recipe("BiasGelu", "FastGelu", domain=MICROSOFT)
def gelu_with_bias(draw: Draw) -> NodeProposal:
    """Draw a bias as long as the last axis, which FastGelu may omit."""
    x = draw.value(0, low=1)
    bias = draw.op_type == "BiasGelu" or draw.chance(0.6)
    return call([x.name, draw.tensor(1, x.sizes[-1:]) if bias else ""])


@recipe("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(draw: Draw) -> NodeProposal:
    """Draw inputs `(B, S, H)` or `(S, H)`. The skip may lack the batch or have 1 there, and rows have more than one number."""
    shape = (*draw.shape(1, 2, most=4, least=1), draw.integer(2, 8))
    skip = draw.choice((shape, shape[1:], (1, *shape[1:]))) if len(shape) == 3 else shape
    width = shape[-1:]
    simplified = draw.op_type == "SkipSimplifiedLayerNormalization"
    operands = [draw.tensor(0, shape), draw.tensor(1, skip), draw.tensor(2, width)]
    operands += [draw.tensor(index, width) if draw.chance(0.6) else "" for index in ((3,) if simplified else (3, 4))]
    outputs = (True, draw.chance(0.3), draw.chance(0.3), draw.chance(0.5))
    return call(operands, outputs, epsilon=draw.maybe(draw.choice(_EPSILONS)))


@recipe("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(draw: Draw) -> NodeProposal:
    """Draw segments with their table, and positions per sequence or for all."""
    batch, steps, width = draw.integer(1, 3), draw.integer(1, 4), draw.integer(2, 8)
    words, places, kinds = draw.integer(1, 9), steps + draw.integer(0, 3), draw.integer(1, 3)
    segmented = draw.chance(0.6)
    ids: Shape = (batch, steps)
    operands = [
        draw.tensor(0, ids, between(0, words - 1)),
        draw.tensor(1, ids, between(0, kinds - 1)) if segmented else "",
        draw.tensor(2, (words, width)),
        draw.tensor(3, (places, width)),
        draw.tensor(4, (kinds, width)) if segmented else "",
        *(draw.tensor(index, (width,)) for index in (5, 6)),
        draw.tensor(7, ids, FLAGS) if draw.chance(0.5) else "",
        draw.tensor(8, draw.choice((ids, (1, steps))), between(0, places - 1)) if draw.chance(0.4) else "",
    ]
    return call(operands, (True, True, draw.chance(0.5)), epsilon=draw.maybe(draw.choice(_EPSILONS)))


# --- Moving
@recipe("ExpandDims", domain=MICROSOFT)
def expand_dims(draw: Draw) -> NodeProposal:
    """Draw an operand and the position of a new axis."""
    x = draw.value(0, high=4)
    axis = draw.integer(-x.rank - 1, x.rank)
    return call([x.name, draw.scalar(axis, "int32", draw.chance(0.8))])


@recipe("GatherND", domain=MICROSOFT)
def gather_nd(draw: Draw) -> NodeProposal:
    """Draw indices whose rows name an element, or a slice of the remaining axes."""
    x = draw.value(0, low=1, high=4, least=1)
    depth = draw.integer(1, x.rank)
    shape = (*draw.shape(0, 2, most=4), depth)
    columns = [indices(n)(draw.rng, shape[:-1], draw.kind(1)) for n in x.sizes[:depth]]
    return call([x.name, draw.array(np.stack(columns, -1))])


@recipe("Pad", domain=MICROSOFT)
def pad(draw: Draw) -> NodeProposal:
    """Draw pads. Negative ones remove elements; reflected axes are longer than their pads."""
    x = draw.value(0, low=1, high=4, least=1)
    mode = draw.choice(("constant", "constant", "reflect", "edge"))
    most = [n - 1 if mode == "reflect" else 2 for n in x.sizes]
    cuts = mode == "constant" and draw.chance(0.2)
    pads = [draw.integer(-(x.sizes[k % x.rank] // 3) if cuts else 0, min(most[k % x.rank], 3)) for k in range(2 * x.rank)]
    value = draw.tensor(2, draw.choice(((), (1,)))) if draw.chance(0.5) else ""
    return call([x.name, draw.ints(*pads), value], mode=mode if mode != "constant" else draw.maybe(mode))


@recipe("Range", domain=MICROSOFT)
def range_(draw: Draw) -> NodeProposal:
    """Draw a range, whose step may be omitted and is then 1."""
    kind = draw.kind(0)
    step = draw.choice((1, 2, -1, -3) if is_integer(kind) else (1, 0.5, -0.25, 2))
    start = draw.integer(-6, 6)
    counted = draw.chance(0.3)
    distance = draw.integer(-2, 9) * (1 if counted else step)
    operands = [draw.scalar(start, kind), draw.scalar(start + distance, kind)]
    return call([*operands, "" if counted else draw.scalar(step, kind)])


@recipe("Trilu", domain=MICROSOFT)
def trilu(draw: Draw) -> NodeProposal:
    """Draw a matrix or a stack of matrices, and a diagonal that may lie outside them."""
    x = draw.value(0, low=2)
    diagonal = draw.scalar(draw.integer(-4, 4), "int64") if draw.chance(0.7) else ""
    return call([x.name, diagonal], upper=draw.maybe(draw.integer(0, 1)))


@recipe("Unique", domain=MICROSOFT)
def unique(draw: Draw) -> NodeProposal:
    """Draw a vector. All three outputs are used."""
    return call([draw.value(0, low=1, high=1).name], 3)


@recipe("MurmurHash3", domain=MICROSOFT)
def murmur_hash(draw: Draw) -> NodeProposal:
    """Draw an operand and a seed. An int32 result needs `positive=0`."""
    return call(
        [draw.value(0, open_shape=True).name],
        positive=0 if draw.output_kind(0) == "int32" else draw.maybe(1),
        seed=draw.maybe(draw.choice((0, 1, 42, 2**31 - 1))),
    )


# --- Texts
_SEPARATORS = ([""], [" "], [",", " "], [" ", "-"], ["a"], [r"[ ,;]"], [r"\s+"])
_EXPRESSIONS = (".", "[a-z]+", r"\w+", "a|b", "[^ ]+", "..")


@recipe("Tokenizer", domain=MICROSOFT)
def tokenizer(draw: Draw) -> NodeProposal:
    """Draw separators or an expression for tokens. [""] and "." make each character a token."""
    x = draw.value(0, low=1, high=2)
    attributes: dict[str, Any] = {"separators": list(draw.choice(_SEPARATORS))}
    if draw.chance(0.4):
        attributes = {"tokenexp": draw.choice(_EXPRESSIONS)}
    letters = attributes.get("separators") == [""] or attributes.get("tokenexp") == "."
    return call(
        [x.name],
        mark=draw.integer(0, 1),
        pad_value=draw.choice(("#", "", "pad")),
        mincharnum=1 if letters else draw.integer(1, 3),
        **attributes,
    )
