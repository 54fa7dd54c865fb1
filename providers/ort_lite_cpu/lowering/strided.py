"""Copies with strides: changes of storage order, slices, broadcasts. Every operator that only moves data comes down to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import itemsize
from ort_lite.native.extents import walk
from ort_lite.shapes import product, same
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import BYTE, linear_work, work_of_copy
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.kernels.primitives import LoopCounts, StridedView
from ort_lite_cpu.lowering.tensor import Tensor, bits

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.emitter import Emitter


RUN, MOVE = 4.0, 0.3
"""The nanoseconds of a run of neighbouring elements, besides its bytes, and of an element without neighbours."""


def emit_permute(op: Emitter, x: Tensor, y: Tensor, shape: Shape, order: Sequence[int]) -> None:
    """Emit y = x (of `shape`, contiguous) with its axes in `order`."""
    steps = contiguous(shape)
    dims = tuple(shape[axis] for axis in order)
    emit_strided_copy(op, x, y, dims, [steps[axis] for axis in order], contiguous(dims))


def contiguous(shape: Shape) -> list[Dim]:
    """Return the strides of a contiguous tensor, in elements."""
    strides: list[Dim] = []
    stride: Dim = 1
    for dim in reversed(shape):
        strides.append(stride)
        stride = stride * dim
    return strides[::-1]


def emit_strided_copy(
    op: Emitter,
    x: Tensor,
    y: Tensor,
    dims: Shape,
    x_strides: Sequence[Dim],
    y_strides: Sequence[Dim],
    x_at: Dim = 0,
    y_at: Dim = 0,
) -> None:
    """Emit y[y_at + i . y_strides] = x[x_at + i . x_strides] for all i in `dims`, any element type of 1, 2, 4 or 8 bytes.

    Dimensions of 1 vanish and neighbours are joined first, so that most calls become one copy or one transposition.
    """
    loops = _merge_loops(dims, x_strides, y_strides)
    size = product(dims)
    operands = [bits(x), bits(y)]
    if _is_swap(loops) and same(x_at, 0) and same(y_at, 0):
        _emit_swap(op, operands, loops, size)
        return
    if len(loops) > 6:
        numbers = tuple([number for column in zip(*loops, strict=True) for number in column])
        table = op.store(Tensor("int64", (len(numbers),), contents=numbers))
        touched = {
            "x": walk(x_at, *(k for n, s, _ in loops for k in (n, s))),
            "y": walk(y_at, *(k for n, _, t in loops for k in (n, t))),
        }
        operands.append(table)
        op.emit(
            primitives.copy_by_table,
            operands,
            at_x=x_at,
            at_y=y_at,
            rank=len(loops),
            work=linear_work(size, 2),
            touched=touched,
        )
        return
    loops = [(1, 0, 0)] * (6 - len(loops)) + loops
    if not same(loops[-1][0], 1) and same(loops[3][0], 1):
        loops = [*loops[1:4], *loops[4:5], (1, 0, 0), loops[5]]  # threads share rows; n4 only if there are few
    dense = same(loops[-1][1], 1) and same(loops[-1][2], 1)
    counts, x_steps, y_steps = zip(*loops, strict=True)
    sizes: Any = counts, (x_at, *x_steps), (y_at, *y_steps)
    n, source, target = LoopCounts(*sizes[0]), StridedView(*sizes[1]), StridedView(*sizes[2])
    runs = linear_work(product([dim for dim, _, _ in loops[:-1]]), RUN)
    work = runs + (work_of_copy(y.dtype, size) if dense else linear_work(size, MOVE))
    op.emit(primitives.copy_by_strides, operands, n=n, s=source, t=target, dense=dense, work=work)


def _emit_swap(op: Emitter, operands: Sequence[Tensor], loops: Sequence[tuple[Dim, Dim, Dim]], size: Dim) -> None:
    outer: Dim = 1 if len(loops) == 2 else loops[0][0]
    columns, rows = loops[-2][0], loops[-1][0]
    for kernel, few, count in ((primitives.weave, rows, columns), (primitives.unweave, columns, rows)):
        if isinstance(few, int) and few <= 4:
            op.emit(kernel, operands, outer=outer, count=count, few=few, work=work_of_copy(operands[0].dtype, size))
            return
    one = operands[0].dtype in ("uint8", "int8", "bool")
    each = 0.12 if one else 0.12 + 2 * itemsize(operands[0].dtype) * BYTE
    op.emit(primitives.swap, operands, outer=outer, rows=rows, columns=columns, of_bytes=one, work=linear_work(size, each))


def _merge_loops(dims: Shape, x_strides: Sequence[Dim], y_strides: Sequence[Dim]) -> list[tuple[Dim, Dim, Dim]]:
    """Return (size, x stride, y stride) of as few loops as possible, outermost first."""
    loops: list[tuple[Dim, Dim, Dim]] = []
    for n, s, t in zip(dims, x_strides, y_strides, strict=True):
        if same(n, 1):
            continue
        if loops and same(loops[-1][1], s * n) and same(loops[-1][2], t * n):
            loops[-1] = (loops[-1][0] * n, s, t)
        else:
            loops.append((n, s, t))
    return loops


def _is_swap(loops: Sequence[tuple[Dim, Dim, Dim]]) -> bool:
    """Return True if the loops transpose the two innermost dimensions of contiguous tensors."""
    if len(loops) not in (2, 3):
        return False
    (n, s, t), (m, s2, t2) = loops[-2], loops[-1]
    plain = same(s, 1) and same(t, m) and same(s2, n) and same(t2, 1)
    return plain and (len(loops) == 2 or (same(loops[0][1], n * m) and same(loops[0][2], n * m)))
