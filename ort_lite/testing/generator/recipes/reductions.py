"""Reductions, running sums and products, TopK, and what normalizes along an axis."""

from typing import Any

from ort_lite.testing.generator.arrays import Contents, between, is_integer, numbers
from ort_lite.testing.generator.draft import Known
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import Call, call, recipe

SUMS = ("ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceProd")
ROOTS = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")


@recipe(*SUMS, *ROOTS, "ReduceMean", "ReduceMax", "ReduceMin")
def reduce(draw: Draw) -> Call:
    """Axes are an attribute or, in later versions, an input. Nothing says what integers come of no elements' mean, log or extreme."""
    value = _operand(draw)
    keepdims = draw.maybe(draw.integer(0, 1), 0.7)
    listed = draw.axes(value.rank, negative=draw.version >= 11)
    if draw.has_attribute("axes"):
        return call([value.name], axes=draw.maybe(listed, 0.8) or None, keepdims=keepdims)
    axes = draw.ints(*listed) if draw.chance(0.8) else ""
    return call([value.name, axes], keepdims=keepdims, noop_with_empty_axes=draw.maybe(draw.integer(0, 1)))


def _operand(draw: Draw) -> Known:
    """Logarithms and roots of integers need moderate positive ones, since results beyond the type have no meaning."""
    counts = is_integer(draw.kind(0)) or draw.kind(0) == "bool"
    if draw.op_type in SUMS or (draw.op_type == "ReduceL2" and not counts):
        return draw.value(0)
    least = 1 if counts or draw.op_type in ("ReduceMax", "ReduceMin") else 0
    contents: Contents | None = None
    if draw.op_type in ROOTS and (counts or draw.chance(0.5)):
        contents = between(1, 9) if counts else between(0.25, 4)
    if contents is None:
        return draw.value(0, least=least)
    return draw.draft.known(draw.tensor(0, draw.shape(least=least), contents))


@recipe("ArgMax", "ArgMin")
def extreme_index(draw: Draw) -> Call:
    value = draw.value(0, low=1, least=1) if draw.chance(0.4) else _fresh(draw)
    axis = draw.axis(value.rank) if draw.version >= 11 else draw.integer(0, value.rank - 1)
    last = draw.maybe(draw.integer(0, 1)) if draw.has_attribute("select_last_index") else None
    return call([value.name], axis=draw.maybe(axis, 0.8), keepdims=draw.maybe(draw.integer(0, 1)), select_last_index=last)


def _fresh(draw: Draw) -> Known:
    """A fresh operand without NaN, which no order holds for."""
    return draw.draft.known(draw.tensor(0, draw.shape(1, 4, least=1), numbers))


@recipe("TopK")
def top_k(draw: Draw) -> Call:
    """More than one result is sorted: else their order is open."""
    value = draw.value(0, low=1, least=1) if draw.chance(0.3) else _fresh(draw)
    assert value.shape is not None
    axis = draw.axis(value.rank) if draw.version >= 11 else draw.integer(-1, value.rank - 1)
    k = draw.integer(0 if draw.chance(0.1) else 1, value.shape[axis])
    if draw.has_attribute("k"):
        return call([value.name], 2, k=max(k, 1), axis=axis)
    attributes: dict[str, Any] = {"axis": axis if axis != value.rank - 1 or draw.chance(0.7) else None}
    if draw.has_attribute("largest"):
        attributes |= {"largest": draw.maybe(draw.integer(0, 1)), "sorted": draw.maybe(0 if k <= 1 and draw.chance(0.5) else 1)}
    return call([value.name, draw.ints(k)], 2, **attributes)


@recipe("CumSum", "CumProd")
def cumulative(draw: Draw) -> Call:
    value = draw.value(0, low=1)
    axis = draw.scalar(draw.axis(value.rank), draw.kind(1), draw.chance(0.8))
    return call([value.name, axis], exclusive=draw.maybe(draw.integer(0, 1)), reverse=draw.maybe(draw.integer(0, 1)))


@recipe("Softmax", "LogSoftmax", "Hardmax")
def along_axis(draw: Draw) -> Call:
    """The default axis is 1 until version 13, then -1. Negative ones came with version 11."""
    value = draw.value(0, low=1, least=1 if draw.op_type == "Hardmax" else 0)
    axis = draw.axis(value.rank) if draw.version >= 11 else draw.integer(0, value.rank - 1)
    optional = draw.version >= 13 or value.rank > 1
    return call([value.name], axis=draw.maybe(axis, 0.8) if optional else axis)
