"""Det: determinants by elimination with row exchanges."""

from ort_lite.native.lang import OK, Ptr, cast, fabs, like, native, span
from ort_lite.shapes import product
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import REAL, operator


@native
def determinant(x: Ptr, work: Ptr, y: Ptr, count: int, n: int, part: int, parts: int) -> int:
    """y (count,) of the matrices x (count, n, n); work: as many float64. O(n**3) a matrix."""
    for matrix in span(count, part, parts):
        base = matrix * n * n
        for i in range(n * n):
            work[base + i] = cast(x[base + i], "f64")
        result = 1.0
        for k in range(n):
            pivot = k
            for i in range(k + 1, n):
                if fabs(work[base + i * n + k]) > fabs(work[base + pivot * n + k]):
                    pivot = i
            top, row = base + k * n, base + pivot * n
            if pivot != k:
                result = -result
                for j in range(k, n):
                    work[top + j], work[row + j] = work[row + j], work[top + j]
            value = work[top + k]
            result *= value
            if value == 0.0:
                break
            for i in range(k + 1, n):
                factor = work[base + i * n + k] / value
                for j in range(k, n):
                    work[base + i * n + j] -= factor * work[top + j]
        y[matrix] = like(y, result)
    return OK


@operator("Det", since=11, types=REAL)
def lower_determinant(op: Op) -> None:
    """(..., n, n) -> (...). Sums in float64. Spec: ONNX Det-22."""
    x, y = op.input(0), op.output(0)
    rows, columns = x.shape[-2:]
    op.agree([rows], [columns], "the matrices are not square")
    op.emit(determinant, [x, op.temporary("float64", x.shape), y], product(x.shape[:-2]), rows, work=x.size * 8)
