"""Reduce* over any axes, CumSum.

What is reduced is brought into one of two forms: the last axis of a matrix, or the middle one of (outer, n, inner).
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ort_lite.dtypes import INTEGERS, DType
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, span, wadd, wmul
from ort_lite.record import Record
from ort_lite.shapes import product, same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import nominal
from ort_lite_cpu.kernels.folds import fold_rows, log_sum_exp_rows, reduce_middle, reduce_rows
from ort_lite_cpu.lowering.attributes import axis_of
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.columns import multiply
from ort_lite_cpu.operators.reduction_costs import (
    EXPONENTIAL,
    FOLDED,
    FOLDED_ROW,
    MOVE,
    MOVED,
    ROW,
    SUMMED,
    ReductionNumbers,
    work_of_middle,
    work_of_rows,
)
from ort_lite_cpu.registry import REAL, operator

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
    elif kind == "prod" and multiply(op, raw, axes):
        pass  # emitted where the product is needed
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


class ReductionCase(Record, eq=False):
    """A reduction of `axes`, for the candidates that may compute it."""

    op: NodeLowering
    x: Tensor
    y: Tensor
    axes: Sequence[int]
    kind: str
    """The kind, without regard to the type of x."""
    numbers: ReductionNumbers

    @property
    def typed_kind(self) -> str:
        """The kind as kernels know it: those of integers have names of their own."""
        kinds = {} if self.x.dtype in REAL else {"max": "max_integer", "min": "min_integer", "l1": "l1_integer"}
        return kinds.get(self.kind, self.kind)

    @property
    def lowest(self) -> int:
        """The start of extremes of integers."""
        return 0 if self.x.dtype in REAL else _end_of_range(self.x.dtype, self.kind == "min")

    @property
    def order(self) -> list[int]:
        """The axes, those that are reduced last."""
        return [*(axis for axis in range(len(self.x.shape)) if axis not in self.axes), *self.axes]

    @property
    def is_moved(self) -> bool:
        """Return True if elements are moved before rows are reduced: axes of one element lie anywhere."""
        order = [axis for axis in self.order if not same(self.x.shape[axis], 1)]
        return order != sorted(order)

    @property
    def is_adjacent(self) -> bool:
        """Return True if no other axis lies between those that are reduced."""
        return not self.axes or list(self.axes) == list(range(self.axes[0], self.axes[-1] + 1))

    @property
    def middle(self) -> tuple[Dim, Dim, Dim]:
        """The sizes (outer, n, inner) of a reduction of adjacent axes."""
        shape, first, last = self.x.shape, *((self.axes[0], self.axes[-1] + 1) if self.axes else (0, 0))
        return product(shape[:first]), product(shape[first:last]), product(shape[last:])

    @property
    def rows(self) -> tuple[Dim, Dim]:
        """The sizes (rows, n) of a reduction whose axes come last."""
        shape, moved = self.x.shape, self.order
        kept = len(shape) - len(self.axes)
        return product(shape[axis] for axis in moved[:kept]), product(shape[axis] for axis in moved[kept:])


def _emit(op: NodeLowering, x: Tensor, y: Tensor, axes: Sequence[int], kind: str) -> None:
    case = ReductionCase(op, x, y, axes, kind, numbers_of(x, axes))
    choose(op, CANDIDATES, case).emit(case)


def numbers_of(x: Tensor, axes: Sequence[int]) -> ReductionNumbers:
    """Return the sizes of a reduction of `axes` as numbers."""
    sizes = [nominal(dim) for dim in x.shape]
    n, first, last = math.prod(sizes[axis] for axis in axes), *((axes[0], axes[-1] + 1) if axes else (0, 0))
    if len(axes) != last - first:
        return ReductionNumbers(math.prod(sizes) // max(n, 1), n, 1)
    return ReductionNumbers(math.prod(sizes[:first]), n, math.prod(sizes[last:]))


# --- Candidates
def _reject_blocks(case: ReductionCase) -> str:
    return "" if case.kind in _SUMS and case.x.dtype in REAL else "it is no sum of floats"


def _reject_fold(case: ReductionCase) -> str:
    if case.kind == "log_sum_exp":
        return "it is no reduction by one operation"
    return "a sum of floats is added in blocks" if not _reject_blocks(case) else ""


def _reject_log_sum_exp(case: ReductionCase) -> str:
    return "" if case.kind == "log_sum_exp" else "it is no ReduceLogSumExp"


def _reject_middle(case: ReductionCase) -> str:
    if case.kind == "log_sum_exp":
        return "it is no reduction by one operation"
    return "" if case.is_adjacent else "another axis lies between those that are reduced"


def moves(case: ReductionCase) -> float:
    """Return the nanoseconds in which axes that are reduced are moved behind the others."""
    return MOVE + MOVED * case.numbers.rows * case.numbers.n if case.is_moved else 0.0


def move_last(case: ReductionCase) -> Tensor:
    """Return the tensor with the axes that are reduced behind the others."""
    op, x, order = case.op, case.x, case.order
    if not case.is_moved:
        return x
    moved = op.temporary(x.dtype, tuple(x.shape[axis] for axis in order))
    emit_permute(op, x, moved, x.shape, order)
    return moved


def _emit_blocks(case: ReductionCase) -> None:
    rows, n = case.rows
    case.op.emit(reduce_rows, [move_last(case), case.y], rows=rows, n=n, kind=case.kind, work=case.x.size // 4)


def _emit_fold(case: ReductionCase) -> None:
    rows, n = case.rows
    operands = [move_last(case), case.y]
    case.op.emit(fold_rows, operands, rows=rows, n=n, lowest=case.lowest, kind=case.typed_kind, work=case.x.size)


def _emit_log_sum_exp(case: ReductionCase) -> None:
    rows, n = case.rows
    case.op.emit(log_sum_exp_rows, [move_last(case), case.y], rows=rows, n=n, work=case.x.size * 2)


def _emit_middle(case: ReductionCase) -> None:
    outer, n, inner = case.middle
    sizes: dict[str, Any] = {"outer": outer, "n": n, "inner": inner, "lowest": case.lowest, "kind": case.typed_kind}
    case.op.emit(reduce_middle, [case.x, case.y], **sizes, work=case.x.size // 2)


CANDIDATES: Final = (
    Candidate[ReductionCase](
        "reduce_rows", _reject_blocks, lambda case: work_of_rows(case.numbers, ROW, SUMMED), _emit_blocks, moves
    ),
    Candidate[ReductionCase](
        "fold_rows", _reject_fold, lambda case: work_of_rows(case.numbers, FOLDED_ROW, FOLDED), _emit_fold, moves
    ),
    Candidate[ReductionCase](
        "log_sum_exp_rows",
        _reject_log_sum_exp,
        lambda case: work_of_rows(case.numbers, FOLDED_ROW, EXPONENTIAL),
        _emit_log_sum_exp,
        moves,
    ),
    Candidate[ReductionCase](
        "reduce_middle",
        _reject_middle,
        lambda case: work_of_middle(case.numbers, case.typed_kind in ("max", "min"), case.op.costs),
        _emit_middle,
    ),
)
"""The ways to reduce: rows, whose elements are adjacent, or a middle axis."""


def _end_of_range(dtype: DType, highest: bool) -> int:
    """Return the lowest number of an integer type, or the highest, as an int64 with its bits."""
    if dtype == "bool":
        return int(highest)
    limits = np.iinfo(dtype)
    return int(np.array(limits.max if highest else limits.min, dtype).astype(np.int64))


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
