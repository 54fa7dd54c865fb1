"""Convolutions of images in ONNX's own order by vectors of pixels."""

from __future__ import annotations

from typing import Any, Final

from ort_lite.shapes import ceildiv, maximum, minimum, product
from ort_lite_cpu.kernels.gemm import pack, pixels
from ort_lite_cpu.kernels.gemm.microkernel import Tile
from ort_lite_cpu.lowering.candidates import Candidate
from ort_lite_cpu.lowering.lowered import whole
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.conv_costs import work_of_pixels
from ort_lite_cpu.operators.conv_layouts import moves_of_pixels
from ort_lite_cpu.operators.convolutions import ConvCase, Geometry


def _reject_pixels(case: ConvCase) -> str:
    sizes = case.sizes
    if sizes.is_pointwise or sizes.is_depthwise:
        return "it is pointwise or depthwise"
    numbers = (sizes.channels, sizes.outputs, *sizes.kernel, *sizes.strides, *sizes.dilations)
    known = all(isinstance(number, int) for number in numbers)
    return case.dynamic or ("" if known else "a size of its window or its channels is not known")


def _work(case: ConvCase) -> float:
    numbers = case.sizes.plane_as_line.numbers
    return work_of_pixels(numbers, pixels.pixel_tile(case.native, case.op.target, numbers.outputs))


def _emit_pixels(case: ConvCase) -> None:
    op, sizes, weight, (x, y) = case.op, case.sizes.plane_as_line, case.weight, case.images(None)
    epilogue = case.epilogue(None)
    assert isinstance(sizes.outputs, int)
    groups, parts, channels = sizes.groups, op.most_parts, sizes.channels // sizes.groups
    tile = pixels.pixel_tile(x.native, op.target, sizes.outputs // groups)
    kernels = op.kernels
    w = weight.pack(op, f"pixels {groups}, {tile.rows}", lambda array: pack.filters(array, groups, tile.rows, kernels))
    cut = _blocks(op, sizes, tile)
    (kd, kh, kw), (_, sh, sw), (_, dh, dw) = sizes.kernel, sizes.strides, sizes.dilations
    lines, wide = (cut.heights - 1) * sh + (kh - 1) * dh + 1, cut.across * tile.lanes + (kw - 1) * dw // sw
    table = op.temporary("int64", (parts, product(sizes.kernel) * channels))
    scratch = op.temporary(x.dtype, (parts, channels * kd * lines * sw * wide))
    operands = [x, w, epilogue.bias, epilogue.residual, y, table, scratch]
    given = {"g": sizes.shape, "window": sizes.window, "cut": cut, **epilogue.activation.arguments}
    op.emit(pixels.conv_pixels, operands, **given, work=sizes.work, result=whole(y))


def _blocks(op: NodeLowering, sizes: Geometry, tile: Tile) -> pixels.PixelBlocks:
    """Return the sizes of blocks; blocks of a line start where a tile does."""
    (kd, kh, kw), (_, sh, sw), (_, dh, dw) = sizes.kernel, sizes.strides, sizes.dilations
    copies, reach = sizes.channels // sizes.groups * kd * sw, (kh - 1) * dh + 1
    shares = op.most_parts
    oh, ow = sizes.result[1:]
    tiles = ceildiv(ceildiv(ow, tile.columns), maximum(ceildiv(shares, maximum(oh, 1)), 1))
    across = maximum(minimum(tiles, pixels.BLOCK // (copies * reach * tile.columns)), 1) * tile.vectors
    wide = across * tile.lanes + (kw - 1) * dw // sw
    heights = minimum((pixels.BLOCK // (copies * wide) - reach) // sh + 1, ceildiv(oh, shares))
    cut: Any = (maximum(heights, 1), across, *tile)
    return pixels.PixelBlocks(*cut)


PIXELS: Final = Candidate[ConvCase](
    "conv_pixels", _reject_pixels, _work, _emit_pixels, lambda case: moves_of_pixels(case.op, case.numbers)
)
"""The kernel whose vectors are pixels of a line."""
