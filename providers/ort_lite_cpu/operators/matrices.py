"""Operands of matrix products: tensors as matrices with any strides, and the batches of a product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite.shapes import product, same
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.gemm import Batches
from ort_lite_cpu.lowering.broadcast import broadcast_step, joint_dim, require_broadcast
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor, storage_order, widened_from


class MatrixOperand(Record):
    """A tensor as matrices (..., rows, columns) with any `strides`, in elements."""

    tensor: Tensor
    shape: Shape
    strides: tuple[Dim, ...]
    constant: Array | None = None
    narrow: MatrixOperand | None = None
    """The bfloat16 of which a Cast makes it, perhaps not in memory yet."""

    def rearrange(self, order: Sequence[int]) -> MatrixOperand:
        """Return the same memory with its axes in another order."""
        array = None if self.constant is None else self.constant.transpose(order)
        narrow = None if self.narrow is None else self.narrow.rearrange(order)
        return MatrixOperand(
            self.tensor, tuple(self.shape[k] for k in order), tuple(self.strides[k] for k in order), array, narrow
        )

    def store(self, op: NodeLowering) -> MatrixOperand:
        """Return the operand in memory."""
        return MatrixOperand(op.builder.materialize(self.tensor), self.shape, self.strides, self.constant)

    @property
    def is_one_matrix(self) -> bool:
        """Return True if there is one matrix, so that its batch dimensions are 1."""
        return all(same(dim, 1) for dim in self.shape[:-2])

    @property
    def is_row_major(self) -> bool:
        """Return True if the elements of a row are adjacent."""
        return same(self.strides[-1], 1)

    @property
    def is_column_major(self) -> bool:
        """Return True if the elements of a column are adjacent."""
        return same(self.strides[-2], 1)

    @property
    def is_read_by_columns(self) -> bool:
        """Return True if kernels read it by columns: if those alone are adjacent, or if there is one."""
        return self.is_column_major and (not self.is_row_major or same(self.shape[-1], 1))

    @property
    def is_contiguous(self) -> bool:
        """Return True if the elements lie in the order of the axes, without gaps."""
        wanted = contiguous(self.shape)
        return all(same(dim, 1) or same(a, b) for dim, a, b in zip(self.shape, self.strides, wanted, strict=True))

    @property
    def in_memory(self) -> MatrixOperand:
        """The operand as kernels read it: as it is if rows or columns are adjacent, else as `compact` copies it."""
        if self.is_row_major or self.is_column_major:
            return self
        return MatrixOperand(self.tensor, self.shape, tuple(contiguous(self.shape)), self.constant)


def operand_of(op: NodeLowering, index: int) -> MatrixOperand:
    """Return input `index` in its storage order; a vector is a row on the left, a column on the right.

    It is in memory, unless a Cast makes it of bfloat16 and the target multiplies these: see `MatrixOperand.store`.
    """
    tensor, source = op.raw(index), narrow_source(op, index)
    if source is None and (tensor.pending is not None or tensor.buffer is None):
        tensor = op.input(index)
    return _matrix_of(tensor, index, op.constant(index), None if source is None else _matrix_of(source, index))


def narrow_source(op: NodeLowering, index: int) -> Tensor | None:
    """Return the bfloat16 of which input `index` is made by a Cast, if the target multiplies bfloat16, else None.

    Others may have had the result of the Cast computed already.
    """
    value, x = op.node.inputs[index], op.raw(index)
    if value is None or not op.target.has_bfloat16_products or x.dtype != "float32":
        return None
    found, node = widened_from(x), value.producer
    if found is not None or node is None or node.op_type != "Cast" or node.domain:
        return found
    tensor = None if node.inputs[0] is None else op.values.tensors.get(node.inputs[0])
    return tensor if tensor is not None and tensor.dtype == "bfloat16" else None


def _matrix_of(tensor: Tensor, index: int, array: Array | None = None, narrow: MatrixOperand | None = None) -> MatrixOperand:
    order = tensor.perm if tensor.pending is None else storage_order(tensor)
    order = order or tuple(range(len(tensor.shape)))
    steps = contiguous(tuple(tensor.shape[axis] for axis in order))
    strides = tuple(steps[order.index(axis)] for axis in range(len(order)))
    if len(order) > 1:
        return MatrixOperand(tensor, tensor.shape, strides, array, narrow)
    if index == 0:
        return MatrixOperand(tensor, (1, *tensor.shape), (0, 1), None, narrow)
    return MatrixOperand(tensor, (*tensor.shape, 1), (1, 1), None if array is None else array[:, None], narrow)


def turn(x: MatrixOperand, transpose: int, batch_last: int = 0) -> MatrixOperand:
    """Return x with its last two axes swapped; with `batch_last`, its first axis, that of the rows, is moved there before."""
    rank = len(x.shape)
    order = [*range(1, rank - 1), 0, rank - 1] if batch_last else list(range(rank))
    return x.rearrange([*order[:-2], order[-1], order[-2]] if transpose else order)


def compact(op: NodeLowering, x: MatrixOperand) -> MatrixOperand:
    """Return x, or a copy of it, with its elements in the order of its axes."""
    wanted = tuple(contiguous(x.shape))
    if x.is_contiguous:
        return MatrixOperand(x.tensor, x.shape, wanted)
    made = op.temporary(x.tensor.dtype, x.shape)
    emit_strided_copy(op, x.tensor, made, x.shape, x.strides, wanted)
    return MatrixOperand(made, x.shape, wanted)


def merge_batches(a: MatrixOperand, b: MatrixOperand) -> tuple[MatrixOperand, MatrixOperand]:
    """Return both as they are, or, if b is one matrix, a with as many batch dimensions as possible merged into its rows, and b."""
    if not b.is_one_matrix:
        return a, b
    shape, strides = list(a.shape), list(a.strides)
    while len(shape) > 2 and (same(shape[-3], 1) or same(strides[-3], strides[-2] * shape[-2])):
        shape[-3:-1] = [shape[-3] * shape[-2]]
        strides[-3:-1] = [strides[-2]]
    return MatrixOperand(a.tensor, tuple(shape), tuple(strides)), MatrixOperand(b.tensor, b.shape[-2:], b.strides[-2:])


def batch_loops(op: NodeLowering, a: MatrixOperand, b: MatrixOperand) -> tuple[MatrixOperand, MatrixOperand, Dim, Batches]:
    """Return (a, b, number of products, batches); the step of an operand that is broadcast along a batch dimension is 0."""
    rank = max(len(a.shape), len(b.shape)) - 2
    shapes = [(*(1,) * (rank + 2 - len(x.shape)), *x.shape[:-2]) for x in (a, b)]
    wanted = tuple(joint_dim(x, y) for x, y in zip(*shapes, strict=True))
    steps = []
    for x, shape in zip((a, b), shapes, strict=True):
        require_broadcast(op, shape, wanted)
        own = (*(0,) * (rank + 2 - len(x.shape)), *x.strides[:-2])
        steps.append([broadcast_step(dim, full, step) for dim, full, step in zip(shape, wanted, own, strict=True)])
    loops: list[tuple[Dim, Dim, Dim]] = []
    for dim, left, right in zip(wanted, *steps, strict=True):
        if same(dim, 1):
            continue
        if loops and same(loops[-1][1], left * dim) and same(loops[-1][2], right * dim):
            loops[-1] = (loops[-1][0] * dim, left, right)
        else:
            loops.append((dim, left, right))
    if len(loops) > 3:  # broadcasts that change sides more often than the kernels have loops
        return batch_loops(op, _spread(op, a, wanted, steps[0]), _spread(op, b, wanted, steps[1]))
    loops = [(1, 0, 0)] * (3 - len(loops)) + loops
    return a, b, product(wanted), batches(*[number for column in zip(*loops, strict=True) for number in column])


def _spread(op: NodeLowering, x: MatrixOperand, batch: Shape, steps: Sequence[Dim]) -> MatrixOperand:
    """Return a copy of x, written out to all batch dimensions."""
    shape = (*batch, *x.shape[-2:])
    return compact(op, MatrixOperand(x.tensor, shape, (*steps, *x.strides[-2:])))


def note_restorable(op: NodeLowering, source: Array, plain: Array, restore: Callable[[], Array]) -> None:
    """Note that a constant matrix, as it is or turned, can be restored. `plain`: (k, n), of its memory, which `restore` recreates."""
    place = plain.__array_interface__["data"]
    for turned in (False, True):
        found = plain.T if turned else plain
        if found.__array_interface__["data"] == place and (found.shape, found.strides) == (source.shape, source.strides):
            op.restorable(source, partial(_restore_matrix, restore, turned))


def _restore_matrix(restore: Callable[[], Array], turned: bool) -> Array:
    plain = restore()
    return np.ascontiguousarray(plain.T if turned else plain)


def batches(*sizes: Dim) -> Batches:
    """Return `Batches` of sizes that may be symbolic."""
    given: Any = sizes
    return Batches(*given)
