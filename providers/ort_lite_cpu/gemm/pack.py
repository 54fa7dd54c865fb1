"""Packed panels: the form in which the register tile reads the right operand of a matrix product.

Panel p holds columns p * width to (p + 1) * width of B, row after row, zeros where B has no more columns.
"""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.lang import Ptr, Static, like, native


def panels(b: Array, width: int) -> Array:
    """(..., K, N) -> (..., ceil(N / width), K, width). O(size)."""
    *batch, k, n = b.shape
    count = -(-n // width)
    out = np.zeros((*batch, count, k, width), b.dtype)
    for p in range(count):
        piece = b[..., p * width : (p + 1) * width]
        out[..., p, :, : piece.shape[-1]] = piece
    return out


@native
def pack_panel(
    b: Ptr, ldb: int, transposed: Static, n: int, k: int, scale: float, out: Ptr, vectors: Static, lanes: Static
) -> None:
    """out (k, width) = scale * b, for b (k, n), or (n, k) if transposed, rows `ldb` apart; n <= width = vectors *
    lanes.
    """
    factor, width = like(b, scale), vectors * lanes
    if n < width:
        for i in range(k * width):
            out[i] = like(b, 0)
    if transposed:
        for j in range(n):
            for i in range(k):
                out[i * width + j] = b[j * ldb + i] * factor
    elif n == width:
        for i in range(k):
            for j in range(width):
                out[i * width + j] = b[i * ldb + j] * factor
    else:
        for i in range(k):
            for j in range(n):
                out[i * width + j] = b[i * ldb + j] * factor
