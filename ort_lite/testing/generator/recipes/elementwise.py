"""Elementwise operators."""

from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import Call, call, recipe


@recipe("Relu", "Neg", "Abs", "Identity")
def unary(draw: Draw) -> Call:
    return call([draw.value(0, open_shape=True).name])


@recipe("Add", "Sub", "Mul")
def binary(draw: Draw) -> Call:
    first = draw.value(0, high=4)
    assert first.shape is not None
    operands = [first.name, draw.tensor(1, draw.broadcastable(first.shape))]
    if draw.chance(0.5):
        operands.reverse()
    return call(operands)
