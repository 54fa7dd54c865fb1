"""MatMulBnb4 of com.microsoft: weights of 4 bits that stand for floats of a table, FP4 or NF4, with a scale for each block."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, native, read_once, span
from ort_lite.shapes import less, product
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm, emit_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import operator

FP4 = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
NF4 = (
    (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    (-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    (0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    (0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
TABLES = (np.array([*FP4, *(-number for number in FP4)], np.float32), np.array(NF4, np.float32).reshape(-1))
"""The numbers of the codes, by `quant_type`. Source: bitsandbytes, as in onnxruntime."""
SMALLEST_BLOCK = 16


@native
@extents(b="ceildiv(count, 2)", absmax="ceildiv(count, size)", table="16", y="count")
def dequantize_blocks(b: Ptr, absmax: Ptr, table: Ptr, y: Ptr, count: int, size: int, part: int, parts: int) -> int:
    """y (count,) = table[b] * absmax of its block. b has two codes a byte, the first in the highest bits."""
    for block in span((count + size - 1) // size, part, parts):
        scale = absmax[block]
        for i in range(block * size, min((block + 1) * size, count)):
            y[i] = table[(int(read_once(b, i // 2)) >> (4 - i % 2 * 4)) & 15] * scale
    return OK


@operator("MatMulBnb4", domain="com.microsoft", types=frozenset({"float32"}))
def matmul_bnb4(op: NodeLowering) -> None:
    """Emit a (..., K) times the transposed weights (N, K), or a (..., N) times the weights if `transB` is 0.

    Constant weights become panels of float32, 8 times the memory of their codes; others are dequantized in each run.
    Spec: onnxruntime MatMulBnb4-1.
    """
    n, k, size, kind = (op.attr(name) for name in ("N", "K", "block_size", "quant_type"))
    if n < 1 or k < 1 or size < SMALLEST_BLOCK or size & (size - 1):
        raise op.reject(f"N {n}, K {k}, block_size {size}; blocks are powers of two from {SMALLEST_BLOCK} on")
    if kind not in (0, 1):
        raise op.reject(f"quant_type {kind}, takes 0 (FP4) and 1 (NF4)")
    for index, count in ((1, -(-n * k // 2)), (2, -(-n * k // size))):
        given = op.raw(index).size
        op.require(1 - less(given, count), f"input {index} has {{0}} elements, expected {{1}} or more", given, count)
    transposed = bool(op.attr("transB", 1))
    columns, depth = (n, k) if transposed else (k, n)
    a, y = op.input(0), op.output(0)
    spec = Product(product(a.shape[:-1]), columns, depth, transposed=transposed)
    b, absmax, table = op.constant(1), op.constant(2), TABLES[kind]
    if b is not None and absmax is not None:
        weights = _dequantize(b, absmax, table, n * k, size).reshape(n, k)
        emit_gemm(op, spec, a, weights, source=b, y=y, form=f"table {kind} {n} {k} {size} {id(absmax)}")
        return
    made = op.temporary("float32", (n, k))
    operands = [op.input(1), op.input(2), op.table(table), made]
    op.emit(dequantize_blocks, operands, count=n * k, size=size, work=n * k)
    emit_dynamic_gemm(op, spec, a, made, y)


def _dequantize(b: Array, absmax: Array, table: Array, count: int, size: int) -> Array:
    """Return the weights (count,), as `dequantize_blocks` writes them."""
    b = b.reshape(-1)[: -(-count // 2)]
    codes = np.stack([b >> 4, b & 15], -1).reshape(-1)[:count]
    scales = np.repeat(absmax.reshape(-1)[: -(-count // size)], size)[:count]
    found: Array = table[codes] * scales
    return found
