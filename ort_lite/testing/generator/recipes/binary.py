"""Elementwise operators of several tensors that broadcast."""

import numpy as np

from ort_lite.dtypes import itemsize
from ort_lite.testing.generator.arrays import Contents, among, between, is_float, is_integer, limits, numbers
from ort_lite.testing.generator.draft import Known
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
BITS = ("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")


@recipe("Add", "Sub", "Mul", "StringConcat", *COMPARISONS, *BITS)
def binary(draw: Draw) -> NodeProposal:
    """Draw an operand and another one of a shape that broadcasts with it, in either order."""
    first = draw.value(0, high=4)
    if draw.has_attribute("broadcast"):
        return _one_way(draw, first)
    operands = [first.name, draw.tensor(1, draw.broadcastable(first.sizes))]
    if draw.chance(0.5):
        operands.reverse()
    return call(operands)


def _one_way(draw: Draw, first: Known) -> NodeProposal:
    """Draw operands before version 7, where the second one broadcasts only with `broadcast=1`: its axes are the first one's from
    `axis` on.
    """
    start = draw.integer(0, first.rank)
    other = first.sizes[start : draw.integer(start, first.rank)]
    if draw.chance(0.4) or not other:
        return call([first.name, draw.tensor(1, first.sizes)])
    last = start + len(other) == first.rank
    return call([first.name, draw.tensor(1, other)], broadcast=1, axis=start if not last or draw.chance(0.5) else None)


@recipe("SwiGLU")
def swiglu(draw: Draw) -> NodeProposal:
    """Draw a gate and a value of the same shape."""
    gate = draw.value(0, high=4)
    return call([gate.name, draw.tensor(1, gate.sizes)], alpha=draw.maybe(draw.number()))


def _two_shapes(draw: Draw) -> tuple[Shape, Shape]:
    """Draw two shapes that broadcast, in either order."""
    shape = draw.shape()
    other = draw.broadcastable(shape)
    return (other, shape) if draw.chance(0.5) else (shape, other)


@recipe("Div", "Mod")
def division(draw: Draw) -> NodeProposal:
    """Draw two operands. Integers are not divided by 0, nor the least one by -1. Before version 28 the remainder of floats is C's
    fmod.
    """
    shape, other = _two_shapes(draw)
    dtype = draw.kind(0)
    if is_integer(dtype):
        divisors: Contents = among(1, 2, 3, 7, 16) if limits(dtype)[0] == 0 else among(-9, -3, -2, 1, 2, 3, 7)
        operands = [draw.tensor(0, shape), draw.tensor(1, other, divisors)]
    else:
        moderate = draw.op_type == "Mod" or (draw.chance(0.6) and not draw.draft.special)
        operands = [draw.tensor(0, shape), draw.tensor(1, other, among(-2.5, -0.5, 0.5, 0.75, 1, 3) if moderate else None)]
    if draw.op_type == "Div":
        return call(operands)
    floats = not is_integer(dtype) and draw.version < 28
    return call(operands, fmod=1 if floats else draw.maybe(draw.integer(0, 1), 0.6))


@recipe("Pow")
def power(draw: Draw) -> NodeProposal:
    """Draw a base and exponents whose powers are defined: integer powers stay in range, and no negative number has a fractional
    exponent.
    """
    shape, other = _two_shapes(draw)
    if is_integer(draw.kind(0)):
        return call([draw.tensor(0, shape, between(-9, 9)), draw.tensor(1, other, among(0, 1, 2, 3))])
    by: Contents = among(0, 1, 2, 3)
    if is_float(draw.kind(1)):
        by = draw.choice([among(2), among(0.5), among(-1, 0.5, 2, 3), between(-2, 3)])
    elif limits(draw.kind(1))[0] < 0:
        by = between(-2, 3)
    base: Contents = draw.choice([numbers, between(0.25, 4)])
    constant = draw.maybe(True)
    return call([draw.tensor(0, shape, draw.maybe(base, 0.7)), draw.tensor(1, other, by, constant)])


@recipe("Max", "Min", "Mean", "Sum")
def variadic(draw: Draw) -> NodeProposal:
    """Draw up to five operands, of one shape before version 8, which introduced broadcasting."""
    first = draw.value(0, high=4)
    shape, operands = first.sizes, [first.name]
    for _ in range(draw.integer(0, 4)):
        other = draw.broadcastable(shape) if draw.version >= 8 else shape
        operands.append(draw.tensor(0, other))
        shape = np.broadcast_shapes(shape, other)
    draw.rng.shuffle(operands)
    return call(operands)


@recipe("PRelu")
def prelu(draw: Draw) -> NodeProposal:
    """Draw an input and a slope that broadcasts to it."""
    first = draw.value(0, high=4)
    return call([first.name, draw.tensor(1, draw.broadcastable(first.sizes, wider=False))])


@recipe("Where")
def where(draw: Draw) -> NodeProposal:
    """Draw a condition and two operands whose shapes broadcast."""
    first = draw.value(1, high=4)
    condition = draw.broadcastable(first.sizes)
    shape = np.broadcast_shapes(first.sizes, condition)
    operands = [first.name, draw.tensor(2, draw.broadcastable(shape))]
    if draw.chance(0.5):
        operands.reverse()
    return call([draw.tensor(0, condition), *operands])


@recipe("BitShift")
def bit_shift(draw: Draw) -> NodeProposal:
    """Draw a value and numbers of bits. From version 28 on the shifts of any number, and of signed integers, are defined."""
    first = draw.value(0, high=4)
    bits = 8 * itemsize(draw.kind(0))
    by = between(-2, bits + 2) if draw.version >= 28 and draw.chance(0.4) else between(0, bits - 1)
    other = draw.tensor(1, draw.broadcastable(first.sizes), by)
    return call([first.name, other], direction=draw.choice(["LEFT", "RIGHT"]))
