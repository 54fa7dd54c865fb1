"""Products by weights of 2, 4 or 8 bits with a scale for each block become MatMulNBits, which keeps the weights packed.

A DequantizeLinear of constant weights (K, N) with `block_size` along K would write K * N floats in every run. onnxruntime-genai's
builder writes such models with `use_qdq=true`.
"""

import numpy as np

from ort_lite.dtypes import BITS, Array
from ort_lite.graph import Node, Value
from ort_lite.memory.recipes import derive
from ort_lite.transform import Done, Rewriter, Skip, op, rule

_TYPES = ("int2", "uint2", "int4", "uint4", "int8", "uint8")


@rule(
    op("MatMul", "a", op("DequantizeLinear", name="weights", since=21), name="root"),
    level="basic",
    private=True,
    counterparts=("QDQSelectorActionTransformer",),
)
def multiply_blocks(rewriter: Rewriter, a: Value, weights: Node, root: Node) -> Done | Skip:
    """MatMulNBits multiplies by the same numbers: code less zero point, times the scale of the block.

    Differences that fit into the bits need no zero point. Otherwise it takes the zero point times the sum of `a` off the sum of
    products, so that an infinite `a` can give NaN, as in onnxruntime.
    """
    x, scale, zero = (*weights.inputs, None)[:3]
    assert x is not None and scale is not None
    codes, scales, zeros = (rewriter.array(value) for value in (x, scale, zero))
    if codes is None or scales is None or (zero is not None and zeros is None):
        return Skip(f"the weights of {weights} are not constant")
    size = weights.attr("block_size", 0)
    if x.dtype not in _TYPES or codes.ndim != 2 or weights.attr("axis", 1) not in (0, -2) or size < 16 or size & (size - 1):
        return Skip(f"{weights} has no blocks of 16, 32, 64, ... integers along the axis that is summed over")
    if scales.shape != (-(-codes.shape[0] // size), codes.shape[1]):
        return Skip(f"{scale.name} has not one scale for each block")
    if a.shape is None or len(a.shape) < 2 or a.dtype != scale.dtype or root.output.dtype != scale.dtype:
        return Skip(f"{a.name} is not known to have rows of {scale.dtype}")
    bits, (depth, columns) = BITS.get(x.dtype, 8), codes.shape
    middle = 1 << (bits - 1)
    numbers = subtract_zeros(codes, zeros, size)
    if numbers.min(initial=0) >= -middle and numbers.max(initial=0) < middle:
        packed, points = derive(pack_numbers, codes, zeros, bits, size), None
    else:
        more = 0 if x.dtype.startswith("u") else middle
        zeros = np.zeros_like(codes, shape=scales.shape) if zeros is None else zeros
        packed, points = derive(pack_blocks, codes, bits, size, more), derive(pack_zeros, zeros, bits, more)
    operands = [
        rewriter.constant(packed, x.name),
        rewriter.constant(derive(transpose_blocks, scales), scale.name),
        None if points is None else rewriter.constant(points, f"{x.name}_zero_points"),
    ]
    made = rewriter.op("MatMulNBits", a, *operands, domain="com.microsoft", K=depth, N=columns, bits=bits, block_size=size)
    return rewriter.replace(root, made)


def subtract_zeros(codes: Array, zeros: Array | None, size: int) -> Array:
    """Return codes (K, N) less the zero points of their blocks (blocks, N)."""
    numbers = codes.astype(np.int16)
    return numbers if zeros is None else numbers - np.repeat(zeros.astype(np.int16), size, axis=0)[: len(codes)]


def pack_numbers(codes: Array, zeros: Array | None, bits: int, size: int) -> Array:
    """Return codes less zero points as `pack_blocks` does, counted from the middle."""
    return pack_blocks(subtract_zeros(codes, zeros, size), bits, size, 1 << (bits - 1))


def pack_blocks(codes: Array, bits: int, size: int, more: int) -> Array:
    """Return (K, N), and `more` than that, as bytes (N, blocks, size * bits / 8)."""
    depth, columns = codes.shape
    rows = np.pad(_raise_codes(codes, more).T, ((0, 0), (0, -depth % size)))
    return _join_codes(rows, bits).reshape(columns, -1, size * bits // 8)


def pack_zeros(zeros: Array, bits: int, more: int) -> Array:
    """Return (blocks, N), and `more` than that, as bytes, those of a column one behind the other."""
    rows = _raise_codes(zeros, more).T
    return _join_codes(np.pad(rows, ((0, 0), (0, -rows.shape[1] % (8 // bits)))), bits).reshape(-1)


def transpose_blocks(scales: Array) -> Array:
    """Return (blocks, N) as (N, blocks)."""
    return np.ascontiguousarray(scales.T)


def _raise_codes(codes: Array, more: int) -> Array:
    """Return integers and `more` as bytes."""
    return (codes.astype(np.int16) + more).astype(np.uint8)


def _join_codes(rows: Array, bits: int) -> Array:
    """Return rows of codes as rows of bytes, whose first codes are in the lowest bits."""
    share = 8 // bits
    parts = rows.reshape(*rows.shape[:-1], rows.shape[-1] // share, share) << (np.arange(share, dtype=np.uint8) * bits)
    joined: Array = np.bitwise_or.reduce(parts.astype(np.uint8), axis=-1)
    return joined
