"""Quantized values: scale * (q - zero point)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Node
from ort_lite_xla.along import PaddedDims, by_axes, except_axis, left_rows, pointwise
from ort_lite_xla.operators.activations import MICROSOFT, normalize
from ort_lite_xla.operators.binary import quotient
from ort_lite_xla.operators.conv import convolve
from ort_lite_xla.operators.integers import by_column, by_row, multiply, per_filter, subtract_zero_point
from ort_lite_xla.registry import BYTES, FLOATS, SHORT, Array, PaddingMask, XlaOp, lowering


def _no_blocks(node: Node) -> str | None:
    return "block_size is not supported" if node.attr("block_size", 0) else None


def _along(dims: PaddedDims) -> list[PaddingMask]:
    """Spread a scale: by element if there is one, else along all dimensions but one."""
    scale = dims.operand(1)
    return except_axis(1)(dims) if scale and scale != (1,) else pointwise(dims)


def _spread(parameter: Array, x: Array, axis: int) -> Array:
    """Reshape a scale or zero point to broadcast with x: one for all, or one per element of a dimension."""
    if parameter.ndim == 0 or parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])


def _saturate(x: Array, dtype: np.dtype[Any]) -> Array:
    """Round x to even and saturate it to the integer type."""
    limits = np.iinfo(dtype)
    return jnp.clip(jnp.round(x), limits.min, limits.max).astype(dtype)


@lowering("QuantizeLinear", since=10, types=(FLOATS | {"int32"}, FLOATS, SHORT), check=_no_blocks, along=_along)
def quantize_linear(op: XlaOp, x: Array, scale: Array, zero: Array = None) -> Array:
    """Return round(x / scale) + zero, saturated. Spec: ONNX QuantizeLinear-25."""
    axis, target = op.attr("axis", 1), op.dtype()
    wide = jnp.promote_types(scale.dtype, np.float32)
    levels = jnp.round(quotient(x.astype(wide), _spread(scale, x, axis).astype(wide)))
    return _saturate(levels if zero is None else levels + _spread(zero, x, axis).astype(wide), target)


@lowering("DequantizeLinear", since=10, types=(SHORT | {"int32"}, FLOATS, SHORT | {"int32"}), check=_no_blocks, along=_along)
def dequantize_linear(op: XlaOp, x: Array, scale: Array, zero: Array = None) -> Array:
    """Return (x - zero) * scale. Spec: ONNX DequantizeLinear-25."""
    axis = op.attr("axis", 1)
    levels = subtract_zero_point(x, None if zero is None else _spread(zero, x, axis))
    return (levels.astype(np.float32) * _spread(scale, x, axis).astype(np.float32)).astype(op.dtype())


def _all_zero(dims: PaddedDims) -> list[PaddingMask]:
    """Mask all padded dimensions with 0, which the range of values always contains."""
    return by_axes(dims, range(len(dims.operand(0))), "zero")


@lowering("DynamicQuantizeLinear", since=11, types=frozenset({"float32"}), along=_all_zero)
def dynamic_quantize_linear(op: XlaOp, x: Array) -> tuple[Array, Array, Array]:
    """Quantize x to uint8 over the range of its values. Also returns scale and zero point. Spec: ONNX DynamicQuantizeLinear-11.

    The scale is 1 if all values are 0.
    """
    low, high = jnp.min(x, initial=0), jnp.max(x, initial=0)
    scale = jnp.where(high == low, np.float32(1), quotient(high - low, np.float32(255)))
    zero = jnp.clip(jnp.round(quotient(-low, scale)), 0, 255)
    levels = jnp.clip(jnp.round(quotient(x, scale)) + zero, 0, 255)
    return levels.astype(np.uint8), scale, zero.astype(np.uint8)


@lowering("MatMulInteger", since=10, types=BYTES, along=left_rows)
def matmul_integer(op: XlaOp, a: Array, b: Array, a_zero: Array = None, b_zero: Array = None) -> Array:
    """Return (A - a_zero) * (B - b_zero) in int32. Spec: ONNX MatMulInteger-10."""
    return multiply(a, b, a_zero, b_zero)


@lowering("QLinearMatMul", since=10, types=(BYTES, FLOATS, BYTES, BYTES, FLOATS, BYTES, FLOATS, BYTES), along=left_rows)
def qlinear_matmul(
    op: XlaOp, a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, y_scale: Array, y_zero: Array
) -> Array:
    """Multiply two quantized matrices. Spec: ONNX QLinearMatMul-21."""
    factor = quotient(_factor(a_scale, b_scale), y_scale.astype(np.float32))
    product = multiply(a, b, a_zero, b_zero).astype(np.float32)
    return _saturate(jnp.round(product * factor) + y_zero.astype(np.float32), y_zero.dtype)


def _factor(a_scale: Array, b_scale: Array) -> Array:
    """Return the product of the scales of two matrices: one number, one per row, or per column."""
    return by_row(a_scale).astype(np.float32) * by_column(b_scale).astype(np.float32)


@lowering("MatMulIntegerToFloat", domain=MICROSOFT, types=(BYTES, BYTES, FLOATS, FLOATS, BYTES, BYTES, FLOATS), along=left_rows)
def matmul_integer_to_float(
    op: XlaOp,
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    a_zero: Array = None,
    b_zero: Array = None,
    bias: Array = None,
) -> Array:
    """Multiply two quantized matrices and add a bias, in float32. Spec: onnxruntime com.microsoft MatMulIntegerToFloat-1."""
    y = multiply(a, b, a_zero, b_zero).astype(np.float32) * _factor(a_scale, b_scale)
    return (y if bias is None else y + bias).astype(op.dtype())


def _rows_and_zero(dims: PaddedDims) -> list[PaddingMask]:
    """Allow any number of rows, and mask them with 0, which the range of values always contains."""
    return left_rows(dims) or _all_zero(dims)


@lowering("DynamicQuantizeMatMul", domain=MICROSOFT, types=(FLOATS, BYTES, FLOATS, BYTES, FLOATS), along=_rows_and_zero)
def dynamic_quantize_matmul(op: XlaOp, a: Array, b: Array, b_scale: Array, b_zero: Array = None, bias: Array = None) -> Array:
    """Quantize a over the range of its values, and multiply. Spec: onnxruntime com.microsoft DynamicQuantizeMatMul-1."""
    levels, scale, zero = dynamic_quantize_linear(op, a)
    return matmul_integer_to_float(op, levels, b, scale, b_scale, zero, b_zero, bias)


def _check_vectors(node: Node) -> str | None:
    wide = [
        k
        for k in (4, 5)
        if k < len(node.inputs) and (v := node.inputs[k]) is not None and v.shape is not None and len(v.shape) > 1
    ]
    return f"input {wide[0]} has a number per block" if wide else None


@lowering(
    "QGemm",
    domain=MICROSOFT,
    types=(BYTES, FLOATS, BYTES, BYTES, FLOATS, BYTES, frozenset({"int32"}), FLOATS, BYTES),
    check=_check_vectors,
)
def q_gemm(
    op: XlaOp,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    c: Array = None,
    y_scale: Array = None,
    y_zero: Array = None,
) -> Array:
    """Return alpha * A * B + C, where C has the scale of the product; float32 without `y_scale`. Spec: onnxruntime QGemm-1."""
    a, b = (x.T if op.attr(name, 0) else x for x, name in ((a, "transA"), (b, "transB")))
    sums = multiply(a, b, a_zero, b_zero)
    sums = sums if c is None else sums + c
    factor = _factor(a_scale * np.float32(op.attr("alpha", 1.0)), b_scale)
    if y_scale is None:
        return sums.astype(np.float32) * factor
    levels = jnp.round(sums.astype(np.float32) * quotient(factor, y_scale))
    return _saturate(levels + y_zero.astype(np.float32), op.dtype())


@lowering("QLinearConv", since=10, types=(BYTES, FLOATS, BYTES, BYTES, FLOATS, BYTES, FLOATS, BYTES, frozenset({"int32"})))
def qlinear_conv(
    op: XlaOp,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    w: Array,
    w_scale: Array,
    w_zero: Array,
    y_scale: Array,
    y_zero: Array,
    b: Array = None,
) -> Array:
    """Convolve quantized tensors. Spec: ONNX QLinearConv-10."""
    y = convolve(op, subtract_zero_point(x, x_zero.reshape(())), subtract_zero_point(w, per_filter(w_zero, w)))
    trailing = [1] * (y.ndim - 2)
    y = y if b is None else y + b.reshape(-1, *trailing)
    scale = w_scale.reshape(()) if w_scale.size == 1 else w_scale.reshape(-1, *trailing)
    factor = quotient(x_scale.reshape(()) * scale, y_scale.reshape(()))
    return _saturate(jnp.round(y.astype(np.float32) * factor) + y_zero.reshape(()).astype(np.float32), y_zero.dtype)


@lowering("QLinearAdd", "QLinearMul", domain=MICROSOFT, types=(BYTES, FLOATS, BYTES, BYTES, FLOATS, BYTES, FLOATS, BYTES))
def qlinear_binary(
    op: XlaOp,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array = None,
) -> Array:
    """Add or multiply quantized tensors. Spec: onnxruntime com.microsoft QLinearAdd-1, QLinearMul-1."""
    left, right = (
        subtract_zero_point(x, zero).astype(np.float32) * scale
        for x, zero, scale in ((a, a_zero, a_scale), (b, b_zero, b_scale))
    )
    y = left + right if op.node.op_type == "QLinearAdd" else left * right
    levels = jnp.round(quotient(y, y_scale))
    return _saturate(levels if y_zero is None else levels + y_zero.astype(np.float32), op.dtype())


def _is_flat(node: Node) -> bool:
    """Return True if a QLinearSoftmax adds up all dimensions from its axis on, as Softmax did before opset 13."""
    return bool(node.attr("opset", 13) < 13)


def _along_rows(dims: PaddedDims) -> list[PaddingMask]:
    """Allow padded dimensions that are not added up: no byte stands for 0."""
    first, rank = int(dims.node.attr("axis", -1)), len(dims.operand(0))
    return by_axes(dims, range(first % max(rank, 1), rank) if _is_flat(dims.node) else [first], None)


@lowering("QLinearSoftmax", domain=MICROSOFT, types=(BYTES, FLOATS, BYTES, FLOATS, BYTES), along=_along_rows)
def qlinear_softmax(op: XlaOp, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Array:
    """Compute Softmax of quantized values. Spec: onnxruntime com.microsoft QLinearSoftmax-1.

    As in onnxruntime, the quotient of 1 and the result's scale is rounded down.
    """
    levels = subtract_zero_point(x, x_zero).astype(np.float32) * x_scale
    y = normalize(levels, jax.nn.softmax, op.attr("axis", -1), _is_flat(op.node))
    steps = jnp.floor(quotient(np.float32(1), y_scale))
    return _saturate(jnp.round(y * steps) + y_zero.astype(np.float32), op.dtype())
