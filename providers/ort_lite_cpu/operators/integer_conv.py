"""ConvInteger and QLinearConv, channels last; com.microsoft's QLinearConv may have channels in the last place by itself.

The sums are exact, in int32. Where a kernel has the last step of QLinearConv, they do not leave it; elsewhere the result is an
elementwise expression of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array, DType
from ort_lite.memory.recipes import derive
from ort_lite.shapes import ceildiv, equal, maximum, minimum, product, select
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import byte_tile, integer, integer_convolution, integer_winograd
from ort_lite_cpu.kernels.gemm.dot_depthwise import MOST_LINES, DepthwiseWindow, dot_depthwise, tap_words
from ort_lite_cpu.kernels.gemm.integer_depthwise import integer_depthwise
from ort_lite_cpu.lowering.attributes import check_windows
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, as_channels_last, bits, channels_last
from ort_lite_cpu.operators import integer_conv_costs as costs
from ort_lite_cpu.operators.byte_candidates import ByteProduct, byte_product
from ort_lite_cpu.operators.conv import geometry
from ort_lite_cpu.operators.convolutions import Geometry
from ort_lite_cpu.operators.integer_conv_candidates import ByteConv, ConvForm, choose_form, has_bytes, is_flat
from ort_lite_cpu.operators.integer_product import (
    PLAIN,
    ByteOperands,
    LastStep,
    Matrices,
    Packed,
    Rescale,
    emit_product,
    emit_starts,
    pack_constant,
    pack_later,
    quotient,
)
from ort_lite_cpu.operators.quantization import BYTES, formula, parameter, zero_point
from ort_lite_cpu.registry import operator


@operator("ConvInteger", since=10, types=BYTES)
def conv_integer(op: NodeLowering) -> None:
    """Emit the exact convolution in int32. Spec: ONNX ConvInteger-10."""
    shape = op.info().shape
    assert shape is not None
    op.set(0, _convolve(op, op.input(0, channels_last(len(shape))), (1, 2, 3), shape, None, None)[0])


@operator("QLinearConv", since=10, types=BYTES)
@operator("QLinearConv", domain="com.microsoft", types=BYTES)
def qlinear_conv(op: NodeLowering) -> None:
    """Emit ConvInteger, and requantize its sums. Spec: ONNX QLinearConv-10, onnxruntime QLinearConv-1."""
    shape, dtype = op.info().shape, op.raw(7).dtype
    assert shape is not None
    if min(op.attr("pads") or (0,)) < 0:
        raise op.reject(f"pads {list(op.attr('pads'))} should not be below zero")
    last = bool(op.attr("channels_last", 0))
    x = as_channels_last(op.input(0)) if last else op.input(0, channels_last(len(shape)))
    y = (shape[0], shape[-1], *shape[1:-1]) if last else shape
    trailing = 0 if last else len(shape) - 2
    scales = quotient(op, [parameter(op, 1), parameter(op, 4, trailing)], parameter(op, 6))
    step = Rescale(dtype, scales, zero=zero_point(op, 7))
    made, added, done = _convolve(op, x, (3, 2, 5), y, op.constant(8), step)
    if last:
        made = Tensor(made.dtype, shape, made.buffer)
    if done:
        op.set(0, made)
        return
    if op.has(8) and not added:
        bias = op.view(op.input(8), (*op.raw(8).shape, *(1,) * trailing))
        made = formula("wadd({x}, {bias})", made, bias=bias).tensor("int32")
    step.formula(made).define(op)


def _convolve(
    op: NodeLowering, x: Tensor, inputs: tuple[int, int, int], y: Shape, bias: Array | None, step: Rescale | None
) -> tuple[Tensor, bool, bool]:
    """Return conv(x - zero, w - its zero points) of shape y, stored channels last, if `bias` is added, and if it is rescaled.

    inputs: the numbers of the weight and of both zero points. Unless it is rescaled, it is the sums, int32.
    """
    weight, zero_x, zero_w = inputs
    sizes = _sizes(op, x.shape, op.raw(weight).shape, y)
    centred = _centre_weight(op, sizes, weight, zero_w)
    if sizes.is_depthwise:
        form = ConvForm(byte_tile.vector_tile(op.target))
    else:
        form = choose_form(ByteConv(_as_product(op, x.dtype, sizes), sizes, centred))
    case = IntegerConv(op, x, op.optional(zero_x), weight, zero_w, sizes, bias, centred, *form)
    kernel, packed = _form(case)
    fused = None if step is None or packed.terms is None or packed.zero_columns else _step(case, step)
    if op.has(8) and not packed.addends:
        fused = None
    dtype = "int32" if fused is None or step is None else step.dtype
    made = op.builder.new(dtype, y, channels_last(len(y)))
    kernel(case, packed, made, fused or PLAIN)
    return made, packed.addends, fused is not None


def _as_product(op: NodeLowering, left: DType, sizes: Geometry) -> ByteProduct:
    """Return the product of pixels and filters of a group. An open batch counts as one image if the size of images is known."""
    depth = product(sizes.kernel) * (sizes.channels // sizes.groups)
    pixels = sizes.numbers.result if all(isinstance(size, int) for size in sizes.result) else sizes.pixels
    return byte_product(op, left, pixels, sizes.outputs // sizes.groups, depth)


def _step(case: IntegerConv, step: Rescale) -> LastStep | None:
    """Return the last step as kernels take it, its factors in one row."""
    factor = step.factor
    if isinstance(factor, Tensor) and factor.constant is not None:
        factor = case.op.array(factor.constant.reshape(-1))
    return step._replace(factor=factor).rescaling(case.op, case.sizes.outputs)


class IntegerConv(NamedTuple):
    """A convolution of bytes that is being lowered."""

    op: NodeLowering
    x: Tensor
    zero: Tensor | None
    weight: int
    zero_w: int
    sizes: Geometry
    bias: Array | None
    centred: Array | None
    """The weight less its zero points; None unless both are constant, or if nothing reads it."""
    tile: byte_tile.DotTile | None
    """The tile that multiplies bytes of x; None: they are widened."""
    winograd: bool
    """True for Winograd's algorithm, as `choose_form` says."""

    @property
    def left(self) -> list[Tensor | None]:
        """Return the first operands of kernels: x and its zero point."""
        return [bits(self.x), None if self.zero is None else bits(self.zero)]

    @property
    def flip(self) -> int:
        """128 for an x of int8, 0 for uint8."""
        return integer.FLIPS[self.x.dtype]


Emission = Callable[[IntegerConv, Packed, Tensor, LastStep], None]


def _form(case: IntegerConv) -> tuple[Emission, Packed]:
    """Return how the convolution is computed, and its weight as that reads it."""
    sizes, source, centred = case.sizes, case.op.constant(case.weight), case.centred
    if source is not None and centred is not None:
        if sizes.is_depthwise:
            return _depthwise_form(case, source, centred)
        if case.winograd:
            return _emit_winograd, _pack_winograd(case, source, centred)
        if _has_lines(case, centred):
            return _emit_lines, _pack_lines(case, source, centred)
    packed = _filters(case)
    if sizes.is_pointwise:
        return _emit_pointwise, packed
    return _emit_windows, packed


def _centre_weight(op: NodeLowering, sizes: Geometry, weight: int, zero: int) -> Array | None:
    """Return the weight less its zero points, as it is where these are 0. None unless both are constant, and for one matrix."""
    source, away = op.constant(weight), op.constant(zero)
    if source is not None and source.dtype == np.int8 and not sizes.is_depthwise and away is not None and not away.any():
        return source
    return None if sizes.is_pointwise else _constant(op, weight, zero)


def _depthwise_form(case: IntegerConv, source: Array, centred: Array) -> tuple[Emission, Packed]:
    """Return how a depthwise convolution is computed, and its weight as that reads it."""
    op, sizes, tile, form = case.op, case.sizes, case.tile, _text(case.op, case.zero_w)
    taps = derive(np.reshape, centred, (sizes.groups, -1))
    addends = np.zeros(sizes.groups, np.int32) if case.bias is None else case.bias
    wide = tile is not None and sizes.groups >= tile.lanes and sizes.kernel[1] in range(1, MOST_LINES + 1)
    if wide and is_flat(sizes) and has_bytes(centred):
        shape = (sizes.groups, *centred.shape[-2:])
        words = op.pack(source, f"tap words {form}", lambda: tap_words(centred.reshape(shape)))
        terms = np.stack([taps.sum(1, dtype=np.int32), addends, np.zeros_like(addends)])
        return _emit_dot_depthwise, Packed(words, None, op.array(terms), addends=case.bias is not None)
    factors = op.pack(source, f"integer taps {form}", lambda: taps.T)
    return _emit_depthwise, Packed(factors, None, op.array(addends), addends=case.bias is not None)


def _emit_dot_depthwise(case: IntegerConv, packed: Packed, y: Tensor, step: LastStep) -> None:
    """y = step(conv(x - zero, w)) of an image that is padded first, one channel at a time."""
    op, sizes, tile = case.op, case.sizes, case.tile
    assert tile is not None and packed.terms is not None
    window = sizes.window
    padded = _pad(case, tile, 0)
    starts = emit_starts(op, packed.terms, case.zero, case.x.dtype, tile.middle)
    form: Any = (sizes.kernel[1], sizes.kernel[2], sizes.strides[2], tile.lanes)
    given: dict[str, Any] = {
        "types": ["u8", "i8", "i32", "f32", y.native],
        "work": sizes.work // 4,
        "form": DepthwiseWindow(*form),
    }
    lines: dict[str, Any] = {"step": window.sh, "dilation": window.dh}
    op.emit(
        dot_depthwise, [padded, packed.panels, starts, step.factors, y], g=sizes.shape, **lines, out=step.rescaling, **given
    )


def _pad(case: IntegerConv, tile: byte_tile.DotTile, beyond: Dim, edge: int = 1) -> Tensor:
    """Return the image with zero points around it, as bytes that the tile multiplies, and room for as many bytes behind it.

    It is that of a result whose height and width are multiples of `edge`.
    """
    op, g, window = case.op, case.sizes.shape, case.sizes.window
    h = maximum((ceildiv(g.oh, edge) * edge - 1) * window.sh + (window.kh - 1) * window.dh + 1, 0)
    wide = maximum((ceildiv(g.ow, edge) * edge - 1) * window.sw + window.kw, 0)
    size = g.n * h * wide * g.c
    padded = op.temporary("uint8", (size + beyond,))
    given: dict[str, Any] = {"h": h, "w": wide, "flip": case.flip, "middle": tile.middle, "work": size // 16}
    op.emit(integer_convolution.pad_image, [*case.left, padded], g=g, window=window, **given, types=["u8", "u8", "u8"])
    return padded


def _emit_depthwise(case: IntegerConv, packed: Packed, y: Tensor, step: LastStep) -> None:
    """y = step(conv(x - zero, w)), one channel at a time."""
    lanes, g, window = integer.integer_tile(case.op.target).lanes, case.sizes.shape, case.sizes.window
    operands = [case.x, case.zero, packed.panels, packed.terms, step.factors, y]
    types = [case.x.native, case.x.native, "i16", "i32", "f32", y.native]
    form: dict[str, Any] = {"lanes": lanes, "signed": case.x.dtype == "int8", "types": types, "work": case.sizes.work * 2}
    case.op.emit(integer_depthwise, operands, g=g, window=window, out=step.rescaling, **form)


def _emit_pointwise(case: IntegerConv, packed: Packed, y: Tensor, step: LastStep) -> None:
    """y = step(a product of pixels and filters)."""
    sizes = Matrices(1, case.sizes.pixels, case.sizes.outputs, case.sizes.channels)
    emit_product(case.op, ByteOperands(case.x, case.zero, packed, sizes, y.shape), y, step)


def _emit_windows(case: IntegerConv, packed: Packed, y: Tensor, step: LastStep) -> None:
    """y = step(conv(x - zero, w)) over the pixels of windows, gathered in scratch."""
    op, sizes, tile = case.op, case.sizes, case.tile
    depth = product(sizes.kernel) * (sizes.channels // sizes.groups)
    given: dict[str, Any] = {"g": sizes.shape, "window": sizes.window, "work": sizes.work}
    if tile is None or packed.terms is None:
        pairs = integer.integer_tile(op.target)
        size = integer.scratch_size(sizes.pixels, 2 * ceildiv(depth, 2), pairs.rows)
        operands = [*case.left, packed.panels, y, op.temporary("int16", (op.most_parts, size))]
        op.emit(integer_convolution.integer_conv, operands, **given, **pairs.statics, flip=case.flip, size=size)
        return
    size = byte_tile.scratch_bytes(sizes.pixels, depth, tile)
    starts = emit_starts(op, packed.terms, case.zero, case.x.dtype, tile.middle)
    operands = [*case.left, packed.panels, starts, step.factors, y, op.temporary("uint8", (op.most_parts, size))]
    types = ["u8", "u8", "i8", "i32", "f32", y.native, "u8"]
    numbers: list[Any] = [case.flip, size, int(packed.zero_columns)]
    left = integer_convolution.LeftBytes(*numbers)
    op.emit(integer_convolution.dot_conv, operands, **given, left=left, out=step.rescaling, tile=tile, types=types)


def _has_lines(case: IntegerConv, centred: Array) -> bool:
    """Return True if `dot_conv_lines` can compute it, and sooner than `dot_conv`: open lines of pixels count as long.

    It needs centred bytes, one group, two axes and adjacent taps.
    """
    sizes, tile = case.sizes, case.tile
    if tile is None or sizes.groups != 1 or sizes.is_pointwise:
        return False
    if not is_flat(sizes) or not has_bytes(centred):
        return False
    if not isinstance(sizes.result[2], int):
        return True
    if tile.amx:
        return sizes.result[2] >= byte_tile.FEW
    return costs.work_of_lines(sizes.numbers, tile) <= costs.work_of_windows(sizes.numbers, tile)


def _pack_lines(case: IntegerConv, source: Array, w: Array) -> Packed:
    """Return the weight as `dot_conv_lines` reads it."""
    op, tile, form = case.op, case.tile, _text(case.op, case.zero_w)
    assert tile is not None
    filters = derive(np.reshape, w, (w.shape[0], w.shape[1], -1, w.shape[-1]))
    key = f"lines {tile.columns} {tile.quads} {form}"
    return _with_terms(case, source, w, op.pack(source, key, lambda: integer_convolution.line_quads(filters, tile)))


def _with_terms(case: IntegerConv, source: Array, w: Array, panels: Tensor) -> Packed:
    """Return the packed weight with the sums of its filters and the bias."""
    op, tile, bias, form = case.op, case.tile, case.bias, _text(case.op, case.zero_w)
    assert tile is not None
    sums = w.reshape(len(w), -1).sum(1, dtype=np.int32)
    key = f"terms {tile.columns} {form} {None if bias is None else bias.tobytes()!r}"
    terms = op.pack(source, key, lambda: byte_tile.column_terms(sums, tile, bias))
    return Packed(panels, None, terms, addends=bias is not None, tile=tile)


def _emit_lines(case: IntegerConv, packed: Packed, y: Tensor, step: LastStep) -> None:
    """y = step(conv(x - zero, w)) of an image that is padded first."""
    op, sizes, tile = case.op, case.sizes, case.tile
    assert tile is not None
    g, window = sizes.shape, sizes.window
    padded = _pad(case, tile, tile.rows * window.sw * g.c + 4 * tile.quads)
    assert packed.terms is not None
    operands = [padded, packed.panels, emit_starts(op, packed.terms, case.zero, case.x.dtype, tile.middle), step.factors, y]
    given: dict[str, Any] = {"types": ["u8", "i8", "i32", "f32", y.native], "work": sizes.work // (16 if tile.amx else 4)}
    op.emit(integer_convolution.dot_conv_lines, operands, g=g, window=window, out=step.rescaling, tile=tile, **given)


def _pack_winograd(case: IntegerConv, source: Array, w: Array) -> Packed:
    """Return the weight as `integer_winograd` reads it."""
    op, tile, form = case.op, case.tile, _text(case.op, case.zero_w)
    assert tile is not None
    key = f"planes {tile.columns} {form}"
    return _with_terms(case, source, w, op.pack(source, key, lambda: integer_winograd.filter_planes(w, tile)))


def _emit_winograd(case: IntegerConv, packed: Packed, y: Tensor, step: LastStep) -> None:
    """y = step(conv(x - zero, w)) of an image that is padded first, a tile of 4x4 pixels at a time."""
    op, sizes, tile = case.op, case.sizes, case.tile
    assert tile is not None and packed.terms is not None
    channels = sizes.numbers.channels
    padded = _pad(case, tile, 2 * tile.lanes, integer_winograd.EDGE)
    tiles = minimum(
        integer_winograd.most_tiles(channels, tile), ceildiv(sizes.tiles(integer_winograd.EDGE), tile.rows) * tile.rows
    )
    size = integer_winograd.scratch_bytes(tiles, channels, tile)
    starts = emit_starts(op, packed.terms, case.zero, case.x.dtype, tile.middle)
    operands = [padded, packed.panels, starts, step.factors, y, op.temporary("uint8", (op.options.threads, size))]
    fields: Any = (tiles, size)
    given: dict[str, Any] = {"types": ["u8", "i8", "i32", "f32", y.native, "u8"], "work": sizes.work // 8, "slices": 1}
    pairs, blocks = tile._replace(middle=byte_tile.PAIRS), integer_winograd.TileBlocks(*fields)
    op.emit(integer_winograd.integer_winograd, operands, g=sizes.shape, blocks=blocks, out=step.rescaling, tile=pairs, **given)


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
    return derive(_centre, array, away)


def _centre(array: Array, away: Array | None) -> Array:
    if away is None:
        return array.astype(np.int16)
    centred: Array = np.subtract(array, away.reshape(-1, *(1,) * (array.ndim - 1)), dtype=np.int16)
    return centred


def _text(op: NodeLowering, zero: int) -> str:
    """Return the zero points of a packed weight as text, by which it is cached."""
    away = op.constant(zero)
    return "" if away is None else repr(away.tobytes())


def _filters(case: IntegerConv) -> Packed:
    """Return the weight as the kernels read it, packed while lowering or at run time."""
    op, weight, zero, sizes = case.op, case.weight, case.zero_w, case.sizes
    source, zeros = op.constant(weight), op.constant(zero)
    if source is not None and (zeros is not None or not op.has(zero)):
        matrices = derive(integer_convolution.filter_matrices, source, sizes.groups)
        points = np.zeros(1, source.dtype) if zeros is None else zeros
        shape = (sizes.groups, 1, -1) if points.size > 1 else (1, 1, 1)
        addends = None if case.bias is None else case.bias.reshape(sizes.groups, -1)
        return pack_constant(op, matrices, points.reshape(shape), source, f"filters {sizes.groups}", case.tile, addends)
    outputs, channels, taps = sizes.outputs // sizes.groups, sizes.channels // sizes.groups, product(sizes.kernel)
    depth, away = taps * channels, op.optional(zero)
    single = 1 if away is None else equal(away.size, 1)
    dims: dict[str, Any] = {"batch": sizes.groups, "k": depth, "n": outputs, "inner": channels}
    strides: dict[str, Any] = {"step": outputs * depth, "inner_step": taps, "outer_step": 1, "column": depth}
    steps: dict[str, Any] = {"zero_batch": select(single, 0, outputs), "zero_column": select(single, 0, 1)}
    flip = integer.FLIPS[op.raw(weight).dtype]
    return pack_later(op, op.input(weight), away, zeros, integer.Unpacked(**dims, **strides, **steps, flip=flip), case.tile)
