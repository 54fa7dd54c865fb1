"""Pooling over windows and over whole images."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from ort_lite.graph import Node
from ort_lite_xla.along import only_first
from ort_lite_xla.operators.windows import Pads, ceil_mode_pads, dilations_of, pads_of, strides_of
from ort_lite_xla.registry import BYTES, FLOATS, Array, XlaOp, lowering


def _plain(node: Node) -> str | None:
    """Reject SAME padding of dilated windows, which ONNX and its implementations define differently."""
    if len(node.outputs) > 1 and node.outputs[1] is not None:
        return "the output Indices is not supported"
    dilated = any(dilation != 1 for dilation in node.attr("dilations") or ())
    return "auto_pad with dilations" if dilated and node.attr("auto_pad", "NOTSET").startswith("SAME") else None


def _windows(op: XlaOp, x: Array, neutral: Array, combine: object, pads: Pads) -> Array:
    """Apply `combine` to every window of x, padded by `pads` with the neutral element."""
    kernel = op.attr("kernel_shape")
    rank = len(kernel)
    return lax.reduce_window(
        x,
        neutral,
        combine,
        (1, 1, *kernel),
        (1, 1, *strides_of(op, rank)),
        ((0, 0), (0, 0), *pads),
        window_dilation=(1, 1, *dilations_of(op, rank)),
    )


def _pads(op: XlaOp, x: Array) -> tuple[Pads, Pads]:
    """Return the padding that counts, and that padding with the elements that `ceil_mode` adds."""
    kernel = op.attr("kernel_shape")
    pads = pads_of(op, x.shape[2:], kernel)
    extra = ceil_mode_pads(op, x.shape[2:], kernel, pads)
    return pads, [(before, after + more) for (before, after), more in zip(pads, extra, strict=True)]


@lowering("MaxPool", since=1, types=FLOATS | BYTES, check=_plain, along=only_first())
def max_pool(op: XlaOp, x: Array) -> Array:
    """Return the largest element of each window. Spec: ONNX MaxPool-22."""
    _, pads = _pads(op, x)
    lowest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min
    return _windows(op, x, np.array(lowest).astype(x.dtype), lax.max, pads)


@lowering("AveragePool", since=7, types=FLOATS, check=_plain, along=only_first())
def average_pool(op: XlaOp, x: Array) -> Array:
    """Return the mean of each window. With `count_include_pad`, padding counts as zeros. Spec: ONNX AveragePool-22."""
    pads, all_pads = _pads(op, x)
    zero = np.zeros((), x.dtype)
    total = _windows(op, x, zero, lax.add, all_pads)
    count = np.ones((1, 1), x.dtype)
    for axis, (pad, wide) in enumerate(zip(pads, all_pads, strict=True)):
        count = count[..., None] * _counts(op, axis, x.shape[2 + axis], pad, wide).astype(x.dtype)
    return total / np.maximum(count, 1)  # a window entirely in the padding gives 0


def _counts(op: XlaOp, axis: int, size: int, pad: tuple[int, int], wide: tuple[int, int]) -> Array:
    """Count the elements of one dimension for each window along it."""
    kernel = op.attr("kernel_shape")
    k, stride, dilation = kernel[axis], strides_of(op, len(kernel))[axis], dilations_of(op, len(kernel))[axis]
    counts = np.zeros(size + sum(wide))
    before, after = (0, sum(pad)) if op.attr("count_include_pad", 0) else (pad[0], 0)
    counts[before : before + size + after] = 1
    starts = np.arange(0, len(counts) - (k - 1) * dilation, stride)
    return counts[starts[:, None] + dilation * np.arange(k)].sum(1)


@lowering("LpPool", since=2, types=FLOATS, check=_plain, along=only_first())
def lp_pool(op: XlaOp, x: Array) -> Array:
    """Return (sum of |x| to the power p) to the power 1 / p, of each window. Spec: ONNX LpPool-22."""
    _, pads = _pads(op, x)
    p = op.attr("p", 2)
    return _windows(op, jnp.abs(x) ** p, np.zeros((), x.dtype), lax.add, pads) ** (1 / p)


def _spatial(x: Array) -> Sequence[int]:
    return tuple(range(2, x.ndim))


@lowering("GlobalAveragePool", since=1, types=FLOATS, along=only_first(2))
def global_average_pool(op: XlaOp, x: Array) -> Array:
    """Return the means, (N, C, spatial) -> (N, C, 1, ...). Spec: ONNX GlobalAveragePool-22."""
    return jnp.mean(x, _spatial(x), keepdims=True)


@lowering("GlobalMaxPool", since=1, types=FLOATS, along=only_first(2))
def global_max_pool(op: XlaOp, x: Array) -> Array:
    """Return the largest elements, (N, C, spatial) -> (N, C, 1, ...). Spec: ONNX GlobalMaxPool-22."""
    return jnp.max(x, _spatial(x), keepdims=True, initial=-np.inf)


@lowering("GlobalLpPool", since=2, types=FLOATS, along=only_first(2))
def global_lp_pool(op: XlaOp, x: Array) -> Array:
    """Return (sum of |x| to the power p) to the power 1 / p, of each image. Spec: ONNX GlobalLpPool-22."""
    p = op.attr("p", 2)
    return jnp.sum(jnp.abs(x) ** p, _spatial(x), keepdims=True) ** (1 / p)
