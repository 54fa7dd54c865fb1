"""Softmax, LogSoftmax, Hardmax: rows of the axis, or before opset 13 of everything from the axis on."""

from collections.abc import Callable
from functools import partial

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, REDUCE, Ptr, Static, exp, fmax, like, log, native, shift, span
from ort_lite.shapes import product, same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.access import fetch, put
from ort_lite_cpu.kernels.halves import softmax_in_place
from ort_lite_cpu.kernels.softmax import SHORT, softmax_row, softmax_rows, vectors_for
from ort_lite_cpu.lowering.attributes import axis_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.types import HALVES

INFINITY = float("inf")


@native
@extents(x="rows * n", y="rows * n")
def softmax(
    x: Ptr,
    y: Ptr,
    rows: int,
    n: int,
    logarithm: Static,
    lanes: Static,
    chains: Static,
    fused: Static,
    part: int,
    parts: int,
) -> int:
    """y[r, :] = exp(x[r, :] - top) / sum, or its logarithm; y may be x."""
    first, last = rows * part // parts, rows * (part + 1) // parts  # as `span`
    if lanes > 0 and n <= SHORT and last - first > 2:
        softmax_rows(x, y, first, last, n, logarithm, lanes, chains, fused)
    else:
        for row in range(first, last):
            if lanes > 0:
                softmax_row(shift(x, row * n), shift(y, row * n), n, logarithm, lanes, chains, fused)
            else:
                _softmax_row(x, y, row * n, n, logarithm)
    return OK


@native(fastmath=REDUCE)
def _softmax_row(x: Ptr, y: Ptr, p: int, n: int, logarithm: Static) -> None:
    """y[p:] = the softmax of x[p:] (n,), or its logarithm, by the C library's exponential."""
    top = like(x, -INFINITY)
    for i in range(n):
        top = fmax(top, x[p + i])
    total = like(x, 0)
    if logarithm:
        for i in range(n):
            total += exp(x[p + i] - top)
        offset = top + log(total)
        for i in range(n):
            put(y, p + i, fetch(x, p + i) - offset)
    else:
        for i in range(n):
            e = exp(fetch(x, p + i) - top)
            put(y, p + i, e)
            total += e
        factor = like(x, 1) / total
        for i in range(n):
            y[p + i] = y[p + i] * factor


@native
@extents(x="rows * n", y="rows * n")
def hardmax(x: Ptr, y: Ptr, rows: int, n: int, part: int, parts: int) -> int:
    """y[r, :] = 1 at the first largest element of x[r, :], else 0. NaN counts as the largest, as in ArgMax."""
    for row in span(rows, part, parts):
        p = row * n
        best = 0
        for i in range(1, n):
            v, top = x[p + i], x[p + best]
            if v > top or (v != v and top == top):
                best = i
        for i in range(n):
            y[p + i] = like(x, 0)
        if n > 0:
            y[p + best] = like(x, 1)
    return OK


@native
@extents(x="rows * n", y="rows * n")
def softmax_half(x: Ptr, y: Ptr, rows: int, n: int, half: Static, part: int, parts: int) -> int:
    """Compute softmax of f32 that hold values of the 16-bit type `half`, rounded to it at every step."""
    for row in span(rows, part, parts):
        own = shift(y, row * n)
        for i in range(n):
            own[i] = x[row * n + i]
        softmax_in_place(own, 0, n, half)
    return OK


@operator("Softmax", types=REAL, stepwise=frozenset(HALVES))
def lower_softmax(op: NodeLowering) -> None:
    """Emit Softmax. 16-bit types that come here are rounded wherever the operator's function rounds. Spec: ONNX Softmax-13."""
    half = op.raw(0).dtype
    if half not in HALVES:
        _own_rows(op, op.input(0), op.output(0), partial(emit_softmax, op))
        return

    def emit(x: Tensor, y: Tensor, rows: Dim, n: Dim) -> None:
        op.emit(softmax_half, [x, y], rows=rows, n=n, half=half, work=x.size * 4, inplace=(1, 0))

    x = op.cast(op.input(0), "float32")
    y = op.temporary("float32", x.shape)
    _own_rows(op, x, y, emit)
    op.set(0, op.cast(y, half))


@operator("LogSoftmax", types=REAL)
def lower_log_softmax(op: NodeLowering) -> None:
    """Emit LogSoftmax."""
    _own_rows(op, op.input(0), op.output(0), partial(emit_softmax, op, logarithm=True))


@operator("Hardmax", types=REAL)
def lower_hardmax(op: NodeLowering) -> None:
    """Emit Hardmax."""

    def emit(x: Tensor, y: Tensor, rows: Dim, n: Dim) -> None:
        op.emit(hardmax, [x, y], rows=rows, n=n, work=x.size)

    _own_rows(op, op.input(0), op.output(0), emit)


ROW, ELEMENT, LOGARITHM = 14.0, 0.27, 0.35
"""The nanoseconds of a row, and of an element, also where the result is the logarithm."""


def emit_softmax(op: NodeLowering, x: Tensor, y: Tensor, rows: Dim, n: Dim, logarithm: bool = False) -> None:
    """y = softmax of each row of x (rows, n), or its logarithm."""
    statics = vectors_for(x.native, op.target)
    work = linear_work(rows, ROW) + linear_work(x.size, LOGARITHM if logarithm else ELEMENT)
    op.emit(softmax, [x, y], rows=rows, n=n, logarithm=logarithm, **statics, work=work, inplace=(1, 0))


Emit = Callable[[Tensor, Tensor, Dim, Dim], None]


def _own_rows(op: NodeLowering, x: Tensor, y: Tensor, emit: Emit) -> None:
    by_rows(op, x, y, op.attr("axis", 1 if op.version < 13 else -1), op.version < 13, emit)


def by_rows(op: NodeLowering, x: Tensor, y: Tensor, axis: int, flat: bool, emit: Emit) -> None:
    """Call emit(x, y, rows, n) with matrices whose rows are normalised; flat: rows are all that lies from the axis on."""
    rank = len(x.shape)
    axis = axis_of(op, axis, max(rank, 1))
    if flat:
        emit(x, y, product(x.shape[:axis]), product(x.shape[axis:]))
        return
    inner = product(x.shape[axis + 1 :])
    n = x.shape[axis] if rank else 1
    if same(inner, 1):
        emit(x, y, product(x.shape[:axis]), n)
        return
    shape = (product(x.shape[:axis]), n, inner)
    moved, result = (op.temporary(x.dtype, (shape[0], inner, n)) for _ in range(2))
    emit_permute(op, x, moved, shape, (0, 2, 1))
    emit(moved, result, shape[0] * inner, n)
    emit_permute(op, result, y, result.shape, (0, 2, 1))
