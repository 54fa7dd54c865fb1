"""com.microsoft's operators on quantised tensors: dequantised, computed in float32, quantised again.

Both conversions are elementwise expressions, so that a chain of such operators is one loop. Sources: onnxruntime's contrib
operator documentation, QLinearAdd-1 and so on.
"""

from functools import partial

import numpy as np

from ort_lite.dtypes import DType
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, as_channels_last, channels_last, reread
from ort_lite_cpu.operators.pooling import emit_global, emit_pool
from ort_lite_cpu.operators.quantization import (
    BYTES,
    as_float,
    dequantize,
    formula,
    parameter,
    quantize,
    requantize,
    zero_point,
)
from ort_lite_cpu.operators.slices import emit_concat
from ort_lite_cpu.operators.softmax import by_rows, emit_softmax
from ort_lite_cpu.registry import operator
from ort_lite_cpu.types import NATIVE_TYPES


def _input(op: NodeLowering, index: int) -> Tensor:
    """Return the float32 values of the quantised input whose scale and zero point follow it, not computed yet."""
    return dequantize(op.raw(index), parameter(op, index + 1), zero_point(op, index + 2)).tensor()


def _finish(op: NodeLowering, y: Tensor, scale: int) -> None:
    """Set output 0 to y, quantized with the scale in input `scale` and the zero point behind it."""
    quantize(op, y, parameter(op, scale), zero_point(op, scale + 1), _dtype(op)).define(op)


def _dtype(op: NodeLowering) -> DType:
    dtype = op.info().dtype
    assert dtype is not None
    return dtype


@operator("QLinearAdd", "QLinearMul", domain="com.microsoft", types=BYTES)
def qlinear_binary(op: NodeLowering) -> None:
    """Emit QLinearAdd or QLinearMul of a, its scale and zero point, the same of b, scale and zero point of the result; broadcast."""
    sign = "+" if op.node.op_type == "QLinearAdd" else "*"
    text = f'quantize(({{x}} {sign} {{y}}) / {{scale}}, {{zero}}, "{NATIVE_TYPES[_dtype(op)]}")'
    zero = zero_point(op, 7)
    formula(text, _input(op, 0), y=_input(op, 3), scale=parameter(op, 6), zero=0.0 if zero is None else zero).define(op)


@operator("QLinearWhere", domain="com.microsoft", types=frozenset({"bool"}))
def qlinear_where(op: NodeLowering) -> None:
    """Emit QLinearWhere of a condition, x, scale, zero point, the same of y, scale and zero point of the result; broadcast."""
    own = parameter(op, 7), parameter(op, 8)
    sides = []
    for index in (1, 4):
        alike = isinstance(own[0], float) and own == (parameter(op, index + 1), parameter(op, index + 2))
        sides.append(op.raw(index) if alike else quantize(op, _input(op, index), *own, _dtype(op)).tensor(_dtype(op)))
    define(op, "select({0}, {1}, {2})", [op.raw(0), *sides])


@operator("QLinearSigmoid", domain="com.microsoft", types=BYTES)
def qlinear_sigmoid(op: NodeLowering) -> None:
    """Compute Sigmoid of quantized values. Spec: onnxruntime QLinearSigmoid-1."""
    _finish(op, formula("sigmoid({x})", _input(op, 0)).tensor(cost=0.25), 3)


@operator("QLinearLeakyRelu", domain="com.microsoft", types=BYTES)
def qlinear_leaky_relu(op: NodeLowering) -> None:
    """Compute LeakyRelu of quantized values. Spec: onnxruntime QLinearLeakyRelu-1."""
    text = "select({x} >= like({x}, 0), {x}, {x} * {alpha})"
    _finish(op, formula(text, _input(op, 0), alpha=float(op.attr("alpha", 0.01))).tensor(), 3)


@operator("QLinearSoftmax", domain="com.microsoft", types=BYTES)
def qlinear_softmax(op: NodeLowering) -> None:
    """Emit QLinearSoftmax. Attribute `opset` says if rows are an axis, as since 13, or all that lies from it on.

    As in onnxruntime, the quotient of 1 and the result's scale is rounded down.
    """
    x = op.store(_input(op, 0))
    y = op.temporary("float32", x.shape)
    by_rows(op, x, y, op.attr("axis", -1), op.attr("opset", 13) < 13, partial(emit_softmax, op))
    scale = parameter(op, 3)
    steps = (
        float(np.floor(np.float32(1 / scale)))
        if isinstance(scale, float)
        else formula("floor(like({x}, 1) / {x})", scale).tensor()
    )
    requantize(y, steps, zero_point(op, 4), _dtype(op)).define(op)


@operator("QLinearGlobalAveragePool", domain="com.microsoft", types=BYTES)
def qlinear_global_average_pool(op: NodeLowering) -> None:
    """Emit QLinearGlobalAveragePool: means of the integers, which are exact, then scale and zero point."""
    x = op.store(as_float(_channels_last(op)), channels_last(len(op.raw(0).shape)))
    y = op.builder.new("float32", (*x.shape[:2], *(1,) * (len(x.shape) - 2)), x.perm)
    emit_global(op, x, y, "average")
    _finish(op, dequantize(_own_order(op, y), parameter(op, 1), zero_point(op, 2)).tensor(), 3)


@operator("QLinearAveragePool", domain="com.microsoft", types=BYTES)
def qlinear_average_pool(op: NodeLowering) -> None:
    """Compute AveragePool of quantized values. Halves are rounded with the zero point. Spec: onnxruntime QLinearAveragePool-1."""
    x = dequantize(_channels_last(op), parameter(op, 1), zero_point(op, 2)).tensor()
    x = op.store(x, channels_last(len(x.shape)))
    shape = op.info().shape
    assert shape is not None
    if op.attr("channels_last", 0):
        shape = (shape[0], shape[-1], *shape[1:-1])
    y = op.builder.new("float32", shape, x.perm)
    emit_pool(op, x, y, "average_padded" if op.attr("count_include_pad", 0) else "average")
    quantize(op, _own_order(op, y), parameter(op, 3), zero_point(op, 4), _dtype(op), zero_first=True).define(op)


def _channels_last(op: NodeLowering) -> Tensor:
    """Return input 0 as a tensor (N, C, spatial axes); with attribute `channels_last` C is its last axis."""
    if len(op.raw(0).shape) < 3:
        raise op.reject(f"an input of rank {len(op.raw(0).shape)}, expected 3 or more")
    return as_channels_last(op.input(0)) if op.attr("channels_last", 0) else op.raw(0)


def _own_order(op: NodeLowering, y: Tensor) -> Tensor:
    """Return y (N, C, spatial axes), stored channels last, with the axes that output 0 has."""
    shape = op.info().shape
    assert shape is not None
    return reread(y, y.dtype, shape) if op.attr("channels_last", 0) else y


@operator("QLinearConcat", domain="com.microsoft", types=BYTES, typed_by=2)
def qlinear_concat(op: NodeLowering) -> None:
    """Emit QLinearConcat of scale and zero point of the result, then tensor, scale and zero point of each input."""
    if len(op.node.inputs) % 3 != 2:
        raise op.reject(f"{len(op.node.inputs)} inputs: scale, zero point, then three for each tensor")
    scale, zero = parameter(op, 0), zero_point(op, 1)
    tensors = []
    for index in range(2, len(op.node.inputs), 3):
        own = op.raw(index).dtype, parameter(op, index + 1), zero_point(op, index + 2)
        if isinstance(scale, float) and own == (_dtype(op), scale, zero):
            tensors.append(op.input(index))
        else:
            tensors.append(op.store(quantize(op, _input(op, index), scale, zero, _dtype(op)).tensor(_dtype(op))))
    y = op.output(0)
    emit_concat(op, tensors, y, op.attr("axis") % len(y.shape))
