"""Operators that quantize, or compute with quantized tables."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port, rounded


@port("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Array) -> tuple[Array, Array, Array]:
    """Zeros have the scale 1, as in onnxruntime. Quotients are rounded to float32 first, which decides between two integers.

    A NaN among the elements makes the scale NaN; integers of NaN are 0.
    """
    x = x.astype(np.float32)
    low, high = np.minimum(x.min(initial=0), np.float32(0)), np.maximum(x.max(initial=0), np.float32(0))
    scale = np.float32(1) if low == high else (high - low) / np.float32(255)
    zero = np.nan_to_num(np.clip(np.rint(-low / scale), 0, 255), nan=0)
    codes = np.clip(np.nan_to_num(np.rint(x / scale), nan=0) + zero, 0, 255)
    return codes.astype(np.uint8), np.asarray(scale, np.float32), np.asarray(zero, np.uint8)


@port("QEmbedLayerNormalization", domain="com.microsoft")
def q_embed_layer_normalization(*inputs: Any, epsilon: float = 1e-12) -> tuple[Array, Array]:
    """Sums of rows of three tables, normalized, and how many tokens of each sequence the mask has."""
    ids, segments, mask = inputs[0], inputs[1], inputs[7]
    x = _dequantized(inputs, 0)[ids] + _dequantized(inputs, 1)[np.arange(ids.shape[1])]
    x = rounded(x if segments is None else x + _dequantized(inputs, 2)[segments])
    gamma, beta = _dequantized(inputs, 3), _dequantized(inputs, 4)
    away = x - x.mean(-1, keepdims=True)
    y = away / np.sqrt(np.square(away).mean(-1, keepdims=True) + epsilon) * gamma + beta
    counts = np.zeros(len(ids)) if mask is None else (mask == 1).sum(1)
    return y.astype(np.float32), counts.astype(np.int32)


def _dequantized(inputs: Any, k: int) -> Array:
    """Table k, gamma or beta as floats."""
    codes, scale, zero = inputs[2 + k], inputs[8 + k], inputs[13 + k]
    return rounded((codes.astype(np.float64) - float(zero)) * float(scale))


def unpacked(packed: Array, bits: int, count: int) -> Array:
    """The codes of the last axis, the lowest bits of a byte first."""
    codes = packed[..., None].astype(np.int64) >> np.arange(0, 8, bits) & ((1 << bits) - 1)
    return np.asarray(codes.reshape(*packed.shape[:-1], packed.shape[-1] * (8 // bits))[..., :count])


@port("MatMulNBits", domain="com.microsoft")
def matmul_n_bits(
    a: Array, b: Array, scales: Array, zeros: Any = None, groups: Any = None, bias: Any = None, **how: Any
) -> Array:
    """Weights are (code - zero point) * scale, each of the group that `groups` names for its row, or of its block."""
    n, k, bits, size = how["N"], how["K"], how.get("bits", 4), how["block_size"]
    blocks = -(-k // size)
    places = np.arange(k) // size if groups is None else groups
    if zeros is None:
        points = np.full((n, blocks), float(1 << (bits - 1)))
    else:
        points = (unpacked(zeros.reshape(n, -1), bits, blocks) if zeros.dtype == np.uint8 else zeros).reshape(n, blocks)
    codes = unpacked(b.reshape(n, -1), bits, k).astype(np.float64)
    weights = (codes - points.astype(np.float64)[:, places]) * scales.astype(np.float64).reshape(n, blocks)[:, places]
    y = (rounded(a.astype(np.float64)[..., None, :] * weights)).sum(-1) + (0.0 if bias is None else bias.astype(np.float64))
    result: Array = y.astype(a.dtype)
    return result
