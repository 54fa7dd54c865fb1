"""Products of very few rows with a right operand that is not packed, but read once, in place, in the order of memory."""

from typing import NamedTuple

from ort_lite.native.lang import REDUCE, Ptr, Static, like, native, select
from ort_lite_cpu.kernels.gemm.microkernel import BIAS, RESIDUAL, TileEpilogue

COLUMNS = 2048
"""The columns of a row of the result that are summed up together: they stay in the first cache level."""


class StridedProduct(NamedTuple):
    """A product scale * a (m, k) @ b (k, n) of operands that are not packed; their rows are `lda` and `ldb` elements apart.

    A transposed b is (n, k). Products of at most `few` rows read b in place, others pack it.
    """

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    scale: float
    few: int


@native(inline=False)
def few_rows(a: Ptr, b: Ptr, c: Ptr, g: StridedProduct, first: int, last: int, end: TileEpilogue, transposed: Static) -> None:
    """c (m, n)[:, first:last] = clip(scale * a (m, k) @ b + bias + residual, low, high), b (k, n), or (n, k) if transposed."""
    n = g.n
    for i in range(g.m):
        if transposed:
            for j in range(first, last):
                c[i * n + j] = _dot(a, i * g.lda, b, j * g.ldb, g.k) * like(c, g.scale)
        else:
            for begin in range(first, last, COLUMNS):
                stop = min(begin + COLUMNS, last)
                for j in range(begin, stop):
                    c[i * n + j] = like(c, 0)
                for p in range(g.k):
                    factor = a[i * g.lda + p] * like(c, g.scale)
                    for j in range(begin, stop):
                        c[i * n + j] += factor * b[p * g.ldb + j]
        if end.mode & BIAS:
            for j in range(first, last):
                c[i * n + j] += end.bias[j]
        if end.mode & RESIDUAL:
            for j in range(first, last):
                c[i * n + j] += end.residual[i * n + j]
        bottom, top = like(c, end.low), like(c, end.high)
        for j in range(first, last):
            x = c[i * n + j]
            x = select(x < bottom, bottom, x)
            c[i * n + j] = select(x > top, top, x)


@native(fastmath=REDUCE)
def _dot(a: Ptr, at: int, b: Ptr, from_: int, k: int) -> object:
    """Return the sum of k products, in an order that depends on k alone."""
    total = like(a, 0)
    for p in range(k):
        total += a[at + p] * b[from_ + p]
    return total
