"""Reductions, running sums and products, TopK, and normalizations along an axis."""

from typing import Any

from ort_lite.testing.generator.arrays import Contents, between, is_integer, numbers, with_nan
from ort_lite.testing.generator.draft import Known
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

SUMS = ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd")
LOGARITHMS = ("ReduceLogSum", "ReduceLogSumExp")
EXTREMES = ("ReduceMax", "ReduceMin")


@recipe(*SUMS, *LOGARITHMS, *EXTREMES, "ReduceMean")
def reduce(draw: Draw) -> NodeProposal:
    """Draw an operand and axes, which are an attribute or, in later versions, an input."""
    value = _operand(draw)
    several = draw.op_type == "ReduceLogSumExp" and is_integer(draw.kind(0))
    keepdims = draw.maybe(draw.integer(0, 1), 0.7)
    listed = draw.axes(value.rank, least=int(several), negative=draw.version >= 11)
    if draw.has_attribute("axes"):
        return call([value.name], axes=draw.maybe(listed, 0.8) or None, keepdims=keepdims)
    axes = draw.ints(*listed) if draw.chance(0.8) else ""
    return call([value.name, axes], keepdims=keepdims, noop_with_empty_axes=None if several else draw.maybe(draw.integer(0, 1)))


def _operand(draw: Draw) -> Known:
    """Return an operand of moderate integers, because overflowing sums, and logarithms and roots of negative ones, are undefined.

    The logarithm of a sum of exponentials of one integer may be rounded down, so it has two possible results.
    """
    kind = draw.kind(0)
    if is_integer(kind):
        if draw.op_type == "ReduceLogSumExp":
            return _new_operand(draw, draw.shape(1, 4, least=2), between(1, 9))
        positive = draw.op_type == "ReduceLogSum"
        if positive or draw.draft.special or draw.op_type in ("ReduceL2", "ReduceMean"):
            return _new_operand(
                draw, draw.shape(least=0 if draw.op_type in SUMS else 1), between(1, 9) if positive else numbers
            )
    elif draw.op_type in LOGARITHMS and draw.chance(0.5):
        return _new_operand(draw, draw.shape(), between(0.25, 4))
    return draw.value(0, least=_least(draw))


def _least(draw: Draw) -> int:
    """Return the least size of an axis. A mean needs elements, and so do extremes before version 20."""
    return int(draw.op_type == "ReduceMean" or (draw.op_type in EXTREMES and draw.version < 20))


def _new_operand(draw: Draw, shape: Shape, contents: Contents) -> Known:
    return draw.draft.lookup(draw.tensor(0, shape, contents))


@recipe("ArgMax", "ArgMin")
def extreme_index(draw: Draw) -> NodeProposal:
    """Draw an operand, sometimes with NaN, and an axis."""
    special = draw.draft.special and draw.chance(0.6)
    value = _new_operand(draw, draw.shape(1, 4, least=1), with_nan) if special else draw.value(0, low=1, least=1)
    axis = draw.axis(value.rank, None if draw.version >= 11 else 0)
    last = draw.maybe(draw.integer(0, 1)) if draw.has_attribute("select_last_index") else None
    return call([value.name], axis=draw.maybe(axis, 0.8), keepdims=draw.maybe(draw.integer(0, 1)), select_last_index=last)


def _order(draw: Draw, chance: float) -> Known:
    """Return an operand without NaN, which has no order. With the given probability it is any value, unless numbers are special."""
    if draw.chance(chance) and not draw.draft.special:
        return draw.value(0, low=1, least=1)
    return _new_operand(draw, draw.shape(1, 4, least=1), numbers)


@recipe("TopK")
def top_k(draw: Draw) -> NodeProposal:
    """Draw an operand and k. More than one result is sorted, because the order is undefined otherwise."""
    value = _order(draw, 0.3)
    axis = draw.axis(value.rank, None if draw.version >= 11 else -1)
    k = draw.integer(0 if draw.chance(0.1) else 1, value.sizes[axis])
    if draw.has_attribute("k"):
        return call([value.name], 2, k=max(k, 1), axis=axis)
    attributes: dict[str, Any] = {"axis": axis if axis != value.rank - 1 or draw.chance(0.7) else None}
    if draw.has_attribute("largest"):
        attributes |= {"largest": draw.maybe(draw.integer(0, 1)), "sorted": draw.maybe(0 if k <= 1 and draw.chance(0.5) else 1)}
    return call([value.name, draw.ints(k)], 2, **attributes)


@recipe("CumSum", "CumProd")
def cumulative(draw: Draw) -> NodeProposal:
    """Draw an operand and an axis."""
    value = draw.value(0, low=1)
    axis = draw.scalar(draw.axis(value.rank), draw.kind(1), draw.chance(0.8))
    return call([value.name, axis], exclusive=draw.maybe(draw.integer(0, 1)), reverse=draw.maybe(draw.integer(0, 1)))


@recipe("Softmax", "LogSoftmax", "Hardmax")
def along_axis(draw: Draw) -> NodeProposal:
    """Draw an operand and an axis. The default is 1 before version 13, then -1. Negative axes exist from version 11 on."""
    value = _order(draw, 0.5) if draw.op_type == "Hardmax" else draw.value(0, low=1)
    axis = draw.axis(value.rank, None if draw.version >= 11 else 0)
    optional = draw.version >= 13 or value.rank > 1
    return call([value.name], axis=draw.maybe(axis, 0.8) if optional else axis)
