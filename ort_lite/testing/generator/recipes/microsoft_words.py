"""Operators of com.microsoft on words, tokens and sequences: embeddings, blocked repeats, paths."""

import numpy as np

from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import FLAGS, MICROSOFT, SCALES
from ort_lite.testing.generator.recipes.microsoft_quantized import WHOLE, integer_operand


@recipe("NGramRepeatBlock", domain=MICROSOFT)
def n_gram_repeat_block(draw: Draw) -> NodeProposal:
    """Draw rows of tokens of a small vocabulary, so that some repeat, and scores."""
    rows, vocabulary = draw.size(3), draw.integer(1, 6)
    tokens = draw.tensor(0, (rows, draw.size(8)), between(0, vocabulary - 1))
    return call([tokens, draw.tensor(1, (rows, vocabulary))], ngram_size=draw.integer(1, 4))


@recipe("WordConvEmbedding", domain=MICROSOFT)
def word_conv_embedding(draw: Draw) -> NodeProposal:
    """Draw words that begin with a character: the vector of an empty one is undefined in onnxruntime."""
    letters, filters, size, entries = (draw.integer(1, 6) for _ in range(4))
    width, count = draw.integer(1, letters), draw.size(4)
    words = between(0, entries)(draw.rng, (count, letters), "int32")
    words[:, 0] = np.maximum(words[:, 0], 1)
    shapes: list[Shape] = [(filters, 1, width, size), (filters,), (entries, size)]
    operands = [draw.array(words), *(draw.tensor(k, shape) for k, shape in enumerate(shapes, 1))]
    return call(
        operands,
        embedding_size=draw.maybe(filters),
        conv_window_size=draw.maybe(width),
        char_embedding_size=draw.maybe(size),
    )


@recipe("DynamicTimeWarping", domain=MICROSOFT)
def dynamic_time_warping(draw: Draw) -> NodeProposal:
    """Draw a matrix of costs."""
    return call([draw.tensor(0, (*draw.choice(((), (1,))), draw.integer(1, 8), draw.integer(1, 8)))])


@recipe("QEmbedLayerNormalization", domain=MICROSOFT)
def q_embed_layer_normalization(draw: Draw) -> NodeProposal:
    """Draw quantized tables with scales and zero points; those of segments may be missing."""
    batch, steps, width = draw.integer(1, 3), draw.integer(1, 4), draw.integer(2, 8)
    entries = draw.integer(1, 9), steps + draw.integer(0, 3), draw.integer(1, 3)
    segmented = draw.chance(0.6)
    present = [True, True, segmented, True, True]
    ids: Shape = (batch, steps)
    tables: list[Shape] = [*((count, width) for count in entries), (width,), (width,)]
    operands = [
        draw.tensor(0, ids, between(0, entries[0] - 1)),
        draw.tensor(1, ids, between(0, entries[2] - 1)) if segmented else "",
        *(integer_operand(draw, 2 + k, shape) if present[k] else "" for k, shape in enumerate(tables)),
        draw.tensor(7, ids, FLAGS) if draw.chance(0.5) else "",
        *(draw.tensor(8 + k, (), SCALES) if here else "" for k, here in enumerate(present)),
        *(draw.tensor(13 + k, (), WHOLE) if here else "" for k, here in enumerate(present)),
    ]
    return call(operands, 2, epsilon=draw.maybe(draw.choice((1e-12, 1e-5, 0.1))))
