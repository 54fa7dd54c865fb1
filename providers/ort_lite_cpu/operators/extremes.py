"""ArgMax and ArgMin along any axis: rows, whose elements are adjacent, or the middle axis of (outer, n, inner).

A branch on which element is the largest is mispredicted, so the kernels of floats select. `arg_extreme` branches: it is for integers,
of which compilers make selections, and for the middle of few elements.
"""

from typing import Any, Final

from ort_lite.dtypes import INTEGERS
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, cast, imax, imin, native, select, span
from ort_lite.shapes import equal, product
from ort_lite_cpu.kernels.folds import BLOCK, join
from ort_lite_cpu.lowering.attributes import axis_of
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.reduction_costs import (
    LOCATED,
    LOCATED_ROW,
    SEARCHED,
    SEARCHED_ROW,
    work_of_rows,
    work_of_wide_lines,
)
from ort_lite_cpu.operators.reductions import ReductionCase, move_last, moves, numbers_of
from ort_lite_cpu.registry import REAL, operator

COLUMNS = 256
"""The columns that `arg_middle` takes together: their extremes and positions stay in the cache of a core."""
SHORT, FEW = 5, 32
"""The longest rows that are read once, and the longest in which positions of 64 bits are faster if vectors have 64 bytes."""


@native
@extents(x="rows * n", y="rows")
def arg_rows(x: Ptr, y: Ptr, rows: int, n: int, kind: Static, last: Static, wide: Static, part: int, parts: int) -> int:
    """y[r] = index of the extreme of x[r, :]; of equal ones the first, or the last. NaN counts as extreme.

    A row is read twice, for the extreme and for where it is, unless it is SHORT. n is not 0.
    """
    for row in span(rows, part, parts):
        base = row * n
        best = x[base]
        if n <= SHORT:
            index = 0
            for k in range(1, n):
                v = x[base + k]
                better = _replaces(v, best, kind, last) != 0
                best = select(better, v, best)
                index = select(better, k, index)
            y[row] = index
            continue
        for k in range(1, n):
            best = join(best, x[base + k], kind)
        if wide and n <= FEW:
            y[row] = _locate(x, base, n, best, last, "i64")
            continue
        index = -1 if last else n
        for at in range(0, n, BLOCK):
            place = _locate(x, base + at, min(BLOCK, n - at), best, last, "i32")
            if place >= 0 and place < BLOCK:
                index = max(index, at + place) if last else min(index, at + place)
        y[row] = index
    return OK


@native
@extents(x="outer * n * inner", best="outer * inner", y="outer * inner")
def arg_middle(
    x: Ptr, best: Ptr, y: Ptr, outer: int, n: int, inner: int, kind: Static, last: Static, part: int, parts: int
) -> int:
    """y[o, i] = index of the extreme of x[o, :, i], and best[o, i] the extreme; otherwise as `arg_rows`. n is not 0."""
    blocks = (inner + COLUMNS - 1) // COLUMNS
    for job in span(outer * blocks, part, parts):
        first = (job % blocks) * COLUMNS
        end = min(first + COLUMNS, inner)
        base = (job // blocks) * n * inner
        out = (job // blocks) * inner
        for i in range(first, end):
            best[out + i] = x[base + i]
            y[out + i] = 0
        for k in range(1, n):
            row = base + k * inner
            for i in range(first, end):
                v, old = x[row + i], best[out + i]
                better = _replaces(v, old, kind, last) != 0
                best[out + i] = select(better, v, old)
                y[out + i] = select(better, k, y[out + i])
    return OK


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


def _locate(x: Ptr, base: int, n: int, best: Any, last: Static, width: Static) -> int:
    """Return the first position, or the last, of `best` among n elements, at most BLOCK; BLOCK, or -1, if it is elsewhere.

    width: the type of positions; all vectors compare those of 32 bits.
    """
    none = cast(-1 if last else BLOCK, width)
    index = none
    for k in range(n):
        v = x[base + k]
        found = select(v == best, 1, 0) | (select(v == v, 0, 1) & select(best == best, 0, 1))
        at = select(found != 0, cast(k, width), none)
        index = imax(index, at) if last else imin(index, at)
    position: int = cast(index, "i64")
    return position


def _replaces(v: Any, old: Any, kind: Static, last: Static) -> Any:
    """Return 1 if `v` replaces the extreme of the elements before it, else 0. Comparisons with NaN are false."""
    largest = kind == "max" or kind == "max_integer"
    if last:
        worse = v < old if largest else v > old
        return (select(worse, 0, 1) & select(old == old, 1, 0)) | select(v == v, 0, 1)
    worse = v <= old if largest else v >= old
    return select(worse, 0, 1) & select(old == old, 1, 0)


def _reject_rows(case: ReductionCase) -> str:
    return "" if case.x.dtype in REAL else "its elements are integers"


def _reject_extreme(case: ReductionCase) -> str:
    return "its rows of floats are compared in vectors" if case.x.dtype in REAL and not case.is_moved else ""


def _emit_extreme(case: ReductionCase) -> None:
    outer, n, inner = case.middle
    sizes: dict[str, Any] = {"outer": outer, "n": n, "inner": inner, "largest": case.kind == "max", "last": _last(case)}
    case.op.emit(arg_extreme, [case.x, case.y], **sizes, work=case.x.size)


def _emit_rows(case: ReductionCase) -> None:
    rows, n = case.rows
    wide = case.op.target.vector_bytes == 64
    case.op.emit(
        arg_rows, [move_last(case), case.y], rows=rows, n=n, kind=case.kind, last=_last(case), wide=wide, work=case.x.size
    )


def _emit_middle(case: ReductionCase) -> None:
    op, x, y, (outer, n, inner) = case.op, case.x, case.y, case.middle
    best = op.temporary(x.dtype, (outer * inner,))
    sizes: dict[str, Any] = {"outer": outer, "n": n, "inner": inner, "kind": case.typed_kind, "last": _last(case)}
    op.emit(arg_middle, [x, best, y], **sizes, work=x.size // 2)


def _last(case: ReductionCase) -> bool:
    return bool(case.op.attr("select_last_index", 0))


CANDIDATES: Final = (
    Candidate[ReductionCase](
        "arg_rows", _reject_rows, lambda case: work_of_rows(case.numbers, LOCATED_ROW, LOCATED), _emit_rows, moves
    ),
    Candidate[ReductionCase](
        "arg_extreme", _reject_extreme, lambda case: work_of_rows(case.numbers, SEARCHED_ROW, SEARCHED), _emit_extreme
    ),
    Candidate[ReductionCase](
        "arg_middle", lambda case: "", lambda case: work_of_wide_lines(case.numbers, COLUMNS), _emit_middle
    ),
)
"""The ways to find an extreme: in rows, with the axis moved behind the others, or in place."""


@operator("ArgMax", "ArgMin", types=REAL | INTEGERS)
def arg(op: NodeLowering) -> None:
    """Emit ArgMax or ArgMin. Spec: ONNX ArgMax-13, ArgMin-13."""
    x, y = op.input(0), op.output(0)
    axis = axis_of(op, op.attr("axis", 0), max(len(x.shape), 1))
    axes = [axis] if x.shape else []
    op.require(1 - equal(product(x.shape[axis] for axis in axes), 0), "the axis has no elements")
    case = ReductionCase(op, x, y, axes, "max" if op.node.op_type == "ArgMax" else "min", numbers_of(x, axes))
    choose(op, CANDIDATES, case).emit(case)
