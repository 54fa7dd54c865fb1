"""Random operators with parameters that leave nothing to chance, because random results cannot be compared."""

from typing import Any

import numpy as np

from ort_lite.dtypes import to_onnx
from ort_lite.testing.generator.arrays import among, cast
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe


def _seed(draw: Draw) -> float | None:
    return draw.maybe(float(draw.integer(0, 99)))


@recipe("RandomNormal", "RandomUniform")
def random(draw: Draw) -> NodeProposal:
    """Draw a shape, an element type and a seed."""
    shape = list(draw.shape(1, 4))
    dtype = to_onnx(draw.output_kind(0))
    code = dtype if draw.output_kind(0) != "float32" else draw.maybe(dtype)
    return call([], shape=shape, dtype=code, seed=_seed(draw), **_range(draw))


@recipe("RandomNormalLike", "RandomUniformLike")
def random_like(draw: Draw) -> NodeProposal:
    """Draw an operand that supplies the shape and sometimes the element type, and a seed."""
    value = draw.value(0)
    same = draw.output_kind(0) == draw.kind(0)
    dtype = None if same and draw.chance(0.4) else to_onnx(draw.output_kind(0))
    return call([value.name], dtype=dtype, seed=_seed(draw), **_range(draw))


def _range(draw: Draw) -> dict[str, Any]:
    """Return a scale that rounds away, or a range of one number. onnxruntime aborts if the scale is 0."""
    number = draw.number()
    if "Normal" in draw.op_type:
        return {"mean": number or 2.0, "scale": 2.0**-100}
    return {"low": number, "high": number}


@recipe("Bernoulli")
def bernoulli(draw: Draw) -> NodeProposal:
    """Draw probabilities of 0 and 1."""
    certain = draw.tensor(0, draw.shape(), among(0, 1))
    same = draw.output_kind(0) == draw.kind(0)
    dtype = None if same and draw.chance(0.3) else to_onnx(draw.output_kind(0))
    return call([certain], dtype=dtype, seed=_seed(draw))


@recipe("Multinomial")
def multinomial(draw: Draw) -> NodeProposal:
    """Draw logarithms of probabilities in which one class per row has the whole probability."""
    rows, classes = draw.integer(1, 4), draw.integer(1, 6)
    logits = np.full((rows, classes), -20000.0)
    for row in range(rows):
        logits[row, draw.integer(0, classes - 1)] = draw.number()
    dtype = to_onnx(draw.output_kind(0))
    code = dtype if draw.output_kind(0) != "int32" else draw.maybe(dtype)
    operand = draw.array(cast(logits, draw.kind(0)))
    return call([operand], dtype=code, sample_size=draw.maybe(draw.integer(1, 5)), seed=_seed(draw))
