"""Normalizations."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port

EPSILON = float(np.float32(1e-5))
_ALPHA = float(np.float32(1e-4))


@port("BatchNormalization", until=13)
def batch_normalization(
    x: Array, scale: Array, bias: Array, mean: Array, variance: Array, epsilon: float = EPSILON, spatial: int = 1, **_: Any
) -> Array:
    """Normalize with the statistics that come; those of `spatial=0` are for each element of an item."""
    shape = (1, -1, *(1,) * (x.ndim - 2)) if spatial else x.shape[1:]
    scale, bias, mean, variance = (one.reshape(shape) for one in (scale, bias, mean, variance))
    return np.asarray((x - mean) / np.sqrt(variance + epsilon) * scale + bias)


@port("LRN")
def local_response_normalization(x: Array, size: int, alpha: float = _ALPHA, beta: float = 0.75, bias: float = 1.0) -> Array:
    low, high = (size - 1) // 2, -(-(size - 1) // 2)
    sums = [np.square(x[:, max(channel - low, 0) : channel + high + 1]).sum(1) for channel in range(x.shape[1])]
    return np.asarray(x / (bias + alpha / size * np.stack(sums, 1)) ** beta) if sums else x


@port("LpNormalization")
def lp_normalization(x: Array, axis: int = -1, p: int = 2) -> Array:
    """A norm of 0 gives zeros, as in onnxruntime."""
    norm = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return np.asarray(np.where(norm == 0, 0, x / norm))
