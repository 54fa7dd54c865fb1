"""Normalization by means and deviations. Statistics of 16-bit values are computed in float32."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from ort_lite.graph import Node
from ort_lite_xla.along import PaddedDims, from_axis, only_first, pointwise
from ort_lite_xla.operators.activations import MICROSOFT
from ort_lite_xla.operators.widening import in_float32
from ort_lite_xla.registry import BOOL, FLOATS, Array, PaddingMask, XlaOp, lowering


def _wide(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, np.float32))


def _standard(x: Array, axes: Sequence[int], epsilon: float) -> tuple[Array, Array, Array]:
    """Return (x - mean) / deviation, the mean and 1 / deviation, along the axes."""
    mean = jnp.mean(x, tuple(axes), keepdims=True)
    centred = x - mean
    inverse = lax.rsqrt(jnp.mean(centred * centred, tuple(axes), keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


def _channels(x: Array, like: Array) -> Array:
    """Reshape (C,) to (C, 1, ...), which broadcasts with (N, C, ...)."""
    return x.reshape(-1, *[1] * (like.ndim - 2))


def _inference(node: Node) -> str | None:
    if node.attr("training_mode", 0) or any(value is not None for value in node.outputs[1:]):
        return "training mode"
    return None if node.attr("spatial", 1) else "spatial = 0"


@lowering("BatchNormalization", since=7, types=FLOATS, check=_inference, along=only_first())
def batch_normalization(op: XlaOp, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + bias, by channel. Spec: ONNX BatchNormalization-15."""
    if x.ndim < 2:
        return (x - mean) * lax.rsqrt(variance + op.attr("epsilon", 1e-5)) * scale + bias
    factor = scale * lax.rsqrt(variance + np.array(op.attr("epsilon", 1e-5)).astype(variance.dtype))
    return ((x - _channels(mean, x)) * _channels(factor, x) + _channels(bias, x)).astype(x.dtype)


@lowering("InstanceNormalization", since=6, types=FLOATS, along=only_first())
def instance_normalization(op: XlaOp, x: Array, scale: Array, bias: Array) -> Array:
    """Standardize each channel of each image. Spec: ONNX InstanceNormalization-22."""
    y, _, _ = _standard(_wide(x), range(2, x.ndim), op.attr("epsilon", 1e-5))
    return (y * _channels(scale, x) + _channels(bias, x)).astype(x.dtype)


@lowering("GroupNormalization", since=18, types=FLOATS, along=only_first())
def group_normalization(op: XlaOp, x: Array, scale: Array, bias: Array) -> Array:
    """Standardize each group of channels. Scale and bias are per channel, before opset 21 per group.

    Spec: ONNX GroupNormalization-21.
    """
    groups = op.attr("num_groups")
    shape = (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    y, _, _ = _standard(_wide(x).reshape(shape), range(2, len(shape)), op.attr("epsilon", 1e-5))
    if op.version < 21:
        scale, bias = (jnp.repeat(v, x.shape[1] // groups) for v in (scale, bias))
    return (y.reshape(x.shape) * _channels(scale, x) + _channels(bias, x)).astype(x.dtype)


@lowering("LayerNormalization", since=1, types=FLOATS, along=from_axis(-1))
def layer_normalization(op: XlaOp, x: Array, scale: Array, bias: Array = None) -> tuple[Array, Array, Array]:
    """Standardize over the dimensions from `axis` on. Also returns mean and 1 / deviation. Spec: ONNX LayerNormalization-17."""
    axes = range(op.attr("axis", -1) % x.ndim, x.ndim)
    y, mean, inverse = _standard(_wide(x), axes, op.attr("epsilon", 1e-5))
    scaled = y.astype(x.dtype) * scale
    return (scaled if bias is None else scaled + bias), mean, inverse


def _check_scale(node: Node) -> str | None:
    x, scale = node.inputs[:2]
    if x is None or scale is None or x.dtype != scale.dtype:
        return "the scale has another type than the input"
    return "the second output, 1 / root" if len(node.outputs) > 1 and node.outputs[1] is not None else None


@lowering("RMSNormalization", since=23, types=FLOATS, along=from_axis(-1))
@lowering("SimplifiedLayerNormalization", since=1, types=FLOATS, along=from_axis(-1), check=_check_scale)
def rms_normalization(op: XlaOp, x: Array, scale: Array) -> Array:
    """Divide x by the root of its mean square over the dimensions from `axis` on. Spec: ONNX RMSNormalization-23."""
    wide, axes = _wide(x), tuple(range(op.attr("axis", -1) % x.ndim, x.ndim))
    inverse = lax.rsqrt(jnp.mean(wide * wide, axes, keepdims=True) + op.attr("epsilon", 1e-5))
    return (wide * inverse).astype(x.dtype) * scale


def _sum(dims: PaddedDims) -> list[PaddingMask]:
    return from_axis(-1)(dims) or pointwise(dims)


@lowering("SkipLayerNormalization", domain=MICROSOFT, types=FLOATS, along=_sum)
@in_float32
def skip_layer_normalization(
    op: XlaOp, x: Array, skip: Array, scale: Array, shift: Array = None, bias: Array = None
) -> tuple[Array, Array, Array, Array]:
    """Apply LayerNormalization to x + skip + bias. Also returns that sum. Spec: onnxruntime com.microsoft SkipLayerNormalization-1."""
    total = x + skip if bias is None else x + skip + bias
    y, mean, inverse = _standard(_wide(total), (x.ndim - 1,), op.attr("epsilon", 1e-12))
    scaled = y.astype(x.dtype) * scale
    statistics = (part.astype(jnp.float32) for part in (mean, inverse))
    return (scaled if shift is None else scaled + shift), *statistics, total


@lowering("SkipSimplifiedLayerNormalization", domain=MICROSOFT, types=FLOATS, along=_sum)
@in_float32
def skip_rms_normalization(
    op: XlaOp, x: Array, skip: Array, scale: Array, bias: Array = None
) -> tuple[Array, Array, Array, Array]:
    """Divide x + skip + bias by the root of its mean square. Also returns 0 for the mean, 1 / root, and that sum.

    Spec: onnxruntime com.microsoft SkipSimplifiedLayerNormalization-1.
    """
    total = x + skip if bias is None else x + skip + bias
    wide = _wide(total)
    inverse = lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + op.attr("epsilon", 1e-12))
    inverse = inverse.astype(jnp.float32)
    return (wide * inverse).astype(x.dtype) * scale, jnp.zeros_like(inverse), inverse, total


@lowering("LpNormalization", since=1, types=FLOATS)
def lp_normalization(op: XlaOp, x: Array) -> Array:
    """Divide x by its norm along `axis`; 0 where the norm is 0. Spec: ONNX LpNormalization-22."""
    axis = op.attr("axis", -1)
    norm = jnp.sum(jnp.abs(x), axis, keepdims=True) if op.attr("p", 2) == 1 else jnp.sqrt(jnp.sum(x * x, axis, keepdims=True))
    return jnp.where(norm == 0, 0, x / norm)


@lowering("MeanVarianceNormalization", since=9, types=FLOATS)
def mean_variance_normalization(op: XlaOp, x: Array) -> Array:
    """Standardize x over `axes`. Spec: ONNX MeanVarianceNormalization-13."""
    axes = tuple(op.attr("axes") or (0, 2, 3))
    wide = _wide(x)
    centred = wide - jnp.mean(wide, axes, keepdims=True)
    return (centred / (jnp.sqrt(jnp.mean(centred * centred, axes, keepdims=True)) + 1e-9)).astype(x.dtype)


@lowering("LRN", since=1, types=FLOATS, along=only_first())
def lrn(op: XlaOp, x: Array) -> Array:
    """Return x / (bias + alpha / size * sum of squares over `size` channels) ** beta. Spec: ONNX LRN-13."""
    size = op.attr("size")
    before = (size - 1) // 2
    pads = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
    window = (1, size, *[1] * (x.ndim - 2))
    squares = lax.reduce_window(x * x, np.zeros((), x.dtype), lax.add, window, [1] * x.ndim, pads)
    return x / (op.attr("bias", 1.0) + op.attr("alpha", 1e-4) / size * squares) ** op.attr("beta", 0.75)


def _no_training(node: Node) -> str | None:
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    return None if mode is None or (mode.constant is not None and not mode.constant.any()) else "training mode may be on"


@lowering("Dropout", since=7, types=(FLOATS, FLOATS, BOOL), check=_no_training, along=pointwise)
def dropout(op: XlaOp, x: Array, ratio: Array = None, training: Array = None) -> tuple[Array, Array]:
    """Return x and a mask that keeps all elements. Spec: ONNX Dropout-22."""
    return x, jnp.ones(x.shape, op.dtype(1)) if op.wants(1) else None
