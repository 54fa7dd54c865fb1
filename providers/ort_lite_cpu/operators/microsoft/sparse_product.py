"""SparseToDenseMatMul of com.microsoft: a product whose left matrix has few elements other than 0."""

from typing import Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, like, native, shift, span, wadd, wmul
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.matmul import INTEGERS
from ort_lite_cpu.registry import REAL, operator

READ, PRODUCT = 0.3, 0.1
"""The nanoseconds in which an element of the left matrix is read, and multiplied if all of them were there."""


@native
@extents(a="m * k", b="k * n", y="m * n")
def sparse_product(
    a: Ptr, b: Ptr, y: Ptr, m: int, n: int, k: int, row: int, column: int, alpha: float, part: int, parts: int
) -> int:
    """y (m, n) = alpha * a @ b (k, n) without the products with 0. Element (i, j) of a is a[i * row + j * column]; sums wrap."""
    for i in span(m, part, parts):
        out = shift(y, i * n)
        for q in range(n):
            out[q] = like(y, 0)
        for j in range(k):
            element = a[i * row + j * column]
            if element != like(a, 0):
                factor = wmul(element, like(a, alpha))
                for q in range(n):
                    out[q] = wadd(out[q], wmul(factor, b[j * n + q]))
    return OK


@operator("SparseToDenseMatMul", domain="com.microsoft", types=REAL | INTEGERS)
def sparse_to_dense_matmul(op: NodeLowering) -> None:
    """Emit alpha * a @ b, either side transposed; alpha counts for float32 alone, as in onnxruntime.

    Elements of a that are 0 are not there: they make no NaN of an infinity. Spec: onnxruntime SparseToDenseMatMul-1.
    """
    a, turned = op.input(0), op.attr("transA", 0)
    b, y = op.input(1, (1, 0) if op.attr("transB", 0) else None), op.output(0)
    m, k = a.shape[::-1] if turned else a.shape
    n = b.storage_shape[1]
    row, column = (1, m) if turned else (k, 1)
    alpha = float(op.attr("alpha", 1.0)) if a.dtype == "float32" else 1.0
    given: dict[str, Any] = {"m": m, "n": n, "k": k, "row": row, "column": column, "alpha": alpha}
    op.emit(sparse_product, [a, b, y], **given, work=linear_work(a.size, READ) + linear_work(m * n * k, PRODUCT))
