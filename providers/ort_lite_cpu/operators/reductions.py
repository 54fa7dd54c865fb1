"""Reduce* over any axes, ArgMax and ArgMin, CumSum.

What is reduced is brought into one of two forms: the last axis of a matrix, or the middle one of (outer, n, inner).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import INTEGERS, DType
from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    OK,
    REDUCE,
    Ptr,
    Static,
    cast,
    exp,
    fabs,
    fmax,
    fmin,
    iabs,
    imax,
    imin,
    like,
    log,
    native,
    span,
    sqrt,
    wadd,
    wmul,
)
from ort_lite.shapes import equal, product, same
from ort_lite_cpu.lowering.attributes import axis_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import REAL, operator

INFINITY = float("inf")
BLOCK = 1024


def start(v: Any, lowest: int, kind: Static) -> Any:
    """Return the result over nothing, in the type of `v`; for the extremes of integers `lowest`, the end of their range."""
    if kind == "max_integer" or kind == "min_integer":
        return like(v, lowest)
    if kind == "prod":
        return like(v, 1)
    if kind == "max":
        return like(v, -INFINITY)
    if kind == "min":
        return like(v, INFINITY)
    return like(v, 0)


def term(v: Any, kind: Static) -> Any:
    """Return the contribution of one element."""
    if kind == "l1":
        return fabs(v)
    if kind == "l1_integer":
        return iabs(v)
    if kind == "l2" or kind == "square":
        return wmul(v, v)
    return v


@native(fastmath=REDUCE)
def join(a: Any, v: Any, kind: Static) -> Any:
    """Combine the accumulator with one term."""
    if kind == "prod":
        return wmul(a, v)
    if kind == "max":
        return fmax(a, v)
    if kind == "min":
        return fmin(a, v)
    if kind == "max_integer":
        return imax(a, v)
    if kind == "min_integer":
        return imin(a, v)
    return wadd(a, v)


def finish(a: Any, n: int, kind: Static) -> Any:
    """Return the result of a reduction over n elements from its accumulator."""
    if kind == "mean":
        return a / like(a, n)
    if kind == "l2":
        return sqrt(a)
    if kind == "log_sum":
        return log(a)
    return a


@native(fastmath=REDUCE)
def block_sum(x: Ptr, at: int, n: int, kind: Static) -> Any:
    """Return the sum of at most BLOCK elements in their own type, vectorized over the machine's lanes."""
    total = like(x, 0)
    for i in range(n):
        total += term(x[at + i], kind)
    return total


@native
@extents(x="rows * n", y="rows")
def reduce_rows(x: Ptr, y: Ptr, rows: int, n: int, kind: Static, part: int, parts: int) -> int:
    """y[r] = reduction of x[r, :]. Sums of floats add blocks of 1,024 in float64."""
    for row in span(rows, part, parts):
        base = row * n
        total = 0.0
        for at in range(0, n, BLOCK):
            total += cast(block_sum(x, base + at, min(BLOCK, n - at), kind), "f64")
        y[row] = like(y, finish(total, n, kind))
    return OK


@native
@extents(x="rows * n", y="rows")
def fold_rows(x: Ptr, y: Ptr, rows: int, n: int, lowest: int, kind: Static, part: int, parts: int) -> int:
    """Reduce rows by anything but a sum of floats: y[r] = x[r, 0] joined with x[r, 1], ..."""
    for row in span(rows, part, parts):
        base = row * n
        a = start(like(x, 0), lowest, kind)
        for i in range(n):
            a = join(a, term(x[base + i], kind), kind)
        y[row] = a
    return OK


@native
@extents(x="rows * n", y="rows")
def log_sum_exp_rows(x: Ptr, y: Ptr, rows: int, n: int, part: int, parts: int) -> int:
    """y[r] = log(sum(exp(x[r, :]))), with the largest taken out first."""
    for row in span(rows, part, parts):
        base = row * n
        top = like(x, -INFINITY)
        for i in range(n):
            top = fmax(top, x[base + i])
        shift = like(x, 0)
        if top - top == like(x, 0):
            shift = top
        total = 0.0
        for i in range(n):
            total += cast(exp(x[base + i] - shift), "f64")
        y[row] = log(like(x, total)) + shift
    return OK


@native
@extents(x="outer * n * inner", y="outer * inner")
def reduce_middle(x: Ptr, y: Ptr, outer: int, n: int, inner: int, lowest: int, kind: Static, part: int, parts: int) -> int:
    """y[o, i] = reduction of x[o, :, i]; parts share rows of y, blocks of 64 columns."""
    blocks = (inner + 63) // 64
    for job in span(outer * blocks, part, parts):
        first = (job % blocks) * 64
        last = min(first + 64, inner)
        base = (job // blocks) * n * inner
        out = (job // blocks) * inner
        for i in range(first, last):
            y[out + i] = start(y[out + i], lowest, kind)
        for k in range(n):
            row = base + k * inner
            for i in range(first, last):
                y[out + i] = join(y[out + i], term(x[row + i], kind), kind)
        for i in range(first, last):
            y[out + i] = finish(y[out + i], n, kind)
    return OK


_KINDS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
    "ReduceSumSquare": "square",
}
_SUMS = frozenset({"sum", "mean", "l1", "l2", "log_sum", "square"})


@operator(*_KINDS, types=REAL | INTEGERS | {"bool"})
def reduce(op: NodeLowering) -> None:
    """Emit a reduction. axes are an attribute before opset 18 (ReduceSum: 13), an input since; keepdims 1."""
    kind, raw, shape = _KINDS[op.node.op_type], op.raw(0), op.info().shape
    assert shape is not None
    axes = _axes(op, len(raw.shape))
    if not axes and kind in ("sum", "mean", "max", "min", "prod"):
        op.alias(op.input(0))
    elif raw.dtype not in REAL and kind in ("mean", "l2", "log_sum", "log_sum_exp"):
        y = op.temporary("float64", shape)
        _emit(op, op.cast(op.input(0), "float64"), y, axes, kind)
        op.set(0, op.cast(y, raw.dtype))
    else:
        _emit(op, op.input(0), op.output(0), axes, kind)


def _axes(op: NodeLowering, rank: int) -> list[int]:
    """Return sorted axes, counted from the front: all if none are named, unless noop_with_empty_axes is set. A scalar has none."""
    if not rank:
        return []
    named: Sequence[int] | None = op.attr("axes")
    if named is None and op.has(1):
        named = op.numbers(1)
    if not named:
        return [] if op.attr("noop_with_empty_axes", 0) else list(range(rank))
    return sorted(axis % rank for axis in named)


def _emit(op: NodeLowering, x: Tensor, y: Tensor, axes: Sequence[int], kind: str) -> None:
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    lowest = 0
    if x.dtype not in REAL:
        kind = {"max": "max_integer", "min": "min_integer", "l1": "l1_integer"}.get(kind, kind)
        lowest = _end_of_range(x.dtype, kind == "min_integer")
    order = [*kept, *axes]
    rows, n = product(x.shape[axis] for axis in kept), product(x.shape[axis] for axis in axes)
    inner = product(x.shape[axes[-1] + 1 :]) if axes else 1
    together = list(axes) == list(range(axes[0], axes[-1] + 1)) if axes else True
    if together and not same(inner, 1) and kind != "log_sum_exp":
        outer = product(x.shape[: axes[0]])
        op.emit(reduce_middle, [x, y], outer=outer, n=n, inner=inner, lowest=lowest, kind=kind, work=x.size // 2)
        return
    if order != sorted(order):
        moved = op.temporary(x.dtype, tuple(x.shape[axis] for axis in order))
        emit_permute(op, x, moved, x.shape, order)
        x = moved
    if kind == "log_sum_exp":
        op.emit(log_sum_exp_rows, [x, y], rows=rows, n=n, work=x.size * 2)
    elif kind in _SUMS and x.dtype in REAL:
        op.emit(reduce_rows, [x, y], rows=rows, n=n, kind=kind, work=x.size // 4)
    else:
        op.emit(fold_rows, [x, y], rows=rows, n=n, lowest=lowest, kind=kind, work=x.size)


def _end_of_range(dtype: DType, highest: bool) -> int:
    """Return the lowest number of an integer type, or the highest, as an int64 with its bits."""
    if dtype == "bool":
        return int(highest)
    limits = np.iinfo(dtype)
    return int(np.array(limits.max if highest else limits.min, dtype).astype(np.int64))


@native
@extents(x="outer * n * inner", y="outer * inner")
def arg_extreme(x: Ptr, y: Ptr, outer: int, n: int, inner: int, largest: Static, last: Static, part: int, parts: int) -> int:
    """y[o, i] = index of the largest (or smallest) of x[o, :, i]; of equal ones the first, or the last. NaN counts as extreme.

    n is not 0: the lowering of ArgMax.
    """
    for row in span(outer * inner, part, parts):
        base = (row // inner) * n * inner + row % inner
        best = x[base]
        index = 0
        for k in range(1, n):
            v = x[base + k * inner]
            better = v > best if largest else v < best
            if better or (last and v == best) or (v != v and (last or best == best)):
                best = v
                index = k
        y[row] = index
    return OK


@operator("ArgMax", "ArgMin", types=REAL | INTEGERS)
def arg(op: NodeLowering) -> None:
    """Emit ArgMax or ArgMin."""
    x, y = op.input(0), op.output(0)
    shape = x.shape or (1,)
    axis = axis_of(op, op.attr("axis", 0), len(shape))
    n = shape[axis]
    op.require(1 - equal(n, 0), "the axis has no elements")
    outer, inner = product(shape[:axis]), product(shape[axis + 1 :])
    largest, last = op.node.op_type == "ArgMax", bool(op.attr("select_last_index", 0))
    op.emit(arg_extreme, [x, y], outer=outer, n=n, inner=inner, largest=largest, last=last, work=x.size)


@native
@extents(x="outer * n * inner", y="outer * n * inner")
def cumulate(
    x: Ptr, y: Ptr, outer: int, n: int, inner: int, exclusive: int, reverse: int, products: Static, part: int, parts: int
) -> int:
    """y[o, k, i] = sum (or product) of x[o, :k + 1, i]; exclusive: without k itself; reverse: from the end."""
    for row in span(outer * inner, part, parts):
        base = (row // inner) * n * inner + row % inner
        total = like(x, 1) if products else like(x, 0)
        for k in range(n):
            at = base + (n - 1 - k if reverse != 0 else k) * inner
            before = total
            total = wmul(total, x[at]) if products else wadd(total, x[at])
            y[at] = before if exclusive != 0 else total
    return OK


@operator("CumSum", "CumProd", since=11, types=REAL | INTEGERS)
def cumulative(op: NodeLowering) -> None:
    """Emit a cumulative operator along one axis."""
    named, *more = op.numbers(1)
    if more:
        raise op.reject(f"{1 + len(more)} axes, expected one")
    for name in ("exclusive", "reverse"):
        if op.attr(name, 0) not in (0, 1):
            raise op.reject(f"{name} {op.attr(name)}; it should be 0 or 1")
    x, y = op.input(0), op.output(0)
    axis = axis_of(op, named, len(x.shape))
    op.emit(
        cumulate,
        [x, y],
        outer=product(x.shape[:axis]),
        n=x.shape[axis],
        inner=product(x.shape[axis + 1 :]),
        exclusive=op.attr("exclusive", 0),
        reverse=op.attr("reverse", 0),
        products=op.node.op_type == "CumProd",
        work=x.size * 2,
    )
