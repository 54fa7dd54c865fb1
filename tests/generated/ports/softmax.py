"""Softmax, LogSoftmax and Hardmax before version 13, which take their input as a matrix; LogSoftmax of tiny probabilities."""

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port


def _rows(x: Array, axis: int) -> tuple[Array, tuple[int, ...]]:
    """Before version 13, the axes from `axis` on are one."""
    if not -x.ndim <= axis < max(x.ndim, 1):
        raise ValueError(f"axis {axis} of rank {x.ndim}")
    split = axis % x.ndim if x.ndim else 0
    return x.reshape(int(np.prod(x.shape[:split])), int(np.prod(x.shape[split:]))), x.shape


@port("Softmax", until=12)
def softmax_of_rows(x: Array, axis: int = 1) -> Array:
    rows, shape = _rows(x, axis)
    powers = np.exp(rows - rows.max(1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(1, keepdims=True)).reshape(shape)


@port("LogSoftmax", until=12)
def log_softmax_of_rows(x: Array, axis: int = 1) -> Array:
    rows, shape = _rows(x, axis)
    shifted = rows - rows.max(1, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True))).reshape(shape)


@port("LogSoftmax", since=13)
def log_softmax(x: Array, axis: int = -1) -> Array:
    """The reference takes the logarithm of what softmax has rounded to 0."""
    shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


@port("Hardmax", until=12)
def hardmax_of_rows(x: Array, axis: int = 1) -> Array:
    rows, shape = _rows(x, axis)
    found = np.zeros_like(rows)
    if rows.size:
        found[np.arange(len(rows)), rows.argmax(1)] = 1
    return found.reshape(shape)
