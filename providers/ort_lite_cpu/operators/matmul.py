"""MatMul, Gemm and their fused forms. Constant right operands are packed while lowering, others panel by panel at run time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite.shapes import at_least, equal, product, same
from ort_lite.shapes.dims import Shape, maximum
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import gemm as kernels
from ort_lite_cpu.kernels.gemm.activation import NONE, Activation, activation
from ort_lite_cpu.kernels.gemm.few_rows import StridedProduct
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.gemm.pack import panels, unpack
from ort_lite_cpu.lowering.broadcast import broadcast_step, joint_dim, require_broadcast
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.lowered import whole
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Expression, Tensor
from ort_lite_cpu.registry import REAL, operator

INTEGERS = frozenset({"int32", "int64", "uint32", "uint64"})
"""The integer types that MatMul takes."""
ROWS_READ = 4
"""The rows whose products last about as long as reading the matrix once: a tenth of a nanosecond an element, outside the caches."""
ONE_PRODUCT = kernels.Batches(1, 1, 1, 0, 0, 0, 0, 0, 0)
"""The batches of a single product."""


class Product(Record):
    """A matrix product: act(scale * a @ b + bias + residual), with m rows and n columns of sums over k."""

    m: Dim
    n: Dim
    k: Dim
    scale: float = 1.0
    transposed: bool = False
    """True if b holds columns: (n, k)."""
    bias: Tensor | None = None
    residual: Tensor | None = None
    activation: Activation = NONE

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes, keyed by the kernels' parameter names."""
        return {"m": self.m, "n": self.n, "k": self.k}

    @property
    def work(self) -> Dim:
        """The estimated work. Below ROWS_READ rows, reading b takes longer than multiplying."""
        return maximum(self.m, ROWS_READ) * self.n * self.k // 40


class MatrixOperand(Record):
    """A tensor as matrices (..., rows, columns) with any `strides`, in elements."""

    tensor: Tensor
    shape: Shape
    strides: tuple[Dim, ...]
    constant: Array | None = None

    def rearrange(self, order: Sequence[int]) -> MatrixOperand:
        """Return the same memory with its axes in another order."""
        array = None if self.constant is None else self.constant.transpose(order)
        return MatrixOperand(self.tensor, tuple(self.shape[k] for k in order), tuple(self.strides[k] for k in order), array)

    @property
    def is_row_major(self) -> bool:
        """Return True if the elements of a row are adjacent."""
        return same(self.strides[-1], 1)

    @property
    def is_column_major(self) -> bool:
        """Return True if the elements of a column are adjacent."""
        return same(self.strides[-2], 1)


# --- Operators
@operator("MatMul", types=REAL | INTEGERS)
def matmul(op: NodeLowering) -> None:
    """Emit a @ b. Spec: ONNX MatMul-13."""
    _batch(op, Product(0, 0, 0), _operand(op, 0), _operand(op, 1))


@operator("FusedMatMul", domain="com.microsoft", types=REAL)
def fused_matmul(op: NodeLowering) -> None:
    """Emit alpha * a @ b; either side may be transposed, its first axis moved behind the batch.

    Spec: onnxruntime FusedMatMul-1.
    """
    ranks = len(op.raw(0).shape), len(op.raw(1).shape)
    if (op.attr("transBatchA", 0) or op.attr("transBatchB", 0)) and ranks[0] != ranks[1]:
        raise op.reject(f"transBatchA or transBatchB of inputs of the ranks {ranks[0]} and {ranks[1]}")
    a = _turn(_operand(op, 0), op.attr("transA", 0), op.attr("transBatchA", 0))
    b = _turn(_operand(op, 1), op.attr("transB", 0), op.attr("transBatchB", 0))
    _batch(op, Product(0, 0, 0, float(op.attr("alpha", 1.0))), a, b)


@operator("Gemm", types=REAL | INTEGERS)
def gemm(op: NodeLowering) -> None:
    """Emit alpha * a @ b + beta * c. Spec: ONNX Gemm-13."""
    if op.raw(0).dtype in REAL:
        _gemm(op, NONE)
    else:
        _integer_gemm(op)


@operator("FusedGemm", domain="com.microsoft", types=REAL)
def fused_gemm(op: NodeLowering) -> None:
    """Emit Gemm and an activation. Spec: onnxruntime FusedGemm-1."""
    name = op.attr("activation", "")
    params = [op.attr(f"activation_{key}") for key in ("alpha", "beta", "gamma")]
    act = activation(name, [float(p) for p in params if p is not None])
    if act is None:
        raise op.reject(f"activation {name!r}")
    _gemm(op, act)


def _gemm(op: NodeLowering, act: Activation) -> None:
    a, b = _turn(_operand(op, 0), op.attr("transA", 0)), _turn(_operand(op, 1), op.attr("transB", 0))
    spec = Product(a.shape[0], b.shape[1], a.shape[1], float(op.attr("alpha", 1.0)), activation=act)
    beta = float(op.attr("beta", 1.0))
    if op.has(2) and beta != 0.0:
        spec = _with_addend(op, spec, beta)
    _batch(op, spec, a, b)


def _integer_gemm(op: NodeLowering) -> None:
    """Emit Gemm of integers. It wraps if alpha and beta are 1; otherwise it continues the product in float64, and truncates."""
    shape = op.info().shape
    assert shape is not None
    a, b = _turn(_operand(op, 0), op.attr("transA", 0)), _turn(_operand(op, 1), op.attr("transB", 0))
    total = op.temporary(a.tensor.dtype, shape)
    _batch(op, Product(0, 0, 0), a, b, total)
    alpha, beta = float(op.attr("alpha", 1.0)), float(op.attr("beta", 1.0))
    addends = [op.raw(2)] if op.has(2) and beta != 0.0 else []
    if alpha == 1.0 and (beta == 1.0 or not addends):
        define(op, "wadd({0}, {1})" if addends else "{0}", [total, *addends])
        return
    wide = [Tensor("float64", x.shape, pending=Expression('cast({0}, "f64")', (x,))) for x in (total, *addends)]
    text = "{0} * {s0} + {1} * {s1}" if addends else "{0} * {s0}"
    define(op, f'cast({text}, "{total.native}")', wide, [alpha, beta][: len(wide)])


def _with_addend(op: NodeLowering, spec: Product, beta: float) -> Product:
    """Return the product with Gemm's C: as a bias if it is one row, else as a residual, in full."""
    c = op.input(2)
    row, column = (1, 1, *c.shape)[-2:]
    require_broadcast(op, (row, column), (spec.m, spec.n))
    constant = op.constant(2)
    if same(row, 1) and same(column, spec.n):
        if beta == 1.0:
            return spec.replace(bias=c)
        if constant is not None:
            return spec.replace(bias=op.pack(constant, f"times {beta}", lambda: (constant * beta).astype(constant.dtype)))
    if beta == 1.0 and same(row, spec.m) and same(column, spec.n):
        return spec.replace(residual=c)
    full = op.temporary(c.dtype, (spec.m, spec.n))
    down, across = broadcast_step(row, spec.m, column), broadcast_step(column, spec.n, 1)
    work = spec.m * spec.n // 2
    op.emit(kernels.scale_by, [c, full], m=spec.m, n=spec.n, row=down, column=across, factor=beta, work=work)
    return spec.replace(residual=full)


# --- Kernels
def emit_matmul(op: NodeLowering, a: Tensor, b: Tensor, y: Tensor) -> None:
    """Emit y = a @ b as MatMul does, for tensors in memory."""
    left, right = (a.shape if len(a.shape) > 1 else (1, *a.shape)), (b.shape if len(b.shape) > 1 else (*b.shape, 1))
    rows, columns = (MatrixOperand(x, shape, tuple(contiguous(shape))) for x, shape in ((a, left), (b, right)))
    _batch(op, Product(0, 0, 0), rows, columns, y)


def _batch(op: NodeLowering, spec: Product, a: MatrixOperand, b: MatrixOperand, y: Tensor | None = None) -> None:
    """Emit the product of all matrices of a and b. The sizes in `spec` are replaced by those of the operands. y: default output 0."""
    if not same(a.shape[-1], b.shape[-2]):
        inner = a.shape[-1], b.shape[-2]
        op.require(equal(*inner), "the inner dimensions differ: {0} and {1}", *inner)
    spec = spec.replace(m=a.shape[-2], n=b.shape[-1], k=a.shape[-1])
    if a.tensor.dtype not in REAL:
        a, b, dims, loops = _batch_loops(op, _compact(op, a), _compact(op, b))
        operands = [a.tensor, b.tensor, y or op.output(0)]
        op.emit(kernels.integer_matmul, operands, **spec.sizes, g=loops, work=spec.work * dims * 8)
    elif b.constant is not None and b.constant.ndim == 2 and b.constant.size:
        source, rows = op.constant(1), spec.replace(m=product(a.shape[:-1]))
        assert source is not None
        y, turned = y or op.output(0), "turned" if b.strides[0] == 1 else ""
        emit_gemm(op, rows, _compact(op, a).tensor, b.constant, source=source, y=y, form=turned)
    else:
        _emit_strided_product(op, spec, a, b, y or op.output(0))


def _emit_strided_product(op: NodeLowering, spec: Product, a: MatrixOperand, b: MatrixOperand, y: Tensor) -> None:
    """Emit the product of two computed operands, read in place if rows of a, and rows or columns of b, are contiguous."""
    a = a if a.is_row_major else _compact(op, a)
    b = b if b.is_row_major or b.is_column_major else _compact(op, b)
    if all(same(dim, 1) for dim in b.shape[:-2]):
        a, b = _merge_batches(a), MatrixOperand(b.tensor, b.shape[-2:], b.strides[-2:])
    a, b, dims, loops = _batch_loops(op, a, b)
    spec = spec.replace(m=a.shape[-2], transposed=not b.is_row_major)
    steps = a.strides[-2], b.strides[-1] if spec.transposed else b.strides[-2]
    emit_dynamic_gemm(op, spec, a.tensor, b.tensor, y, loops, dims, steps)


def emit_dynamic_gemm(
    op: NodeLowering,
    spec: Product,
    a: Tensor,
    b: Tensor,
    y: Tensor,
    loops: kernels.Batches = ONE_PRODUCT,
    batch: Dim = 1,
    steps: tuple[Dim, Dim] | None = None,
) -> None:
    """Emit y = a @ b for a b that is computed; its panels are packed as they are used.

    steps: elements from one row to the next of a, and of b as it lies.
    """
    tile = tile_for(a.native, op.target)
    lda, ldb = steps or (spec.k, spec.k if spec.transposed else spec.n)
    scratch = op.temporary(a.dtype, (op.options.threads * kernels.DEPTH * tile.columns,))
    operands = [a, b, spec.bias, spec.residual, y, scratch]
    sizes: Any = (spec.m, spec.n, spec.k, lda, ldb, spec.scale)
    given: dict[str, Any] = {"g": loops, "each": StridedProduct(*sizes), "transposed": spec.transposed, "tile": tile}
    given |= spec.activation.arguments
    op.emit(kernels.matmul, operands, **given, work=spec.work * batch, result=whole(y))


def batches(*sizes: Dim) -> kernels.Batches:
    """Return `Batches` of sizes that may be symbolic."""
    given: Any = sizes
    return kernels.Batches(*given)


def emit_gemm(op: NodeLowering, spec: Product, a: Tensor, b: Array, *, source: Array, y: Tensor, form: str = "") -> None:
    """Emit y = a @ b for a constant b, (k, n) or (n, k); `source` and `form` identify what b is made of, so that it is packed once."""
    tile = tile_for(a.native, op.target)

    def make() -> Array:
        plain = b.T if spec.transposed else b
        return panels(plain if spec.scale == 1.0 else (plain * spec.scale).astype(b.dtype), tile.columns, op.kernels)

    form = f"panels {tile.columns} {spec.scale} {spec.transposed} {form}"
    w = op.pack(source, form, make)
    if spec.scale == 1.0 and w.constant is not None:
        _note_restorable(op, source, b.T if spec.transposed else b, w.constant)
    operands = [a, w, spec.bias, spec.residual, y]
    in_place = (4, 3) if at_least(kernels.depth_of(tile.vectors), spec.k) else None
    given = {**spec.sizes, **spec.activation.arguments, "tile": tile}
    op.emit(kernels.gemm, operands, **given, work=spec.work, inplace=in_place, result=whole(y))


def _note_restorable(op: NodeLowering, source: Array, plain: Array, packed: Array) -> None:
    """Note that a constant matrix, as it is or turned, can be restored from its panels. `plain`: (k, n), of the constant's memory."""
    n, place = plain.shape[1], source.__array_interface__["data"]
    for turned in (False, True):
        found = plain.T if turned else plain
        if found.__array_interface__["data"] == place and (found.shape, found.strides) == (source.shape, source.strides):
            op.restorable(source, partial(_undone, packed, n, turned))


def _undone(packed: Array, n: int, turned: bool) -> Array:
    plain = unpack(packed, n)
    return np.ascontiguousarray(plain.T if turned else plain)


# --- Operands
def _operand(op: NodeLowering, index: int) -> MatrixOperand:
    """Return input `index` in its storage order; a vector is a row on the left, a column on the right."""
    tensor = op.raw(index)
    if tensor.pending is not None or tensor.buffer is None:
        tensor = op.input(index)
    order = tensor.perm or tuple(range(len(tensor.shape)))
    steps = contiguous(tensor.storage_shape)
    strides = tuple(steps[order.index(axis)] for axis in range(len(order)))
    array = op.constant(index)
    if len(order) > 1:
        return MatrixOperand(tensor, tensor.shape, strides, array)
    if index == 0:
        return MatrixOperand(tensor, (1, *tensor.shape), (0, 1))
    return MatrixOperand(tensor, (*tensor.shape, 1), (1, 1), None if array is None else array[:, None])


def _turn(x: MatrixOperand, transpose: int, batch_last: int = 0) -> MatrixOperand:
    """Return x with its last two axes swapped; with `batch_last`, its first axis, that of the rows, is moved there before."""
    rank = len(x.shape)
    order = [*range(1, rank - 1), 0, rank - 1] if batch_last else list(range(rank))
    return x.rearrange([*order[:-2], order[-1], order[-2]] if transpose else order)


def _compact(op: NodeLowering, x: MatrixOperand) -> MatrixOperand:
    """Return x, or a copy of it, with its elements in the order of its axes."""
    wanted = tuple(contiguous(x.shape))
    if all(same(dim, 1) or same(a, b) for dim, a, b in zip(x.shape, x.strides, wanted, strict=True)):
        return MatrixOperand(x.tensor, x.shape, wanted)
    made = op.temporary(x.tensor.dtype, x.shape)
    emit_strided_copy(op, x.tensor, made, x.shape, x.strides, wanted)
    return MatrixOperand(made, x.shape, wanted)


def _merge_batches(a: MatrixOperand) -> MatrixOperand:
    """Return a with as many batch dimensions as possible merged into the rows."""
    shape, strides = list(a.shape), list(a.strides)
    while len(shape) > 2 and (same(shape[-3], 1) or same(strides[-3], strides[-2] * shape[-2])):
        shape[-3:-1] = [shape[-3] * shape[-2]]
        strides[-3:-1] = [strides[-2]]
    return MatrixOperand(a.tensor, tuple(shape), tuple(strides))


def _batch_loops(
    op: NodeLowering, a: MatrixOperand, b: MatrixOperand
) -> tuple[MatrixOperand, MatrixOperand, Dim, kernels.Batches]:
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
        return _batch_loops(op, _spread(op, a, wanted, steps[0]), _spread(op, b, wanted, steps[1]))
    loops = [(1, 0, 0)] * (3 - len(loops)) + loops
    return a, b, product(wanted), batches(*[number for column in zip(*loops, strict=True) for number in column])


def _spread(op: NodeLowering, x: MatrixOperand, batch: Shape, steps: Sequence[Dim]) -> MatrixOperand:
    """Return a copy of x, written out to all batch dimensions."""
    shape = (*batch, *x.shape[-2:])
    return _compact(op, MatrixOperand(x.tensor, shape, (*steps, *x.strides[-2:])))
