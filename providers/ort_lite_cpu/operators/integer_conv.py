"""ConvInteger and QLinearConv, channels last; com.microsoft's QLinearConv may have channels in the last place by itself.

The sums are exact, in int32; QLinearConv's result is an elementwise expression of them.
"""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.shapes import ceildiv, equal, product, select
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import integer, integer_convolution
from ort_lite_cpu.kernels.gemm.integer_depthwise import integer_depthwise
from ort_lite_cpu.lowering.attributes import check_groups, check_windows
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, as_channels_last, bits, channels_last
from ort_lite_cpu.operators.conv import geometry
from ort_lite_cpu.operators.convolutions import Geometry
from ort_lite_cpu.operators.integer_matmul import Matrices, Packed, emit_pack_pairs, emit_product, quotient
from ort_lite_cpu.operators.quantization import BYTES, formula, parameter, requantized, zero_point
from ort_lite_cpu.registry import operator


@operator("ConvInteger", since=10, types=BYTES)
def conv_integer(op: NodeLowering) -> None:
    """Spec: ONNX ConvInteger-10."""
    shape = op.info().shape
    assert shape is not None
    one_or_each(op, 2)
    op.set(0, _sums(op, op.input(0, channels_last(len(shape))), op.optional(2), 1, 3, shape))


@operator("QLinearConv", since=10, types=BYTES)
@operator("QLinearConv", domain="com.microsoft", types=BYTES)
def qlinear_conv(op: NodeLowering) -> None:
    """Spec: ONNX QLinearConv-10, onnxruntime QLinearConv-1."""
    shape = op.info().shape
    assert shape is not None
    for index in (1, 2, 6, 7):
        one_or_each(op, index)
    one_or_each(op, 4, op.raw(3).shape[0])
    if op.has(8):
        op.agree(op.raw(8).shape, op.raw(3).shape[:1], "bias and output channels differ")
    perm = channels_last(len(shape))
    if op.attr("channels_last", 0):
        x, trailing = as_channels_last(op.input(0)), 0
        total = _sums(op, x, op.optional(2), 3, 5, (shape[0], shape[-1], *shape[1:-1]))
        total = Tensor(total.dtype, shape, total.buffer)
    else:
        trailing = len(perm) - 2
        total = _sums(op, op.input(0, perm), op.optional(2), 3, 5, shape)
    if op.has(8):
        bias = op.view(op.input(8), (*op.raw(8).shape, *(1,) * trailing))
        total = formula("wadd({x}, {bias})", total, bias=bias).tensor("int32")
    factor = quotient(op, [parameter(op, 1), parameter(op, 4, trailing)], parameter(op, 6))
    requantized(total, factor, zero_point(op, 7), op.raw(7).dtype).define(op)


def _sums(op: NodeLowering, x: Tensor, zero: Tensor | None, weight: int, weight_zero: int, y: Shape) -> Tensor:
    """conv(x - zero, input `weight` - input `weight_zero`), int32, of shape y and stored channels last."""
    shape = op.raw(weight).shape
    sizes = _sizes(op, x.shape, shape, y)
    one_or_each(op, weight_zero, sizes.outputs)
    source, centred = op.constant(weight), _constant(op, weight, weight_zero)
    total = op.lowering.new("int32", y, channels_last(len(y)))
    if sizes.is_depthwise and source is not None and centred is not None:
        taps = centred.reshape(sizes.groups, -1).T
        w = op.packed(source, f"integer taps {_form(op, weight_zero)}", lambda: taps)
        lanes, signed = integer.integer_tile(op.target).lanes, x.dtype == "int8"
        op.emit(integer_depthwise, [x, zero, w, total], **sizes.named, lanes=lanes, signed=signed, work=sizes.work * 2)
        return total
    tile = integer.integer_tile(op.target)
    w = _filters(op, weight, weight_zero, centred, sizes, tile.columns)
    if sizes.is_pointwise:
        emit_product(op, x, zero, Packed(w), total, Matrices(1, sizes.pixels, sizes.outputs, sizes.channels))
        return total
    size = integer.scratch_size(sizes.pixels, product(sizes.kernel) * (sizes.channels // sizes.groups), tile.rows)
    operands = [bits(x), None if zero is None else bits(zero), w, total, op.temporary("int16", (op.options.threads, size))]
    given = {**sizes.named, **tile.statics, "groups": sizes.groups, "flip": integer.FLIPS[x.dtype]}
    op.emit(integer_convolution.integer_conv, operands, **given, size=size, work=sizes.work)
    return total


def _sizes(op: NodeLowering, x: Shape, w: Shape, y: Shape) -> Geometry:
    """As `geometry`, which believes the attributes and the weight."""
    check_windows(op, len(x) - 2, y[2:])
    groups = op.attr("group", 1)
    check_groups(op, w[0], groups)
    op.agree([x[1]], [w[1] * groups], "channels of input and weight differ")
    op.agree(op.attr("kernel_shape") or w[2:], w[2:], "kernel_shape and weight differ")
    return geometry(op, x, w, y)


def one_or_each(op: NodeLowering, index: int, count: Dim = 1) -> None:
    """A scale or zero point has one number, or one for each of `count` output channels."""
    if op.has(index):
        size = op.raw(index).size
        fits = select(equal(size, 1), 1, equal(size, count))
        op.require(fits, f"input {index} has {{0}} numbers, expected 1, or one for each of {{1}} output channels", size, count)


def _constant(op: NodeLowering, weight: int, zero: int) -> Array | None:
    """The weight less its zero points, one or one an output channel, in 16 bits, where both are constant."""
    array, away = op.constant(weight), op.constant(zero)
    if array is None or (away is None and op.has(zero)):
        return None
    if away is None:
        return array.astype(np.int16)
    return array.astype(np.int16) - away.astype(np.int16).reshape(-1, *(1,) * (array.ndim - 1))


def _form(op: NodeLowering, zero: int) -> str:
    away = op.constant(zero)
    return "" if away is None else repr(away.tobytes())


def _filters(op: NodeLowering, weight: int, zero: int, centred: Array | None, sizes: Geometry, width: int) -> Tensor:
    """The weight as the kernels read it, packed while lowering or at run time."""
    source = op.constant(weight)
    if source is not None and centred is not None:
        form = f"integer filters {sizes.groups} {width} {_form(op, zero)}"
        return op.packed(source, form, lambda: integer_convolution.integer_filters(centred, sizes.groups, width))
    w, zeros = op.input(weight), op.optional(zero)
    outputs, channels, taps = sizes.outputs // sizes.groups, sizes.channels // sizes.groups, product(sizes.kernel)
    depth = taps * channels
    out = op.temporary("int16", (sizes.groups, ceildiv(outputs, width), ceildiv(depth, 2), width, 2))
    single = 1 if zeros is None else equal(zeros.size, 1)
    dims = {"batch": sizes.groups, "k": depth, "n": outputs, "inner": channels}
    strides = {"step": outputs * depth, "inner_step": taps, "outer_step": 1, "column": depth}
    steps = {"zero_batch": select(single, 0, outputs), "zero_column": select(single, 0, 1)}
    emit_pack_pairs(op, w, zeros, out, **dims, **strides, **steps)
    return out
