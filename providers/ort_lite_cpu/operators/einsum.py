"""Einsum: the equation is read while lowering, and becomes copies with strides, sums and batched matrix products, pair by pair."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, REDUCE, Ptr, like, native, span, wadd
from ort_lite.record import Record
from ort_lite.shapes import product, same
from ort_lite.shapes.broadcast import merge
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import gemm as kernels
from ort_lite_cpu.lowering.broadcast import broadcast_step, broadcasts
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Expression, Tensor
from ort_lite_cpu.operators.matmul import INTEGERS, emit_dynamic_gemm, emit_gemm
from ort_lite_cpu.operators.matrices import batches
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import REAL, operator


class Term(Record):
    """A tensor in memory and its stride along each label: the sum where a letter is repeated, 0 where it is broadcast."""

    tensor: Tensor
    strides: dict[str, Dim]


WIDER = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
"""The type in which sums of a narrow integer type are computed."""


@operator("Einsum", since=12, types=REAL | INTEGERS | WIDER.keys())
def einsum(op: NodeLowering) -> None:
    """Emit the equation. Operands are joined from left to right; labels that only one of them has are summed first.

    Integers wrap. Spec: ONNX Einsum-12.
    """
    left, right = _labels(op)
    sizes = _sizes(op, left)
    dtype = op.raw(0).dtype
    inputs = [op.cast(op.input(k), WIDER.get(dtype, dtype)) for k in range(len(left))]
    terms = [_term(op, x, labels, sizes) for x, labels in zip(inputs, left, strict=True)]
    contraction = _Contraction(op, sizes, right)
    total = terms.pop(0)
    while terms:
        other = terms.pop(0)
        wanted = {*right, *(label for term in terms for label in term.strides)}
        total = contraction.join(total, other, wanted)
    total = contraction.sum_out(total, right)
    op.alias(op.cast(contraction.arrange(total, right), dtype))


def _labels(op: NodeLowering) -> tuple[list[list[str]], list[str]]:
    """Return the labels of each operand's axes and of the result's. Axes of an ellipsis are numbered from its end."""
    left, arrow, right = op.attr("equation").replace(" ", "").partition("->")
    terms = [_split(term, len(op.raw(k).shape)) for k, term in enumerate(left.split(","))]
    spread = max(sum(len(label) > 1 for label in term) for term in terms)
    if arrow:
        return terms, _split(right, len(right.replace("...", "")) + (spread if "..." in right else 0))
    letters = left.replace("...", "").replace(",", "")
    return terms, [*_split("...", spread), *sorted(letter for letter in set(letters) if letters.count(letter) == 1)]


def _split(term: str, rank: int) -> list[str]:
    before, dots, after = term.partition("...")
    count = rank - len(before) - len(after) if dots else 0
    return [*before, *(f"...{k}" for k in reversed(range(count))), *after]


def _sizes(op: NodeLowering, terms: Sequence[Sequence[str]]) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for k, labels in enumerate(terms):
        for label, dim in zip(labels, op.raw(k).shape, strict=True):
            sizes[label] = merge(sizes.get(label, 1), dim)
    return sizes


def _term(op: NodeLowering, x: Tensor, labels: Sequence[str], sizes: dict[str, Dim]) -> Term:
    strides: dict[str, Dim] = {}
    for label, dim, stride in zip(labels, x.shape, contiguous(x.shape), strict=True):
        if not same(dim, sizes[label]):
            fits = broadcasts(dim, sizes[label])
            op.require(fits, f"sizes of {label!r} differ: {{0}} against {{1}}", dim, sizes[label])
            stride = broadcast_step(dim, sizes[label], stride)
        strides[label] = strides.get(label, 0) + stride
    return Term(x, strides)


@native(fastmath=REDUCE)
@extents(x="rows * n", y="rows")
def row_sums(x: Ptr, y: Ptr, rows: int, n: int, part: int, parts: int) -> int:
    """y (rows,) = the sums of the rows of x (rows, n); integers wrap."""
    for row in span(rows, part, parts):
        total = like(x, 0)
        for i in range(n):
            total = wadd(total, x[row * n + i])
        y[row] = total
    return OK


class _Contraction:
    """The sizes of one equation, and the order of its result."""

    def __init__(self, op: NodeLowering, sizes: dict[str, Dim], result: Sequence[str]) -> None:
        self.op, self.sizes, self.result = op, sizes, list(result)

    def dims(self, labels: Sequence[str]) -> tuple[Dim, ...]:
        """Return the dimensions of the labels."""
        return tuple(self.sizes[label] for label in labels)

    def size(self, labels: Sequence[str]) -> Dim:
        """Return the product of the dimensions of the labels."""
        return product(self.dims(labels))

    def order(self, labels: Collection[str]) -> list[str]:
        """Return the labels in the result's order, followed by those that are not in the result."""
        return sorted(labels, key=lambda label: self.result.index(label) if label in self.result else len(self.result))

    def lies(self, term: Term, labels: Sequence[str]) -> bool:
        """Return True if the term is already contiguous in this order."""
        steps = contiguous(self.dims(labels))
        return all(
            same(term.strides[label], step) or same(self.sizes[label], 1) for label, step in zip(labels, steps, strict=True)
        )

    def arrange(self, term: Term, labels: Sequence[str]) -> Tensor:
        """Return the term in memory, with all its axes in the order of `labels`."""
        dims = self.dims(labels)
        if self.lies(term, labels) and same(term.tensor.size, product(dims)):
            return Tensor(term.tensor.dtype, dims, term.tensor.buffer)
        made = self.op.temporary(term.tensor.dtype, dims)
        strides = [term.strides[label] for label in labels]
        emit_strided_copy(self.op, term.tensor, made, dims, strides, contiguous(dims))
        return made

    def term(self, tensor: Tensor, labels: Sequence[str]) -> Term:
        """Return a contiguous tensor with these labels as a term."""
        return Term(tensor, dict(zip(labels, contiguous(self.dims(labels)), strict=True)))

    def sum_out(self, term: Term, wanted: Collection[str]) -> Term:
        """Return the term summed over its labels that are not in `wanted`."""
        kept = self.order([label for label in term.strides if label in wanted])
        gone = [label for label in term.strides if label not in wanted]
        if not gone:
            return term
        made = self.op.temporary(term.tensor.dtype, self.dims(kept))
        x = self.arrange(term, [*kept, *gone])
        self.op.emit(row_sums, [x, made], rows=self.size(kept), n=self.size(gone), work=x.size // 4)
        return self.term(made, kept)

    def join(self, a: Term, b: Term, wanted: Collection[str]) -> Term:
        """Return the product, summed over labels that both have and that are not in `wanted`."""
        a = self.sum_out(a, {*wanted, *b.strides})
        b = self.sum_out(b, {*wanted, *a.strides})
        shared = [label for label in a.strides if label in b.strides]
        batch, inner = self.order([k for k in shared if k in wanted]), [k for k in shared if k not in wanted]
        rows = self.order([label for label in a.strides if label not in b.strides])
        columns = self.order([label for label in b.strides if label not in a.strides])
        if not inner:
            return self._outer(a, b, batch, rows, columns)
        x, dtype = self.arrange(a, [*batch, *rows, *inner]), a.tensor.dtype
        transposed = dtype in REAL and self.lies(b, [*batch, *columns, *inner])
        y = self.op.temporary(dtype, self.dims([*batch, *rows, *columns]))
        m, n, k, count = (self.size(labels) for labels in (rows, columns, inner, batch))
        spec = Product(m, n, k, transposed=transposed)
        order = [*batch, *columns, *inner] if transposed else [*batch, *inner, *columns]
        constant = None if batch else self._matrix(b, order, n if transposed else k)
        if dtype not in REAL:
            loops, work = batches(1, 1, count, 0, 0, m * k, 0, 0, k * n), spec.work * count * 8
            self.op.emit(kernels.integer_matmul, [x, self.arrange(b, order), y], m=m, n=n, k=k, g=loops, work=work)
        elif constant is not None:
            emit_gemm(self.op, spec, x, constant, source=constant, y=y)
        else:
            loops = batches(1, 1, count, 0, 0, m * k, 0, 0, n * k)
            emit_dynamic_gemm(self.op, spec, x, self.arrange(b, order), y, loops, count)
        return self.term(y, [*batch, *rows, *columns])

    def _matrix(self, term: Term, labels: Sequence[str], rows: Dim) -> Array | None:
        """Return a constant right operand with its axes in this order, as a matrix of `rows` rows, or None."""
        array = term.tensor.constant
        dims = [dim for dim in self.dims(labels) if isinstance(dim, int)]
        steps = [step for step in (term.strides[label] for label in labels) if isinstance(step, int)]
        if array is None or len(dims) < len(labels) or len(steps) < len(labels) or 0 in dims:
            return None
        view = np.lib.stride_tricks.as_strided(array, dims, [step * array.itemsize for step in steps])
        assert isinstance(rows, int)
        return view.reshape(rows, -1)

    def _outer(self, a: Term, b: Term, batch: Sequence[str], rows: Sequence[str], columns: Sequence[str]) -> Term:
        """Return the products of all pairs: elementwise, by broadcasting."""
        shared, own, other = self.dims(batch), self.dims(rows), self.dims(columns)
        x = self.op.view(self.arrange(a, [*batch, *rows]), (*shared, *own, *(1,) * len(other)))
        y = self.op.view(self.arrange(b, [*batch, *columns]), (*shared, *(1,) * len(own), *other))
        both = Tensor(x.dtype, (*shared, *own, *other), pending=Expression("wmul({0}, {1})", (x, y)))
        return self.term(self.op.store(both), [*batch, *rows, *columns])
