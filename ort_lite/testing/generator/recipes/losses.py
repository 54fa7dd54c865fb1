"""Classification losses."""

from collections.abc import Sequence
from random import Random

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.testing.generator.arrays import Contents, numpy_random, positive
from ort_lite.testing.generator.draft import Rejected
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import weight


def labels(classes: int, ignored: int | None) -> Contents:
    """Return contents that are classes, sometimes the ignored one, which need not be a class."""

    def contents(rng: Random, shape: Sequence[int], dtype: str) -> Array:
        generator = numpy_random(rng)
        array = generator.integers(0, classes, tuple(shape))
        if ignored is not None:
            array = np.where(generator.random(tuple(shape)) < 0.3, ignored, array)
        return np.asarray(array).astype(to_numpy(dtype))

    return contents


@recipe("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def loss(draw: Draw) -> NodeProposal:
    """Draw scores, labels within the classes and sometimes weights of the classes."""
    scores = draw.value(0, low=2, high=5)
    batch, classes, *space = scores.sizes
    if classes == 0:
        raise Rejected("there are no classes")
    ignored = draw.choice([None, None, draw.integer(0, classes - 1), -1, 100])
    operands = [scores.name, draw.tensor(1, (batch, *space), labels(classes, ignored))]
    if draw.chance(0.4):
        operands.append(weight(draw, 2, (classes,), positive))
    outputs = draw.choice([1, 2]) if draw.op_type == "SoftmaxCrossEntropyLoss" else 1
    return call(operands, outputs, ignore_index=ignored, reduction=draw.choice([None, "none", "mean", "sum"]))
