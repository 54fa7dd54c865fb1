"""Recurrent layers of com.microsoft."""

from typing import Any

from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import MICROSOFT
from ort_lite.testing.generator.recipes.microsoft_quantized import WHOLE


@recipe("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(draw: Draw) -> NodeProposal:
    """Draw an LSTM whose weights, with their scales and zero points, are constant."""
    steps, batch, width, size = (draw.integer(1, 4) for _ in range(4))
    direction = draw.choice(("forward", "reverse", "bidirectional"))
    both = 2 if direction == "bidirectional" else 1
    parameters: Shape = (both, 4 * size) if draw.chance(0.3) else (both,)
    state: Shape = (both, batch, size)
    weights = [draw.tensor(index, (both, rows, 4 * size), WHOLE, True) for index, rows in ((1, width), (2, size))]
    zeros = between(0, 0) if draw.kind(1) == "int8" and draw.chance(0.7) else WHOLE  # onnxruntime takes no others with int8
    operands = [
        draw.tensor(0, (steps, batch, width)),
        *weights,
        draw.tensor(3, (both, 8 * size)) if draw.chance(0.6) else "",
        draw.tensor(4, (batch,), between(1, steps)) if draw.chance(0.3) else "",
        *(draw.tensor(index, state) if draw.chance(0.4) else "" for index in (5, 6)),
        draw.tensor(7, (both, 3 * size)) if draw.chance(0.3) else "",
    ]
    for index in (8, 10):
        operands += [
            draw.tensor(index, parameters, between(0.005, 0.02), True),
            draw.tensor(index + 1, parameters, zeros, True),
        ]
    outputs = draw.choice(((True, True, True), (True,), (False, True), (True, False, True)))
    return call(operands, outputs, **_cell(draw, direction, both), hidden_size=size)


@recipe("AttnLSTM", domain=MICROSOFT)
def attn_lstm(draw: Draw) -> NodeProposal:
    """Draw an LSTM, a memory, and sometimes a layer that makes its own numbers of what attention finds there."""
    steps, batch, width, size, entries, depth, key = (draw.integer(1, 4) for _ in range(7))
    direction = draw.choice(("forward", "reverse", "bidirectional"))
    both, layer = 2 if direction == "bidirectional" else 1, draw.maybe(draw.integer(1, 4))
    state: Shape = (both, batch, size)
    shapes: list[Shape] = [
        (steps, batch, width),
        (both, 4 * size, width + (layer or depth)),
        (both, 4 * size, size),
        (both, 8 * size),
        (batch,),
        state,
        state,
        (both, 3 * size),
        (both, size, key),
        (both, depth, key),
        (both, key),
        (batch, entries, depth),
        (batch,),
        (both, size + depth, layer or 0),
    ]
    present = [k not in (3, 4, 5, 6, 7, 12) or draw.chance(0.4) for k in range(13)] + [layer is not None]
    lengths = {4: between(1, steps), 12: between(1, entries)}
    operands = [draw.tensor(k, shape, lengths.get(k)) if present[k] else "" for k, shape in enumerate(shapes)]
    outputs = draw.choice(((True, True, True), (True,), (False, True), (True, False, True)))
    return call(operands, outputs, **_cell(draw, direction, both), hidden_size=size)


def _cell(draw: Draw, direction: str, directions: int) -> dict[str, Any]:
    activations = ["Sigmoid", "Tanh", draw.choice(("Tanh", "Relu", "Softsign"))] * directions
    return {
        "direction": direction if direction != "forward" else draw.maybe(direction),
        "activations": draw.maybe(activations, 0.4),
        "clip": draw.maybe(draw.choice((0.5, 2.0)), 0.2),
        "input_forget": draw.maybe(draw.integer(0, 1), 0.2),
    }
