"""Det, and com.microsoft's Inverse: elimination with row exchanges, that of Det by blocks."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, cast, fabs, imin, like, native, span
from ort_lite.shapes import product
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import REAL, operator


def pivot_of(work: Ptr, base: int, n: int, width: int, k: int) -> int:
    """Return the row, of those from k on, with the largest element in column k of the matrix (n, width) at `base`."""
    pivot = k
    for i in range(k + 1, n):
        if fabs(work[base + i * width + k]) > fabs(work[base + pivot * width + k]):
            pivot = i
    return pivot


BLOCK, TILE = 32, 256
"""Columns that are eliminated before the rest of the matrix follows, and columns of the rest that are updated at a time."""


def eliminate_panel(work: Ptr, base: int, n: int, first: int, last: int, result: float) -> float:
    """Eliminate columns first to last - 1 among themselves, whole rows exchanged. The factors stay in the place of the zeros.

    Returns the result times the pivots, with the sign of the exchanges; a column without a pivot ends it.
    """
    for k in range(first, last):
        pivot = pivot_of(work, base, n, n, k)
        top, row = base + k * n, base + pivot * n
        if pivot != k:
            result = -result
            for j in range(first, n):
                work[top + j], work[row + j] = work[row + j], work[top + j]
        value = work[top + k]
        result *= value
        if value == 0.0:
            break
        for i in range(k + 1, n):
            factor = work[base + i * n + k] / value
            work[base + i * n + k] = factor
            for j in range(k + 1, last):
                work[base + i * n + j] -= factor * work[top + j]
    return result


def subtract_rows(work: Ptr, row: int, base: int, n: int, first: int, last: int, start: int, end: int) -> None:
    """Subtract rows first to last - 1, times their factors, from the row at `row`, in columns start to end - 1, four rows at a time."""
    k = first
    while k + 4 <= last:
        a, b, c, d = work[row + k], work[row + k + 1], work[row + k + 2], work[row + k + 3]
        at = base + k * n
        for j in range(start, end):
            value = work[row + j] - a * work[at + j]
            value = value - b * work[at + n + j]
            value = value - c * work[at + 2 * n + j]
            work[row + j] = value - d * work[at + 3 * n + j]
        k += 4
    while k < last:
        a, at = work[row + k], base + k * n
        for j in range(start, end):
            work[row + j] -= a * work[at + j]
        k += 1


@native
@extents(x="count * n * n", work="count * n * n", y="count")
def determinant(x: Ptr, work: Ptr, y: Ptr, count: int, n: int, part: int, parts: int) -> int:
    """y (count,) = the determinants of x (count, n, n); work: as many float64. O(n**3) a matrix, by blocks that stay in the caches.

    Each element sees the columns in order, so that blocks change no bit.
    """
    for matrix in span(count, part, parts):
        base = matrix * n * n
        for i in range(n * n):
            work[base + i] = cast(x[base + i], "f64")
        result = 1.0
        first = 0
        while first < n and result != 0.0:
            last = imin(first + BLOCK, n)
            result = eliminate_panel(work, base, n, first, last, result)
            for i in range(first + 1, last):
                subtract_rows(work, base + i * n, base, n, first, i, last, n)
            start = last
            while start < n:
                end = imin(start + TILE, n)
                for i in range(last, n):
                    subtract_rows(work, base + i * n, base, n, first, last, start, end)
                start = end
            first = last
        y[matrix] = like(y, result)
    return OK


@operator("Det", since=11, types=REAL)
def lower_determinant(op: NodeLowering) -> None:
    """Compute the determinants of (..., n, n), with sums in float64. Spec: ONNX Det-22."""
    x, y = op.input(0), op.output(0)
    scratch = op.temporary("float64", x.shape)
    op.emit(determinant, [x, scratch, y], count=product(x.shape[:-2]), n=x.shape[-1], work=x.size * 8)


@native
@extents(x="count * n * n", work="2 * count * n * n", y="count * n * n")
def inverse(x: Ptr, work: Ptr, y: Ptr, count: int, n: int, part: int, parts: int) -> int:
    """y (count, n, n) = the inverses of x; infinities and NaN for singular matrices. work: (count, n, 2 n). O(n**3) a matrix."""
    width = 2 * n
    for matrix in span(count, part, parts):
        base = matrix * n * width
        for i in range(n):
            for j in range(n):
                work[base + i * width + j] = cast(x[(matrix * n + i) * n + j], "f64")
                work[base + i * width + n + j] = 1.0 if i == j else 0.0
        for k in range(n):
            top, row = base + k * width, base + pivot_of(work, base, n, width, k) * width
            factor = 1.0 / work[row + k]
            for j in range(k, width):
                value = work[row + j] * factor
                work[row + j] = work[top + j]
                work[top + j] = value
            for i in range(n):
                other = work[base + i * width + k]
                if i != k and other != 0.0:
                    for j in range(k, width):
                        work[base + i * width + j] -= other * work[top + j]
        for i in range(n):
            for j in range(n):
                y[(matrix * n + i) * n + j] = like(y, work[base + i * width + n + j])
    return OK


@operator("Inverse", domain="com.microsoft", types=REAL)
def lower_inverse(op: NodeLowering) -> None:
    """Invert the matrices (..., n, n), in float64. Spec: onnxruntime Inverse-1."""
    x, y = op.input(0), op.output(0)
    n = x.shape[-1]
    work = op.temporary("float64", (*x.shape[:-1], 2 * n))
    op.emit(inverse, [x, work, y], count=product(x.shape[:-2]), n=n, work=x.size * 16)
