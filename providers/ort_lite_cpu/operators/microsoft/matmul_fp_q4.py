"""MatMulFpQ4 of com.microsoft: weights in blocks of 32 codes of 4 bits, each with a scale and perhaps a zero point before them."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.shapes import product
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.matmul import emit_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import operator

BLOCK = 32
SYMMETRIC, SHIFTED = 20, 21
"""The bytes of a block without and with a zero point."""
MIDDLE = 8


@operator("MatMulFpQ4", domain="com.microsoft", types=frozenset({"float32"}))
def matmul_fp_q4(op: NodeLowering) -> None:
    """Emit A (..., K) times the weights (K, N) of a blob, which must be constant. They become panels of float32.

    Spec: onnxruntime MatMulFpQ4-1.
    """
    blob = op.constant(1)
    if blob is None:
        raise op.reject("a blob that is computed")
    k, n = op.numbers(2)
    nbytes = SYMMETRIC if op.attr("blk_quant_type", 1) == 0 else SHIFTED
    blocks = -(-k // BLOCK)
    if blob.size != n * blocks * nbytes:
        raise op.reject(f"a blob of {blob.size} bytes for weights ({k}, {n}), expected {n * blocks * nbytes}")
    a, y = op.input(0), op.output(0)
    op.agree(a.shape[-1:], (k,), "A does not fit the weights")
    weights = dequantize(blob.reshape(n, blocks, nbytes))[:, :k]
    spec = Product(product(a.shape[:-1]), n, k, transposed=True)
    emit_gemm(op, spec, a, weights, source=blob, y=y, form=f"fpq4 {nbytes} {n} {k}")


def dequantize(blocks: Array) -> Array:
    """Return the numbers (N, K rounded up) of blocks (N, K / 32, bytes): first the low halves of the bytes, then the high ones."""
    scales = blocks[:, :, :4].copy().view(np.float32)
    shifted = blocks.shape[2] == SHIFTED
    zeros = blocks[:, :, 4:5].astype(np.float32) if shifted else np.float32(MIDDLE)
    codes = blocks[:, :, 4 + shifted :]
    numbers = (np.concatenate([codes & 15, codes >> 4], -1).astype(np.float32) - zeros) * scales
    found: Array = numbers.reshape(len(blocks), -1)
    return found
