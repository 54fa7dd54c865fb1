"""MatMulFpQ4 of com.microsoft: weights in blocks of 32 codes of 4 bits, each with a scale and perhaps a zero point before them."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, StaticInt, like, native, span
from ort_lite.shapes import equal, product
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_strided_copy
from ort_lite_cpu.lowering.tensor import reread
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm, emit_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import operator

BLOCK = 32
SYMMETRIC, SHIFTED = 20, 21
"""The bytes of a block without and with a zero point."""
MIDDLE = 8


@native
@extents(blob="n * ceildiv(k, BLOCK) * (SYMMETRIC + shifted)", scales="n * ceildiv(k, BLOCK)", y="n * k")
def unpack_blocks(blob: Ptr, scales: Ptr, y: Ptr, n: int, k: int, shifted: StaticInt, part: int, parts: int) -> int:
    """y (n, k) = the numbers of the blocks, whose scales are read already. shifted: 1 if a block has a zero point."""
    across = (k + BLOCK - 1) // BLOCK
    for block in span(n * across, part, parts):
        p, first = block * (SYMMETRIC + shifted) + 4, block % across * BLOCK
        zero = int(blob[p]) if shifted else MIDDLE
        for i in range(min(BLOCK, k - first)):
            code = (int(blob[p + shifted + i % 16]) >> (i // 16 * 4)) & 15
            y[block // across * k + first + i] = like(y, code - zero) * scales[block]
    return OK


@operator("MatMulFpQ4", domain="com.microsoft", types=frozenset({"float32"}))
def matmul_fp_q4(op: NodeLowering) -> None:
    """Emit A (..., K) times the weights (K, N) of a blob. Constant ones become panels of float32, others are unpacked in each run.

    Spec: onnxruntime MatMulFpQ4-1.
    """
    blob, (k, n) = op.constant(1), op.numbers(2)
    nbytes = SYMMETRIC if op.attr("blk_quant_type", 1) == 0 else SHIFTED
    blocks = -(-k // BLOCK)
    size = op.raw(1).size
    op.require(
        equal(size, n * blocks * nbytes),
        f"a blob of {{0}} bytes for weights ({k}, {n}), expected {{1}}",
        size,
        n * blocks * nbytes,
    )
    a, y = op.input(0), op.output(0)
    op.agree(a.shape[-1:], (k,), "A does not fit the weights")
    spec = Product(product(a.shape[:-1]), n, k, transposed=True)
    if blob is not None:
        weights = dequantize(blob.reshape(n, blocks, nbytes))[:, :k]
        emit_gemm(op, spec, a, weights, source=blob, y=y, form=f"fpq4 {nbytes} {n} {k}")
        return
    packed, made = op.input(1), op.temporary("float32", (n, k))
    scales = op.temporary("uint8", (n * blocks, 4))
    emit_strided_copy(op, packed, scales, scales.shape, (nbytes, 1), (4, 1))
    operands = [packed, reread(scales, "float32", (n * blocks,)), made]
    op.emit(unpack_blocks, operands, n=n, k=k, shifted=nbytes - SYMMETRIC, work=n * k)
    emit_dynamic_gemm(op, spec, a, made, y)


def dequantize(blocks: Array) -> Array:
    """Return the numbers (N, K rounded up) of blocks (N, K / 32, bytes): first the low halves of the bytes, then the high ones."""
    scales = blocks[:, :, :4].copy().view(np.float32)
    shifted = blocks.shape[2] == SHIFTED
    zeros = blocks[:, :, 4:5].astype(np.float32) if shifted else np.float32(MIDDLE)
    codes = blocks[:, :, 4 + shifted :]
    numbers = (np.concatenate([codes & 15, codes >> 4], -1).astype(np.float32) - zeros) * scales
    found: Array = numbers.reshape(len(blocks), -1)
    return found
