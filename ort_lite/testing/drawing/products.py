"""Gemm and MatMul: every attribute, every rank."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from ort_lite.testing.drawing.sketch import Sketch, one, runs

M, K, N = 3, 5, 4


def gemm() -> Iterator[Sketch]:
    for flip_a, flip_b in product((0, 1), repeat=2):
        a, b = (K, M) if flip_a else (M, K), (N, K) if flip_b else (K, N)
        yield one("Gemm", a, b, (N,), fixed=[1, 2], transA=flip_a, transB=flip_b)
        yield one("Gemm", a, b, transA=flip_a, transB=flip_b)
        yield one("Gemm", a, b, (M, N), fixed=[1], transA=flip_a, transB=flip_b, alpha=0.5, beta=2.0)
    for c in ((N,), (1,), (), (M, 1), (1, N), (1, 1), (M, N)):
        yield one("Gemm", (M, K), (K, N), c, note="all fed")
        yield one("Gemm", (M, K), (K, N), c, fixed=[1, 2], beta=0.5)
    yield one("Gemm", (M, K), (K, N), fixed=[1], alpha=-1.5)
    yield one("Gemm", (M, K), (K, N), (N,), fixed=[1, 2], alpha=0.0)
    yield one("Gemm", (M, K), (K, N), (N,), fixed=[1, 2], beta=0.0)
    yield one("Gemm", (M, K), (K, N), (N,), fixed=[0], note="first constant")
    yield one("Gemm", (M, M), (M, M), (M, M), transB=1)
    for m, k, n in ((0, K, N), (M, 0, N), (M, K, 0), (1, 1, 1)):
        yield one("Gemm", (m, k), (k, n), (n,))
    yield one("Gemm", (M, K), (K, N), (1, N), alpha=0.5, beta=0.25, opset=7)
    yield runs(one("Gemm", (M, K), (K, N), (N,), fixed=[1, 2], alpha=0.5), (1, K), (3, K), (2, K), (0, K), (3, K))


def matmul() -> Iterator[Sketch]:
    """Ranks 1 to 4, batches that broadcast, nothing in the middle."""
    shapes = (
        ((M, K), (K, N)),
        ((K,), (K,)),
        ((K,), (K, N)),
        ((M, K), (K,)),
        ((2, M, K), (K, N)),
        ((2, M, K), (2, K, N)),
        ((1, M, K), (2, K, N)),
        ((2, M, K), (1, K, N)),
        ((M, K), (2, K, N)),
        ((2, 1, M, K), (3, K, N)),
        ((2, 3, M, K), (2, 3, K, N)),
        ((K,), (2, K, N)),
        ((2, M, K), (K,)),
        ((1, 3, M, K), (2, 1, K, N)),
        ((0, K), (K, N)),
        ((M, 0), (0, N)),
        ((M, K), (K, 0)),
        ((0, M, K), (K, N)),
        ((1, 1), (1, 1)),
    )
    for a, b in shapes:
        yield one("MatMul", a, b)
    for a, b in (((M, K), (K, N)), ((2, M, K), (K, N)), ((2, 1, M, K), (3, K, N))):
        yield one("MatMul", a, b, fixed=[1])
        yield one("MatMul", a, b, fixed=[0])
    yield runs(one("MatMul", (M, K), (K, N), fixed=[1]), (1, K), (3, K), (0, K), (2, K))
    yield runs(one("MatMul", (2, M, K), (K, N), fixed=[1]), (2, 1, K), (2, 4, K), (3, 4, K), (2, 1, K))


def integers() -> Iterator[Sketch]:
    a = np.arange(M * K, dtype=np.uint8).reshape(M, K)
    b = (np.arange(K * N) - 9).astype(np.int8).reshape(K, N)
    yield one("MatMulInteger", a, b)
    yield one("MatMulInteger", a, b, np.array(7, np.uint8), np.array(-2, np.int8), fixed=[1, 2, 3])
    scale = np.array(0.25, np.float32)
    for zero in (np.array(3, np.uint8), np.array(-3, np.int8)):
        yield one("QuantizeLinear", (3, 4), scale, zero, fixed=[1, 2])
        yield one("DequantizeLinear", np.arange(12).astype(zero.dtype).reshape(3, 4), scale, zero, fixed=[1, 2])
