"""Elementwise operators of one tensor."""

from collections.abc import Mapping

import numpy as np

from ort_lite.testing.generator.arrays import Contents, between, is_float, is_integer, limits, positive
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

PLAIN = (
    *("Abs", "Neg", "Sign", "Identity", "Ceil", "Floor", "Round", "IsNaN", "Not", "BitwiseNot"),
    *("Exp", "Erf", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Tanh", "Asinh"),
    *("Relu", "Sigmoid", "Softplus", "Softsign", "HardSwish", "Mish"),
)
DOMAINS: Mapping[str, Contents] = {
    "Sqrt": positive,
    "Log": positive,
    "Reciprocal": positive,
    "Acosh": between(1, 5),
    "Acos": between(-1, 1),
    "Asin": between(-1, 1),
    "Atanh": between(-0.9375, 0.9375),
}
"""By function: numbers for which it is defined and finite."""


@recipe(*PLAIN)
def unary(draw: Draw) -> NodeProposal:
    """Draw the only operand of an operator without attributes."""
    return call([draw.value(0, open_shape=True).name])


@recipe(*DOMAINS)
def in_domain(draw: Draw) -> NodeProposal:
    """Draw an operand. One in three may be outside the function's domain, where the result is NaN."""
    return call([within(draw, DOMAINS[draw.op_type])])


def within(draw: Draw, contents: Contents) -> str:
    """Return a new first operand with these contents, or sometimes, and with special numbers, with any."""
    if draw.draft.special or draw.chance(0.35):
        return draw.value(0, open_shape=True).name
    return draw.tensor(0, draw.shape(), contents)


@recipe("Elu", "LeakyRelu", "ThresholdedRelu", "Swish")
def slope(draw: Draw) -> NodeProposal:
    """Draw an operand and sometimes `alpha`."""
    return call([draw.value(0, open_shape=True).name], alpha=draw.maybe(draw.number(), 0.8))


@recipe("Celu")
def celu(draw: Draw) -> NodeProposal:
    """Draw an operand and an `alpha` that is not 0, because the operator divides by it."""
    return call([draw.value(0, open_shape=True).name], alpha=draw.maybe(draw.number() or 2.0, 0.8))


@recipe("Selu")
def selu(draw: Draw) -> NodeProposal:
    """Draw an operand and sometimes `alpha` and `gamma`."""
    value = draw.value(0, open_shape=True)
    return call([value.name], alpha=draw.maybe(draw.number()), gamma=draw.maybe(draw.number()))


@recipe("HardSigmoid")
def hard_sigmoid(draw: Draw) -> NodeProposal:
    """Draw an operand and sometimes `alpha` and `beta`."""
    value = draw.value(0, open_shape=True)
    return call([value.name], alpha=draw.maybe(draw.number()), beta=draw.maybe(draw.number()))


@recipe("Gelu")
def gelu(draw: Draw) -> NodeProposal:
    """Draw an operand and the exact formula or the tanh approximation."""
    return call([draw.value(0, open_shape=True).name], approximate=draw.maybe(draw.choice(["none", "tanh"]), 0.7))


@recipe("IsInf")
def is_inf(draw: Draw) -> NodeProposal:
    """Draw an operand and the signs of infinity that count."""
    value = draw.value(0, open_shape=True)
    flags = [draw.maybe(draw.integer(0, 1)) for _ in range(2)]
    return call([value.name], detect_negative=flags[0], detect_positive=flags[1])


@recipe("Shrink")
def shrink(draw: Draw) -> NodeProposal:
    """Draw an operand and attributes that are whole numbers for integers, and not negative for unsigned ones."""
    value = draw.value(0, open_shape=True)
    bias, lambd = draw.number(), abs(draw.number())
    if is_integer(draw.kind(0)):
        bias, lambd = (0.0, 0.0) if limits(draw.kind(0))[0] == 0 else (float(round(bias)), float(round(lambd)))
    return call([value.name], bias=draw.maybe(bias, 0.7), lambd=lambd)


@recipe("Clip")
def clip(draw: Draw) -> NodeProposal:
    """Draw an operand and bounds, which are attributes before version 11. Before version 13 the minimum must not exceed the
    maximum.
    """
    value = draw.value(0, open_shape=True)
    dtype = draw.kind(0)
    least, most = (-8, 8) if is_float(dtype) else (max(limits(dtype)[0], -8), 8)
    bounds = [draw.integer(least, most) / (4 if is_float(dtype) else 1) for _ in range(2)]
    if draw.version < 13 or draw.chance(0.9):
        bounds.sort()
    low, high = (draw.maybe(bound, 0.8) for bound in bounds)
    if draw.has_attribute("min"):
        return call([value.name], min=low, max=high)
    return call([value.name, *("" if bound is None else draw.scalar(bound, dtype) for bound in (low, high))])


@recipe("Dropout")
def dropout(draw: Draw) -> NodeProposal:
    """Draw inference, or training that drops nothing. Before version 12 the mask has no defined contents."""
    value = draw.value(0, open_shape=True)
    ratio = draw.integer(0, 15) / 16
    if draw.has_attribute("ratio"):
        return call([value.name], ratio=draw.maybe(ratio))
    mask = (True, True) if draw.chance(0.5) else (True,)
    training = draw.chance(0.3)
    rate = draw.scalar(0.0 if training else ratio, draw.kind(1)) if training or draw.chance(0.6) else ""
    mode = draw.array(np.array(training)) if training or draw.chance(0.6) else ""
    return call([value.name, rate, mode], mask, seed=draw.maybe(draw.integer(0, 99)))
