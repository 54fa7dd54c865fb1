"""RNN, GRU and LSTM."""

from typing import Any

import numpy as np

from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import weight

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
"""Activations of a direction."""
PARAMETERS = {
    "Affine": (True, True),
    "Elu": (True, False),
    "HardSigmoid": (True, True),
    "LeakyRelu": (True, False),
    "Relu": (False, False),
    "ScaledTanh": (True, True),
    "Sigmoid": (False, False),
    "Softplus": (False, False),
    "Softsign": (False, False),
    "Tanh": (False, False),
    "ThresholdedRelu": (True, False),
}
"""Each activation, with the parameters that it takes: alpha, beta."""
SMALL = between(-0.75, 0.75)


@recipe("RNN", "GRU", "LSTM")
def recurrent(draw: Draw) -> NodeProposal:
    """Draw a sequence, weights for one or two directions, and sometimes lengths and initial states."""
    op_type, gates = draw.op_type, GATES[draw.op_type]
    direction = draw.choice([None, "forward", "reverse", "bidirectional"])
    directions = 2 if direction == "bidirectional" else 1
    layout = draw.choice([None, 0, 1]) if draw.has_attribute("layout") else None
    x = draw.value(0, low=3, high=3, least=1) if draw.chance(0.6) else None
    shape = (draw.integer(1, 5), draw.size(3), draw.integer(1, 5)) if x is None else x.sizes
    length, batch = (shape[1], shape[0]) if layout else shape[:2]
    hidden = draw.integer(1, 5)
    state = (batch, directions, hidden) if layout else (directions, batch, hidden)
    operands = [
        draw.tensor(0, shape) if x is None else x.name,
        weight(draw, 1, (directions, gates * hidden, shape[2]), SMALL),
        weight(draw, 2, (directions, gates * hidden, hidden), SMALL),
        weight(draw, 3, (directions, 2 * gates * hidden), SMALL) if draw.chance(0.6) else "",
        _lengths(draw, length, batch) if draw.chance(0.3) else "",
        draw.tensor(5, state) if draw.chance(0.4) else "",
    ]
    if op_type == "LSTM":
        operands.append(draw.tensor(6, state) if draw.chance(0.4) else "")
        operands.append(weight(draw, 7, (directions, 3 * hidden), SMALL) if draw.chance(0.3) else "")
    return call(
        operands, _outputs(draw), hidden_size=hidden, direction=direction, layout=layout, **_attributes(draw, directions)
    )


def _lengths(draw: Draw, length: int, batch: int) -> str:
    return draw.array(np.array([draw.integer(min(1, length), length) for _ in range(batch)], np.int32))


def _outputs(draw: Draw) -> list[bool]:
    """Return which outputs are present. All are optional, and at least one is present."""
    most = 3 if draw.op_type == "LSTM" else 2
    named = [draw.chance(0.7) for _ in range(draw.integer(1, most))]
    return named if any(named) else [*named[:-1], True]


def _attributes(draw: Draw, directions: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if draw.chance(0.4):
        found.update(_activations(draw, FUNCTIONS[draw.op_type] * directions))
    if draw.chance(0.2):
        found["clip"] = draw.choice([0.25, 1.0, 3.0])
    if draw.has_attribute("linear_before_reset"):
        found["linear_before_reset"] = draw.choice([None, 0, 1])
    if draw.has_attribute("input_forget"):
        found["input_forget"] = draw.choice([None, None, 0, 1])
    return found


def _activations(draw: Draw, count: int) -> dict[str, Any]:
    """Return activations, with alpha and beta for all of those that have them, or for none."""
    names = [draw.choice(sorted(PARAMETERS)) for _ in range(count)]
    if draw.chance(0.5):
        usual = ["Sigmoid", "Tanh", "Relu", "HardSigmoid"]
        names = [draw.choice(usual) for _ in range(count)]
    found: dict[str, Any] = {"activations": names}
    explicit = draw.chance(0.6) or any(name in ("Affine", "ScaledTanh") for name in names)
    for k, attribute in enumerate(("activation_alpha", "activation_beta")):
        values = [draw.integer(1, 8) / 8 for name in names if PARAMETERS[name][k]]
        found[attribute] = values if explicit and values else None
    return found
