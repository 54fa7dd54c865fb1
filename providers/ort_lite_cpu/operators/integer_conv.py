"""ConvInteger and QLinearConv, channels last; com.microsoft's QLinearConv may have channels in the last place by itself.

The sums are exact, in int32; QLinearConv's result is an elementwise expression of them.
"""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.shapes import ceildiv, equal, maximum, product, select
from ort_lite.shapes.dims import Shape
from ort_lite_cpu.kernels.gemm import byte_dots, integer, integer_convolution
from ort_lite_cpu.kernels.gemm.integer_depthwise import integer_depthwise
from ort_lite_cpu.lowering.attributes import check_windows
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, as_channels_last, bits, channels_last
from ort_lite_cpu.operators.conv import geometry
from ort_lite_cpu.operators.convolutions import Geometry
from ort_lite_cpu.operators.integer_matmul import Matrices, Packed, emit_product, pack_constant, pack_later, quotient
from ort_lite_cpu.operators.quantization import BYTES, formula, parameter, requantize, zero_point
from ort_lite_cpu.registry import operator


@operator("ConvInteger", since=10, types=BYTES)
def conv_integer(op: NodeLowering) -> None:
    """Emit the exact convolution in int32. Spec: ONNX ConvInteger-10."""
    shape = op.info().shape
    assert shape is not None
    op.set(0, _sums(op, op.input(0, channels_last(len(shape))), op.optional(2), 1, 3, shape))


@operator("QLinearConv", since=10, types=BYTES)
@operator("QLinearConv", domain="com.microsoft", types=BYTES)
def qlinear_conv(op: NodeLowering) -> None:
    """Emit ConvInteger, and requantize its sums. Spec: ONNX QLinearConv-10, onnxruntime QLinearConv-1."""
    shape = op.info().shape
    assert shape is not None
    if min(op.attr("pads") or (0,)) < 0:
        raise op.reject(f"pads {list(op.attr('pads'))} should not be below zero")
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
    requantize(total, factor, zero_point(op, 7), op.raw(7).dtype).define(op)


def _sums(op: NodeLowering, x: Tensor, zero: Tensor | None, weight: int, weight_zero: int, y: Shape) -> Tensor:
    """Return conv(x - zero, input `weight` - input `weight_zero`), int32, of shape y, stored channels last."""
    shape = op.raw(weight).shape
    sizes = _sizes(op, x.shape, shape, y)
    source, centred = op.constant(weight), None if sizes.is_pointwise else _constant(op, weight, weight_zero)
    total = op.builder.new("int32", y, channels_last(len(y)))
    given: dict[str, Any] = {"g": sizes.shape, "window": sizes.window}
    if sizes.is_depthwise and source is not None and centred is not None:
        taps = centred.reshape(sizes.groups, -1).T
        factors = op.pack(source, f"integer taps {_form(op, weight_zero)}", lambda: taps)
        lanes = integer.integer_tile(op.target).lanes
        given |= {"lanes": lanes, "signed": x.dtype == "int8"}
        op.emit(integer_depthwise, [x, zero, factors, total], **given, work=sizes.work * 2)
        return total
    if _has_lines(op, sizes, centred):
        assert source is not None and centred is not None
        _emit_lines(op, x, zero, source, centred, _form(op, weight_zero), sizes, total)
        return total
    w = _filters(op, weight, weight_zero, sizes)
    if sizes.is_pointwise:
        emit_product(op, x, zero, w, total, Matrices(1, sizes.pixels, sizes.outputs, sizes.channels))
        return total
    left = [bits(x), None if zero is None else bits(zero), w.panels]
    given |= {"flip": integer.FLIPS[x.dtype], "work": sizes.work}
    depth, dots = product(sizes.kernel) * (sizes.channels // sizes.groups), byte_dots.dot_tile(op.target)
    if dots is not None and w.sums is not None:
        size = integer.scratch_size(sizes.pixels, 4 * ceildiv(depth, 4), dots.rows)
        operands = [*left, w.sums, w.zeros, total, op.temporary("uint8", (op.options.threads, size))]
        types = ["u8", "u8", "i8", "i32", "i32", "i32", "u8"]
        op.emit(integer_convolution.dot_conv, operands, **given, tile=dots, size=size, types=types)
        return total
    tile = integer.integer_tile(op.target)
    size = integer.scratch_size(sizes.pixels, depth, tile.rows)
    operands = [*left, total, op.temporary("int16", (op.options.threads, size))]
    op.emit(integer_convolution.integer_conv, operands, **given, **tile.statics, size=size)
    return total


def _has_lines(op: NodeLowering, sizes: Geometry, centred: Array | None) -> bool:
    """Return True if `dot_conv_lines` can compute it: centred bytes, one group, two axes, adjacent taps, lines that fill a tile."""
    if centred is None or byte_dots.dot_tile(op.target) is None or sizes.groups != 1 or sizes.is_pointwise:
        return False
    flat = sizes.size[0] == sizes.result[0] == sizes.kernel[0] == 1 and sizes.dilations[2] == 1 and sizes.pads[0] == 0
    inside = all(isinstance(pad, int) and pad >= 0 for pad in sizes.pads)
    wide = not isinstance(sizes.result[2], int) or sizes.result[2] >= byte_dots.FEW
    return flat and inside and wide and centred.size > 0 and bool(centred.min() >= -128 and centred.max() <= 127)


def _emit_lines(
    op: NodeLowering, x: Tensor, zero: Tensor | None, source: Array, w: Array, form: str, sizes: Geometry, total: Tensor
) -> None:
    """total = conv(x - zero, w) of an image that is padded first."""
    dots = byte_dots.dot_tile(op.target)
    assert dots is not None
    g, window = sizes.shape, sizes.window
    h = maximum((g.oh - 1) * window.sh + (window.kh - 1) * window.dh + 1, 0)
    wide = maximum((g.ow - 1) * window.sw + window.kw, 0)
    padded = op.temporary("uint8", (g.n * h * wide * g.c + dots.rows * window.sw * g.c + 4,))
    point = None if zero is None else bits(zero)
    operands, types = [bits(x), point, padded], ["u8", "u8", "u8"]
    given: dict[str, Any] = {"g": g, "window": window, "flip": integer.FLIPS[x.dtype]}
    around: dict[str, Any] = {"h": h, "w": wide, "middle": dots.middle}
    op.emit(integer_convolution.pad_image, operands, **given, **around, types=types, work=g.n * h * wide * g.c // 16)
    filters = w.reshape(w.shape[0], w.shape[1], -1, w.shape[-1])
    panels = op.pack(source, f"lines {dots.columns} {form}", lambda: integer_convolution.line_quads(filters, dots.columns))
    summed = filters.sum((1, 2, 3), dtype=np.int32)
    sums = op.pack(source, f"lines {dots.columns} {form} sums", lambda: byte_dots.per_column(summed, dots.columns))
    operands = [padded, point, panels, sums, total]
    types = ["u8", "u8", "i8", "i32", "i32"]
    op.emit(integer_convolution.dot_conv_lines, operands, **given, tile=dots, types=types, work=sizes.work // 4)


def _sizes(op: NodeLowering, x: Shape, w: Shape, y: Shape) -> Geometry:
    """Return the geometry after checking the attributes and the weight, which `geometry` trusts."""
    check_windows(op, len(x) - 2)
    op.agree(op.attr("kernel_shape") or w[2:], w[2:], "kernel_shape and weight differ")
    return geometry(op, x, w, y)


def _constant(op: NodeLowering, weight: int, zero: int) -> Array | None:
    """Return the weight less its zero points, one or one per output channel, in 16 bits; None unless both are constant."""
    array, away = op.constant(weight), op.constant(zero)
    if array is None or (away is None and op.has(zero)):
        return None
    if away is None:
        return array.astype(np.int16)
    return array.astype(np.int16) - away.astype(np.int16).reshape(-1, *(1,) * (array.ndim - 1))


def _form(op: NodeLowering, zero: int) -> str:
    """Return the zero points of a packed weight as text, by which it is cached."""
    away = op.constant(zero)
    return "" if away is None else repr(away.tobytes())


def _filters(op: NodeLowering, weight: int, zero: int, sizes: Geometry) -> Packed:
    """Return the weight as the kernels read it, packed while lowering or at run time."""
    source, zeros = op.constant(weight), op.constant(zero)
    if source is not None and (zeros is not None or not op.has(zero)):
        matrices = integer_convolution.filter_matrices(source, sizes.groups)
        points = np.zeros(1, source.dtype) if zeros is None else zeros
        shape = (sizes.groups, 1, -1) if points.size > 1 else (1, 1, 1)
        return pack_constant(op, matrices, points.reshape(shape), source, f"filters {sizes.groups}")
    outputs, channels, taps = sizes.outputs // sizes.groups, sizes.channels // sizes.groups, product(sizes.kernel)
    depth, away = taps * channels, op.optional(zero)
    single = 1 if away is None else equal(away.size, 1)
    dims: dict[str, Any] = {"batch": sizes.groups, "k": depth, "n": outputs, "inner": channels}
    strides: dict[str, Any] = {"step": outputs * depth, "inner_step": taps, "outer_step": 1, "column": depth}
    steps: dict[str, Any] = {"zero_batch": select(single, 0, outputs), "zero_column": select(single, 0, 1)}
    flip = integer.FLIPS[op.raw(weight).dtype]
    return pack_later(op, op.input(weight), away, zeros, integer.Unpacked(**dims, **strides, **steps, flip=flip))
