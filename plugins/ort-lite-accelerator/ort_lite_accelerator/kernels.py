"""The card's kernels, which map a stream, an instruction's settings and operands to a result. NumPy stands in for device code."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_accelerator.memory import CardStream

Settings = Mapping[str, Any]


def _conv(stream: CardStream, s: Settings, x: Array, w: Array, b: Array | None = None, z: Array | None = None) -> Array:
    """Compute a convolution as one matrix product per group, then add bias and z and apply Relu. w: (groups, taps, channels)."""
    windows = _windows(x if s["last"] else np.moveaxis(x, 1, -1), s, 0)
    groups, taps, channels = w.shape
    places, depth, window = windows.shape[: -1 - len(s["window"])], windows.shape[-1 - len(s["window"])], s["window"]
    columns = stream.scratch((groups, *places, depth // groups, *window))
    columns[...] = np.moveaxis(windows.reshape(*places, groups, depth // groups, *window), len(places), 0)
    y = np.moveaxis(columns.reshape(groups, prod(places), taps) @ w, 0, 1).reshape(*places, groups * channels)
    y = y if b is None else y + b
    y = y if s["last"] else np.moveaxis(y, -1, 1)
    y = y if z is None else y + z
    return np.maximum(y, 0) if s["relu"] else y


def _max_pool(stream: CardStream, s: Settings, x: Array) -> Array:
    windows = _windows(x if s["last"] else np.moveaxis(x, 1, -1), s, -np.inf)
    y: Array = windows.max(axis=tuple(range(-len(s["window"]), 0)))
    return y if s["last"] else np.moveaxis(y, -1, 1)


def _windows(image: Array, s: Settings, fill: float) -> Array:
    """Return the windows (N, positions ..., C, window ...) of a channels-last image, padded with `fill`."""
    rank = len(s["window"])
    pads = zip(s["pads"][:rank], s["pads"][rank:], strict=True)
    padded = np.pad(image, [(0, 0), *pads, (0, 0)], constant_values=fill)
    spans = tuple((k - 1) * d + 1 for k, d in zip(s["window"], s["dilations"], strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=tuple(range(1, rank + 1)))
    strides, dilations = (tuple(slice(None, None, step) for step in s[name]) for name in ("strides", "dilations"))
    return windows[(slice(None), *strides, slice(None), *dilations)]


def _global_average_pool(stream: CardStream, s: Settings, x: Array) -> Array:
    axes = tuple(range(1, x.ndim - 1)) if s["last"] else tuple(range(2, x.ndim))
    total: Array = x.sum(axis=axes, keepdims=True)
    return total / np.float32(prod(x.shape[axis] for axis in axes))


def _gemm(stream: CardStream, s: Settings, a: Array, b: Array, c: Array | None = None) -> Array:
    product: Array = np.float32(s["alpha"]) * ((a.T if s["transA"] else a) @ (b.T if s["transB"] else b))
    return product if c is None else product + np.float32(s["beta"]) * c


def _reshape(stream: CardStream, s: Settings, x: Array, to: Array) -> Array:
    copied = {k for k, size in enumerate(to) if size == 0 and not s["allowzero"]}
    known = prod(size for k, size in enumerate(to) if size >= 0 and k not in copied)
    rest = prod(size for k, size in enumerate(x.shape) if k not in copied) // known if known else 0
    return x.reshape([x.shape[k] if k in copied else rest if size < 0 else size for k, size in enumerate(to)])


def _unsqueeze(stream: CardStream, s: Settings, x: Array, axes: Array) -> Array:
    made: Array = np.expand_dims(x, tuple(axes.ravel().tolist()))
    return made


KERNELS: Mapping[str, Callable[..., Array]] = {
    "Add": lambda stream, s, a, b: np.add(a, b),
    "Concat": lambda stream, s, *parts: np.concatenate(parts, s["axis"]),
    "Conv": _conv,
    "Flatten": lambda stream, s, x: x.reshape(prod(x.shape[: s["axis"]]), prod(x.shape[s["axis"] :])),
    "Gather": lambda stream, s, x, at: np.take(x, at, s["axis"]),
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "MatMul": lambda stream, s, a, b: np.matmul(a, b),
    "MaxPool": _max_pool,
    "Mul": lambda stream, s, a, b: np.multiply(a, b),
    "Relu": lambda stream, s, x: np.maximum(x, np.float32(0)),
    "Reshape": _reshape,
    "Shape": lambda stream, s, x: np.array(x.shape[s["start"] : s["end"]], np.int64),
    "Unsqueeze": _unsqueeze,
}
