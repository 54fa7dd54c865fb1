"""Operators of com.microsoft on weights of few bits, with a scale for each block."""

import numpy as np

from ort_lite.testing.generator.arrays import between, indices, is_float
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import MICROSOFT, SCALES
from ort_lite.testing.generator.recipes.microsoft_quantized import WHOLE


@recipe("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(draw: Draw) -> NodeProposal:
    """Draw packed weights of a few bits. Each block has a scale and a zero point, packed or of the scales' type."""
    zeros = draw.types["T3"]
    if zeros not in ("uint8", "float32"):
        draw.types["T1"] = zeros
    elif zeros == "float32" and draw.chance(0.5):
        draw.types["T3"] = zeros = "uint8"
    bits, size = draw.choice((2, 4, 4, 8)), draw.choice((16, 32, 64))
    n, k = draw.integer(1, 9), draw.choice((size, draw.integer(1, 3 * size)))
    blocks = -(-k // size)
    rows = draw.shape(1, 2, most=4, least=1)
    packed = zeros == "uint8"
    groups = np.array([draw.integer(0, blocks - 1) for _ in range(k)], np.int32) if draw.chance(0.2) else None
    constant = draw.maybe(True, 0.7)
    operands = [
        draw.tensor(0, (*rows, k)),
        draw.tensor(1, (n, blocks, size * bits // 8), WHOLE, constant),
        draw.tensor(2, draw.choice(((n, blocks), (n * blocks,))), SCALES, constant),
        draw.tensor(3, (n, -(-blocks * bits // 8) if packed else blocks), WHOLE if packed else between(0, 15), constant)
        if draw.chance(0.5)
        else "",
        "" if groups is None else draw.array(groups, constant),
        draw.tensor(5, (n,)) if draw.chance(0.3) else "",
    ]
    return call(
        operands,
        N=n,
        K=k,
        block_size=size,
        bits=bits if bits != 4 else draw.maybe(4),
        accuracy_level=draw.maybe(draw.integer(0, 4), 0.2),
    )


@recipe("MatMulBnb4", domain=MICROSOFT)
def matmul_bnb4(draw: Draw) -> NodeProposal:
    """Draw codes of FP4 or NF4 for a transposed matrix. onnxruntime reads beyond those of others."""
    n, k, size = draw.integer(1, 9), draw.integer(1, 70), draw.choice((16, 32, 64, 128, 256))
    constant = draw.maybe(True, 0.7)
    operands = [
        draw.tensor(0, (*draw.shape(0, 2, most=4, least=1), k)),
        draw.tensor(1, (-(-n * k // 2),), WHOLE, constant),
        draw.tensor(2, (-(-n * k // size),), SCALES, constant),
    ]
    return call(
        operands,
        N=n,
        K=k,
        block_size=size,
        quant_type=draw.integer(0, 1),
        training_mode=draw.maybe(draw.integer(0, 1), 0.2),
        transB=draw.maybe(1, 0.2),
    )


@recipe("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(draw: Draw) -> NodeProposal:
    """Draw data with blocks along any axis, or along the last one where a byte holds several elements."""
    packed, rank = draw.kind(0) == "uint8", draw.integer(2, 4)
    bits, size = draw.choice((2, 4, 8)) if packed else 4, draw.choice((16, 32))
    axis, along = (0, rank - 1) if packed else (draw.integer(0, rank - 1), draw.integer(0, rank - 1))
    share = 8 // bits if packed else 1
    data = [draw.integer(1, 4) for _ in range(rank)]
    data[along] = draw.integer(1, 48 // share)
    blocks, points = list(data), list(data)
    blocks[along] = -(-data[along] * share // size)
    points[along] = -(-blocks[along] // share)
    floats, constant = is_float(draw.kind(0)), draw.maybe(True, 0.7)
    operands = [
        draw.tensor(0, data, None if floats else WHOLE, constant),
        draw.tensor(1, draw.shape(0, 2, most=4), indices(data[axis])),
        draw.tensor(2, blocks, SCALES, constant),
        "" if floats or draw.chance(0.4) else draw.tensor(3, points, WHOLE, constant),
    ]
    return call(
        operands,
        gather_axis=draw.choice((axis, axis - rank)) if axis else draw.maybe(0),
        quantize_axis=draw.choice((along, along - rank)) if along != 1 else draw.maybe(1),
        block_size=size,
        bits=draw.maybe(bits) if bits == 4 else bits,
    )
