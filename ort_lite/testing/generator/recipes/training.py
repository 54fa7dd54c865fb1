"""One step of an optimizer for one or several tensors: Adagrad, Adam and Momentum."""

from typing import Any

from ort_lite.testing.generator.arrays import between, positive
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

_STATES = {"Adagrad": 1, "Adam": 2, "Momentum": 1}
"""Tensors of state that each weight has beside its gradient."""


@recipe("Adagrad", "Adam", "Momentum", domain="ai.onnx.preview.training")
def optimizer(draw: Draw) -> NodeProposal:
    """Draw all weights, then all gradients, then all states. The last states, sums of squares, are not negative."""
    weights, states = draw.integer(1, 3), _STATES[draw.op_type]
    shapes = [draw.shape(0, 3) for _ in range(weights)]
    operands = [draw.tensor(0, draw.choice(((), (1,))), between(0, 0.5)), draw.tensor(1, (), between(0, 9))]
    for group in range(2 + states):
        squares = draw.op_type != "Momentum" and group == 1 + states
        operands += [draw.tensor(2, shape, positive if squares else None) for shape in shapes]
    return call(operands, weights * (1 + states), **_attributes(draw))


def _attributes(draw: Draw) -> dict[str, Any]:
    """Return the attributes. Momentum requires its own; the other operators have defaults."""
    fraction = [0.0, 0.5, 0.9, 0.99]
    small = draw.choice((0.0, 0.01, 0.5))
    if draw.op_type == "Momentum":
        rates = {"alpha": draw.choice(fraction), "beta": draw.choice((*fraction, 1.0))}
        return {**rates, "mode": draw.choice(("standard", "nesterov")), "norm_coefficient": small}
    attributes = {"norm_coefficient": draw.maybe(small), "epsilon": draw.maybe(draw.choice((1e-6, 1e-3, 0.5)))}
    if draw.op_type == "Adagrad":
        return {**attributes, "decay_factor": draw.maybe(draw.choice((0.0, 0.1, 1.0)))}
    attributes |= {"alpha": draw.maybe(draw.choice(fraction)), "beta": draw.maybe(draw.choice(fraction[1:]))}
    return {**attributes, "norm_coefficient_post": draw.maybe(small)}
