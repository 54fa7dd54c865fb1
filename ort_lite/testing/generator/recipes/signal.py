"""Fourier transforms and window functions."""

from typing import Any

from ort_lite.dtypes import to_onnx
from ort_lite.testing.generator.arrays import unit
from ort_lite.testing.generator.draft import Rejected
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import weight


def number(draw: Draw, index: int, value: Any) -> str:
    """Return a scalar operand, usually constant."""
    return draw.scalar(value, draw.kind(index), draw.chance(0.8))


@recipe("DFT")
def dft(draw: Draw) -> NodeProposal:
    """Draw real numbers, or complex ones as pairs. A real signal has a one-sided spectrum, in either direction."""
    parts, sides = draw.choice([1, 2]), draw.choice([None, 0, 0, 1])
    inverse = draw.choice([None, 0, 1])
    if sides == 1:
        inverse = 1 if parts == 2 else draw.choice([None, 0])
    rank = draw.integer(3, 4) if draw.chance(0.8) else 2
    shape = (*(draw.size(3) if k == 0 and rank > 2 else draw.integer(1, 7) for k in range(rank - 1)), parts)
    axis = draw.choice([*range(1 if rank > 2 else 0, rank - 1), *range(1 - rank, -1)])
    if shape[axis] == 0 or (sides == 1 and inverse == 1 and shape[axis] == 1):
        raise Rejected("the transformed axis is too short")
    length = number(draw, 1, draw.integer(1, 10)) if draw.chance(0.4) else ""
    attributes: dict[str, Any] = {"inverse": inverse, "onesided": sides}
    if draw.has_attribute("axis"):
        default = 1 % (rank - 1) == axis % rank and draw.chance(0.5)
        return call([draw.tensor(0, shape), length], axis=None if default and rank > 2 else axis, **attributes)
    at = "" if axis in (-2, rank - 2) and draw.chance(0.5) else number(draw, 2, axis)
    return call([draw.tensor(0, shape), length, at], **attributes)


@recipe("STFT")
def stft(draw: Draw) -> NodeProposal:
    """Draw a signal and frames that fit into it. The window or a number determines their length."""
    parts, samples = draw.choice([1, 1, 2]), draw.integer(2, 24)
    frame = draw.integer(1, min(samples, 10))
    windowed = draw.chance(0.7)
    operands = [
        draw.tensor(0, (draw.size(3), samples, parts)),
        number(draw, 1, draw.integer(1, 6)),
        weight(draw, 2, (frame,), unit) if windowed else "",
        number(draw, 3, frame) if not windowed or draw.chance(0.5) else "",
    ]
    return call(operands, onesided=0 if parts == 2 else draw.choice([None, 0, 1]))


@recipe("HannWindow", "HammingWindow", "BlackmanWindow")
def window(draw: Draw) -> NodeProposal:
    """Draw the size of a window. A symmetric one has at least two elements."""
    periodic = draw.choice([None, 0, 1])
    size = draw.integer(2 if periodic == 0 else 1, 12)
    return call([number(draw, 0, size)], periodic=periodic, output_datatype=_type(draw))


def _type(draw: Draw) -> int | None:
    kind = draw.output_kind(0)
    return None if kind == "float32" and draw.chance(0.5) else to_onnx(kind)


@recipe("MelWeightMatrix")
def mel_weight_matrix(draw: Draw) -> NodeProposal:
    """Draw frequencies from `low` to `high`, which is at most half of the sample rate."""
    rate = draw.choice([16, 64, 8192, 16000])
    low, high = draw.choice([(0, rate // 2), (0, rate // 4), (rate // 8, rate // 2)])
    operands = [
        number(draw, 0, draw.integer(1, 8)),
        number(draw, 1, draw.choice([4, 8, 16, 15, 32])),
        number(draw, 2, rate),
        number(draw, 3, low),
        number(draw, 4, high),
    ]
    return call(operands, output_datatype=_type(draw))
