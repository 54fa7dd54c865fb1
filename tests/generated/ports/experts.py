"""Mixtures of experts of com.microsoft, with weights as they are or of a few bits."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.quantization import unpacked
from tests.generated.ports.registry import port, rounded

_LEAST_SHARE = 1e-8
"""Experts of QMoE with no larger share are not asked."""


def _activated(x: Array, how: dict[str, Any]) -> Array:
    """Gates and values of swiglu come in turn."""
    kind = how.get("activation_type", "relu")
    if kind == "identity":
        return x
    if kind == "relu":
        return np.where(x > 0, x, 0)
    if kind == "silu":
        return np.asarray(x / (1 + np.exp(-x)))
    if kind == "gelu":
        return np.asarray(x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))))
    if kind != "swiglu":
        raise NotImplementedError(f"activation {kind!r}")  # onnxruntime has no other kinds
    alpha, beta, limit = how.get("activation_alpha", 1.0), how.get("activation_beta", 0.0), how.get("swiglu_limit", np.inf)
    gate, value = np.minimum(x[..., ::2], limit), np.clip(x[..., 1::2], -limit, limit)
    return np.asarray(gate / (1 + np.exp(-alpha * gate)) * (value + beta))


def _narrow(x: Array) -> Array:
    """Round to float32, the type between two layers, which may overflow."""
    return rounded(x.astype(np.float32).astype(np.float64))


def _mixed(x: Array, choices: Array, shares: Array, layers: tuple[Array, Any, Array, Any], how: dict[str, Any]) -> Array:
    """Mix the experts of `choices` (tokens, k) by their `shares`. Weights are (experts, n, k), biases (experts, n) or None."""
    w1, b1, w2, b2 = layers
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
    y = np.zeros((len(rows), w2.shape[1]))
    for token, row in enumerate(rows):
        for expert, share in zip(choices[token], shares[token], strict=True):
            if share > 0:
                inner = _narrow(w1[expert] @ row + (0 if b1 is None else b1[expert]))
                outer = _narrow(w2[expert] @ _narrow(_activated(inner, how)) + (0 if b2 is None else b2[expert]))
                y[token] += share * outer
    result: Array = y.reshape(*x.shape[:-1], -1).astype(x.dtype)
    return result


def _chosen(logits: Array, count: int) -> Array:
    """The experts of the largest logits of each token; of equal ones, the last comes first."""
    return np.asarray(logits.shape[1] - 1 - np.argsort(-logits[:, ::-1], axis=1, kind="stable")[:, :count])


def _taken(logits: Array, chosen: Array) -> Array:
    return np.take_along_axis(logits.astype(np.float64), chosen, 1)


def _normalized(shares: Array) -> Array:
    total = shares.sum(1, keepdims=True)
    return np.asarray(np.divide(shares, total, out=np.zeros_like(shares), where=total != 0))


@port("MoE", domain="com.microsoft")
def moe(x: Array, logits: Array, w1: Array, b1: Any, w2: Array, b2: Any = None, *_: Any, **how: Any) -> Array:
    """Shares are those of all experts."""
    chosen = _chosen(logits, how.get("k", 1))
    powers = np.exp(logits - logits.max(1, keepdims=True).astype(np.float64))
    shares = _taken(powers / powers.sum(1, keepdims=True), chosen)
    shares = _normalized(shares) if how.get("normalize_routing_weights", 0) else shares
    return _mixed(x, chosen, shares, (w1, b1, w2, b2), how)


@port("QMoE", domain="com.microsoft")
def quantized_moe(x: Array, logits: Array, *more: Any, **how: Any) -> Array:
    """Shares are those of the chosen experts, or the router's weights."""
    inputs = [x, logits, *more, *[None] * (13 - len(more))]
    if any(inputs[index] is not None for index in (8, 9, 10, 13)):
        raise NotImplementedError("a third layer")  # onnxruntime refuses it on a CPU
    bits, size = how.get("expert_weight_bits", 4), how.get("block_size", 0)
    w1, w2 = (_decoded(inputs[at], inputs[at + 1], inputs[zeros], bits, size) for at, zeros in ((2, 11), (5, 12)))
    chosen = _chosen(logits, how.get("k", 1))
    if inputs[14] is None:
        powers = np.exp(_taken(logits, chosen) - logits.max(1, keepdims=True))
        shares = _normalized(powers)
    else:
        shares = _taken(inputs[14], chosen)
        shares = _normalized(shares) if how.get("normalize_routing_weights", 0) else shares
    return _mixed(x, chosen, np.where(shares > _LEAST_SHARE, shares, 0), (w1, inputs[4], w2, inputs[7]), how)


def _decoded(packed: Array, scales: Array, zeros: Any, bits: int, size: int) -> Array:
    """The weights (experts, n, k): (code - zero point) * scale. Without zeros, the zero point is the middle code."""
    experts, n, width = packed.shape
    k = width * 8 // bits
    scales = scales.reshape(experts, n, -1)
    blocks = scales.shape[2]
    if zeros is None:
        points = np.full((experts, n, blocks), 1 << (bits - 1))
    else:
        points = unpacked(zeros, bits, blocks if zeros.ndim == 3 else n).reshape(experts, n, blocks)
    length = size if blocks > 1 else k
    spread = [np.repeat(one.astype(np.float64), length, axis=2)[..., :k] for one in (points, scales)]
    return np.asarray((unpacked(packed, bits, k) - spread[0]) * spread[1])
