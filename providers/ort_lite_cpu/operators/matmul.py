"""MatMul, Gemm and their fused forms. Constant right operands are packed while lowering, others panel by panel at run time."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from ort_lite.dtypes import Array
from ort_lite.shapes import at_least, equal, product, same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import nominal
from ort_lite_cpu.kernels.gemm import gemm as kernels
from ort_lite_cpu.kernels.gemm.activation import NONE, Activation, activation
from ort_lite_cpu.kernels.gemm.few_rows import StridedProduct
from ort_lite_cpu.kernels.gemm.gemm import Batches
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.lowering.broadcast import broadcast_step, require_broadcast
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.lowered import SLICES, whole
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous
from ort_lite_cpu.lowering.tensor import Expression, Tensor
from ort_lite_cpu.operators.bfloat16_product import BFLOAT16
from ort_lite_cpu.operators.matrices import (
    MatrixOperand,
    batch_loops,
    compact,
    merge_batches,
    operand_of,
    turn,
)
from ort_lite_cpu.operators.packed_matrix import may_keep_float16, pack_matrix
from ort_lite_cpu.operators.product_costs import (
    ALL,
    ProductNumbers,
    few_rows,
    rows_of,
    work_in_place,
    work_of_dots,
    work_of_either,
    work_of_gemm,
    work_of_panels,
    work_of_row,
)
from ort_lite_cpu.operators.products import Product, ProductCase
from ort_lite_cpu.registry import REAL, operator

INTEGERS = frozenset({"int32", "int64", "uint32", "uint64"})
"""The integer types that MatMul takes."""
ONE_PRODUCT = Batches(1, 1, 1, 0, 0, 0, 0, 0, 0)
"""The batches of a single product."""


# --- Operators
@operator("MatMul", types=REAL | INTEGERS)
def matmul(op: NodeLowering) -> None:
    """Emit a @ b. Spec: ONNX MatMul-13."""
    _batch(op, Product(0, 0, 0), operand_of(op, 0), operand_of(op, 1))


@operator("FusedMatMul", "TransposeMatMul", domain="com.microsoft", types=REAL)
def fused_matmul(op: NodeLowering) -> None:
    """Emit alpha * a @ b; either side may be transposed, its first axis moved behind the batch. A vector stays as it is.

    TransposeMatMul is its older name. Spec: onnxruntime FusedMatMul-1, TransposeMatMul-1.
    """
    ranks = len(op.raw(0).shape), len(op.raw(1).shape)
    if (op.attr("transBatchA", 0) or op.attr("transBatchB", 0)) and ranks[0] != ranks[1]:
        raise op.reject(f"transBatchA or transBatchB of inputs of the ranks {ranks[0]} and {ranks[1]}")
    a = turn(operand_of(op, 0), ranks[0] > 1 and op.attr("transA", 0), op.attr("transBatchA", 0))
    b = turn(operand_of(op, 1), ranks[1] > 1 and op.attr("transB", 0), op.attr("transBatchB", 0))
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
    a, b = turn(operand_of(op, 0), op.attr("transA", 0)), turn(operand_of(op, 1), op.attr("transB", 0))
    spec = Product(a.shape[0], b.shape[1], a.shape[1], float(op.attr("alpha", 1.0)), activation=act)
    beta = float(op.attr("beta", 1.0))
    if op.has(2) and beta != 0.0:
        spec = _with_addend(op, spec, beta)
    _batch(op, spec, a, b)


def _integer_gemm(op: NodeLowering) -> None:
    """Emit Gemm of integers. It wraps if alpha and beta are 1; otherwise it continues the product in float64, and truncates."""
    shape = op.info().shape
    assert shape is not None
    a, b = turn(operand_of(op, 0), op.attr("transA", 0)), turn(operand_of(op, 1), op.attr("transB", 0))
    total = op.temporary(a.tensor.dtype, shape)
    _emit_integer_product(op, _with_sizes(op, Product(0, 0, 0), a, b), a, b, total)
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
    """Emit y = a @ b as MatMul does, for tensors in memory that are computed."""
    left, right = (a.shape if len(a.shape) > 1 else (1, *a.shape)), (b.shape if len(b.shape) > 1 else (*b.shape, 1))
    rows, columns = (MatrixOperand(x, shape, tuple(contiguous(shape))) for x, shape in ((a, left), (b, right)))
    spec = _with_sizes(op, Product(0, 0, 0), rows, columns)
    if a.dtype in REAL:
        _emit_strided_product(op, spec, rows, columns, y)
    else:
        _emit_integer_product(op, spec, rows, columns, y)


def _batch(op: NodeLowering, spec: Product, a: MatrixOperand, b: MatrixOperand) -> None:
    """Emit output 0 as the product of all matrices of a and b. The sizes in `spec` are replaced by those of the operands."""
    spec = _with_sizes(op, spec, a, b)
    if a.tensor.dtype in REAL:
        case = ProductCase(op, spec, a, b, _numbers(op, a, b.in_memory))
        chosen = choose(op, CANDIDATES if a.narrow is None else (BFLOAT16, *CANDIDATES), case)
        chosen.emit(case if chosen is BFLOAT16 else case.replace(a=a.store(op), b=b.store(op)))
    else:
        _emit_integer_product(op, spec, a, b, op.output(0))


def _with_sizes(op: NodeLowering, spec: Product, a: MatrixOperand, b: MatrixOperand) -> Product:
    """Return the product with the sizes of a and b, whose inner ones are equal."""
    if not same(a.shape[-1], b.shape[-2]):
        inner = a.shape[-1], b.shape[-2]
        op.require(equal(*inner), "the inner dimensions differ: {0} and {1}", *inner)
    return spec.replace(m=a.shape[-2], n=b.shape[-1], k=a.shape[-1])


def _emit_integer_product(op: NodeLowering, spec: Product, a: MatrixOperand, b: MatrixOperand, y: Tensor) -> None:
    a, b, dims, loops = batch_loops(op, compact(op, a), compact(op, b))
    op.emit(kernels.integer_matmul, [a.tensor, b.tensor, y], **spec.sizes, g=loops, work=spec.work * dims * 8)


def _emit_strided_product(
    op: NodeLowering, spec: Product, a: MatrixOperand, b: MatrixOperand, y: Tensor, few: int | None = None
) -> None:
    """Emit the product of two operands that are read in place if rows of a, and rows or columns of b, are contiguous.

    few: as in `emit_dynamic_gemm`.
    """
    a = a if a.is_row_major else compact(op, a)
    b = b if b.is_row_major or b.is_column_major else compact(op, b)
    a, b, dims, loops = batch_loops(op, *merge_batches(a, b))
    spec = spec.replace(m=a.shape[-2], transposed=b.is_read_by_columns)
    steps = a.strides[-2], b.strides[-1] if spec.transposed else b.strides[-2]
    emit_dynamic_gemm(op, spec, a.tensor, b.tensor, y, loops, dims, steps, few)


def emit_dynamic_gemm(
    op: NodeLowering,
    spec: Product,
    a: Tensor,
    b: Tensor,
    y: Tensor,
    loops: Batches = ONE_PRODUCT,
    batch: Dim = 1,
    steps: tuple[Dim, Dim] | None = None,
    few: int | None = None,
) -> None:
    """Emit y = a @ b for a b that is computed; its panels are packed as they are used, or it is read in place.

    steps: elements from one row to the next of a, and of b as it lies. few: the most rows for which b is read in place (default: by
    predicted costs).
    """
    tile = tile_for(a.native, op.target)
    if few is None:
        few = few_rows(ProductNumbers(1, (1,), nominal(spec.n), nominal(spec.k), tile, spec.transposed), op.costs)
    lda, ldb = steps or (spec.k, spec.k if spec.transposed else spec.n)
    scratch = op.temporary(a.dtype, (op.options.threads * kernels.DEPTH * tile.columns,))
    operands = [a, b, spec.bias, spec.residual, y, scratch]
    sizes: Any = (spec.m, spec.n, spec.k, lda, ldb, spec.scale, few)
    given: dict[str, Any] = {"g": loops, "each": StridedProduct(*sizes), "transposed": spec.transposed, "tile": tile}
    given |= spec.activation.arguments
    op.emit(kernels.matmul, operands, **given, slices=1, work=spec.work * batch, result=whole(y))


def emit_gemm(op: NodeLowering, spec: Product, a: Tensor, b: Array, *, source: Array, y: Tensor, form: str = "") -> None:
    """Emit y = a @ b for a constant b, (k, n) or (n, k); `source` and `form` identify what b is made of, so that it is packed once."""
    tile = tile_for(a.native, op.target)
    w = pack_matrix(op, spec, tile, b, source, form)
    operands, half = [a, w, spec.bias, spec.residual, y], w.dtype == "uint16"
    if half:
        operands.append(op.temporary(a.dtype, (op.options.threads, kernels.WIDE, tile.columns)))
    in_place = (4, 3) if at_least(kernels.depth_of(tile.vectors), spec.k) else None
    given = {**spec.sizes, **spec.activation.arguments, "tile": tile}
    given["slices"] = 1 if half else SLICES
    op.emit(
        kernels.float16_gemm if half else kernels.gemm, operands, **given, work=spec.work, inplace=in_place, result=whole(y)
    )


# --- Candidates
def _numbers(op: NodeLowering, a: MatrixOperand, b: MatrixOperand) -> ProductNumbers:
    """Return the sizes of a product as numbers. Batches that are open count as one."""
    shared = b.is_one_matrix
    batch = 1 if shared else max(math.prod(dim for dim in x.shape[:-2] if isinstance(dim, int)) for x in (a, b))
    rows = rows_of(product(a.shape[:-1]) if shared else a.shape[-2])
    tile = tile_for(a.tensor.native, op.target)
    k = b.shape[-2] if isinstance(b.shape[-2], int) else a.shape[-1]  # equal, and a number for a constant
    constant = b.constant is not None
    return ProductNumbers(batch, rows, nominal(b.shape[-1]), nominal(k), tile, b.is_read_by_columns, constant)


def _reject_gemm(case: ProductCase) -> str:
    return "" if case.matrix is not None else "its right operand is no constant matrix"


def _reject_dots(case: ProductCase) -> str:
    fits = case.matrix is not None or case.numbers.columns
    return "" if fits else "the elements of a column of its right operand are not adjacent"


def _reject_rows(case: ProductCase) -> str:
    return "the elements of a row of its right operand are not adjacent" if case.numbers.columns else ""


def _reject_either(case: ProductCase) -> str:
    return "its number of rows is known" if len(case.numbers.rows) == 1 else ""


def _work_of_gemm(case: ProductCase) -> float:
    b = case.matrix
    return work_of_gemm(case.numbers, b is not None and may_keep_float16(case.op, case.spec, b))


def _moves_of_gemm(case: ProductCase) -> float:
    return 0.0 if case.a.is_contiguous else case.copy_of_rows


def _emit_gemm(case: ProductCase) -> None:
    op, a, b, source = case.op, case.a, case.matrix, case.op.constant(1)
    assert b is not None and source is not None
    rows, y, turned = case.spec.replace(m=product(a.shape[:-1])), op.output(0), "turned" if case.b.strides[0] == 1 else ""
    emit_gemm(op, rows, compact(op, a).tensor, b, source=source, y=y, form=turned)


def _emit_dots(case: ProductCase) -> None:
    op, b, array, source = case.op, case.b, case.matrix, case.op.constant(1)
    if array is not None and source is not None and not b.is_column_major:
        b = MatrixOperand(op.pack(source, "columns", lambda: array.T), b.shape, (1, b.shape[0]))
    _emit_strided_product(op, case.spec, case.a, b, op.output(0), ALL)


def _emit_product(case: ProductCase, few: int | None) -> None:
    _emit_strided_product(case.op, case.spec, case.a, case.b, case.op.output(0), few)


CANDIDATES: Final = (
    Candidate[ProductCase](
        "gemm",
        _reject_gemm,
        _work_of_gemm,
        _emit_gemm,
        _moves_of_gemm,
    ),
    Candidate[ProductCase](
        "matmul-panels",
        lambda case: "",
        lambda case: work_of_panels(case.numbers, case.op.costs),
        partial(_emit_product, few=0),
        lambda case: case.moves,
    ),
    Candidate[ProductCase](
        "matmul-dots",
        _reject_dots,
        lambda case: work_in_place(case.numbers, work_of_dots),
        _emit_dots,
        lambda case: case.moves,
    ),
    Candidate[ProductCase](
        "matmul-rows",
        _reject_rows,
        lambda case: work_in_place(case.numbers, work_of_row),
        partial(_emit_product, few=ALL),
        lambda case: case.moves,
    ),
    Candidate[ProductCase](
        "matmul-either",
        _reject_either,
        lambda case: work_of_either(case.numbers, case.op.costs),
        partial(_emit_product, few=None),
        lambda case: case.moves,
    ),
)
"""The ways to compute a product: with a constant matrix that is packed, and with one that the kernel packs or reads in place."""
