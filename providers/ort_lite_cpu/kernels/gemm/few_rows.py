"""Products of very few rows with a right operand that is not packed: it is read once, in place, in the order of its memory."""

from ort_lite.native.lang import REDUCE, Ptr, Static, like, native, select
from ort_lite_cpu.kernels.gemm.microkernel import BIAS, RESIDUAL

FEW = 5
"""Up to this many rows packing the right operand costs more than it saves."""
COLUMNS = 2048
"""Columns of a row of the result that are summed up together: they stay in the first cache level."""


@native(inline=False)
def few_rows(
    a: Ptr,
    lda: int,
    b: Ptr,
    ldb: int,
    bias: Ptr,
    residual: Ptr,
    c: Ptr,
    m: int,
    n: int,
    k: int,
    first: int,
    last: int,
    scale: float,
    mode: int,
    low: float,
    high: float,
    transposed: Static,
) -> None:
    """Columns `first` to `last` of c (m, n) = clip(scale * a (m, k) @ b + bias + residual, low, high).

    b is (k, n), or (n, k) if transposed, rows `ldb` apart; `mode` says whether bias and residual are there.
    """
    for i in range(m):
        if transposed:
            for j in range(first, last):
                c[i * n + j] = _dot(a, i * lda, b, j * ldb, k) * like(c, scale)
        else:
            for begin in range(first, last, COLUMNS):
                end = min(begin + COLUMNS, last)
                for j in range(begin, end):
                    c[i * n + j] = like(c, 0)
                for p in range(k):
                    factor = a[i * lda + p] * like(c, scale)
                    for j in range(begin, end):
                        c[i * n + j] += factor * b[p * ldb + j]
        if mode & BIAS:
            for j in range(first, last):
                c[i * n + j] += bias[j]
        if mode & RESIDUAL:
            for j in range(first, last):
                c[i * n + j] += residual[i * n + j]
        bottom, top = like(c, low), like(c, high)
        for j in range(first, last):
            x = c[i * n + j]
            x = select(x < bottom, bottom, x)
            c[i * n + j] = select(x > top, top, x)


@native(fastmath=REDUCE)
def _dot(a: Ptr, at: int, b: Ptr, from_: int, k: int) -> object:
    """Sum of k products, in an order that only k decides."""
    total = like(a, 0)
    for p in range(k):
        total += a[at + p] * b[from_ + p]
    return total
