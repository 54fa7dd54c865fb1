"""Kernels of convolutions of images that lie channels last: a product, depthwise, Winograd's, and one for everything else."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ort_lite.shapes import at_least, minimum, product
from ort_lite_cpu.kernels.gemm import channels, convolution, depthwise, pack, winograd
from ort_lite_cpu.kernels.gemm.gemm import depth_of
from ort_lite_cpu.kernels.gemm.geometry import ResultPlace
from ort_lite_cpu.kernels.gemm.microkernel import Tile, tall_tile, tile_for
from ort_lite_cpu.lowering.candidates import Candidate
from ort_lite_cpu.lowering.lowered import ResultRegion, whole
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.lowering.tensor import Tensor, channels_last
from ort_lite_cpu.operators.conv_costs import work_of_channels, work_of_depthwise, work_of_winograd
from ort_lite_cpu.operators.conv_layouts import moves_of_channels
from ort_lite_cpu.operators.conv_planes import work_that_waits
from ort_lite_cpu.operators.convolutions import ConvCase, Epilogue, Geometry, Weight
from ort_lite_cpu.operators.joined import locate

TILES, COLUMNS = 24, 32
"""About how many tiles of a Winograd transform make a block, and how many output channels are taken together."""
MANY_CHANNELS = 128
"""Above it a block takes twice the tiles: reading the filters again and again costs more than a transform that is far away.

With a stride of 2 a tile is transformed to 25 numbers and not 16: it is the other way round, so that the second cache level holds them.
"""
FEW_CHANNELS = 8
"""The number of channels below which a Winograd transform costs more than it saves."""


def _reject_product(case: ConvCase) -> str:
    sizes = case.sizes
    if reason := case.dynamic:
        return reason
    if sizes.is_depthwise or not sizes.sees_one_pixel:
        return "an output pixel sees several pixels, or it is depthwise"
    return ""


def _reject_depthwise(case: ConvCase) -> str:
    return "" if case.sizes.is_depthwise else "its groups have several channels or outputs, or its window is large"


def _reject_winograd(case: ConvCase, edge: int) -> str:
    if reason := case.dynamic:
        return reason
    op, sizes = case.op, case.sizes.column_as_line
    if op.raw(0).dtype != "float32" or not op.options.winograd:
        return "it computes in another type than float32, or the option winograd is off"
    if not _has_transform(sizes, edge):
        return f"no transform of tiles of {edge} has its window and strides"
    least = max(FEW_CHANNELS, tall_tile("f32", op.target).lanes)
    if not all(isinstance(n, int) and n // sizes.groups >= least for n in (sizes.channels, sizes.outputs)):
        return f"a group has fewer than {least} channels or outputs"
    if sizes.axes == 1 and not isinstance(product(sizes.result), int):
        return "the length of its lines is not known, and most are short"
    return ""


def _has_transform(sizes: Geometry, edge: int) -> bool:
    plain = sizes.dilations == (1, 1, 1) and sizes.size[0] == sizes.result[0] == 1
    kernels = {4: {(1, 3)}, 2: {(1, 3), (1, 5)}}[edge]
    if sizes.axes == 2:
        kernels = {(taps, taps) for _, taps in kernels}
    if sizes.strides == (1, 2, 2):
        return plain and edge == 2 and sizes.groups == 1 and sizes.kernel == (1, 3, 3)
    return plain and sizes.strides == (1, 1, 1) and sizes.kernel[0] == 1 and sizes.kernel[1:] in kernels


def _result(sizes: Geometry, y: Tensor, place: ResultPlace) -> ResultRegion:
    """Return the result as rows of pixels, at the offset and stride that `locate` returned."""
    return ResultRegion(y, sizes.pixels, sizes.outputs, place.at, place.ldy)


def _emit_product(case: ConvCase) -> None:
    op, sizes, weight, (x, y, epilogue) = case.op, case.sizes, case.weight, _operands(case)
    tile, (to, place) = tile_for(x.native, op.target), locate(y)
    w, groups = _filters(op, sizes, weight, tile.columns), sizes.groups
    n, k = sizes.outputs // groups, sizes.channels // groups
    operands = [x, w, epilogue.bias, epilogue.residual, to]
    product_of: Any = (sizes.pixels, n, k, groups)
    given = {"g": channels.GroupedProduct(*product_of), "place": place, "tile": tile, **epilogue.activation.arguments}
    in_place = (4, 3) if at_least(depth_of(tile.vectors), k) else None
    op.emit(channels.channels, operands, **given, work=sizes.work, inplace=in_place, result=_result(sizes, to, place))


def _emit_general(case: ConvCase) -> None:
    op, sizes, weight, (x, y, epilogue) = case.op, case.sizes, case.weight, _operands(case)
    tile = _tile(case)
    w = _filters(op, sizes, weight, tile.columns)
    scratch = op.temporary(x.dtype, (op.most_parts, minimum(convolution.BLOCK, sizes.pixels), depth_of(tile.vectors)))
    to, place = locate(y)
    operands = [x, w, epilogue.bias, epilogue.residual, to, scratch]
    given: dict[str, Any] = {"g": sizes.shape, "window": sizes.window, "place": place, "tile": tile}
    given |= epilogue.activation.arguments
    op.emit(convolution.conv, operands, **given, work=sizes.work, result=_result(sizes, to, place))


def _tile(case: ConvCase) -> Tile:
    """Return the register tile: a tall one if the outputs of a group fill two vectors."""
    tile, outputs = tile_for(case.native, case.op.target), case.sizes.outputs // case.sizes.groups
    two_vectors = isinstance(outputs, int) and tile.lanes < outputs <= 2 * tile.lanes
    return tall_tile(case.native, case.op.target) if two_vectors else tile


def _filters(op: NodeLowering, sizes: Geometry, weight: Weight, width: int) -> Tensor:
    """Return the panels of a weight, `width` columns wide."""
    if weight.tensor is not None:
        return _pack_filters(op, sizes, weight.tensor, width)
    groups, kernels = sizes.groups, op.kernels
    return weight.pack(op, f"filters {groups}, {width}", lambda array: pack.filters(array, groups, width, kernels))


def _pack_filters(op: NodeLowering, sizes: Geometry, weight: Tensor, width: int) -> Tensor:
    """Emit the packing of a weight that is computed at run time. Return its panels."""
    outputs, channels = sizes.outputs // sizes.groups, sizes.channels // sizes.groups
    across, taps = -(-outputs // width), product(sizes.kernel)
    w = op.temporary(weight.dtype, (sizes.groups * across, taps * channels, width))
    given: dict[str, Any] = {"groups": sizes.groups, "outputs": outputs, "channels": channels, "taps": taps, "width": width}
    op.emit(pack.pack_filters, [weight, w], **given, work=w.size * 2)
    return w


def _emit_depthwise(case: ConvCase) -> None:
    op, sizes, weight, (x, y, epilogue) = case.op, case.sizes, case.weight, _operands(case)
    if weight.tensor is None:
        w = weight.pack(op, "taps, channels", lambda array: array.reshape(len(array), -1).T)
    else:
        w = op.temporary(x.dtype, (product(sizes.kernel), sizes.channels))
        emit_permute(op, weight.tensor, w, w.shape[::-1], [1, 0])
    line: Any = (sizes.kernel[2], sizes.strides[2], sizes.dilations[2])
    assert all(isinstance(number, int) for number in line)
    operands, lanes = [x, w, epilogue.bias, epilogue.residual, y], tile_for(x.native, op.target).lanes
    form = depthwise.form_for(op.target, lanes, line, sizes.channels, sizes.result[2])
    given: dict[str, Any] = {"g": sizes.shape, "window": sizes.window, "form": form, **epilogue.activation.arguments}
    op.emit(depthwise.depthwise, operands, **given, work=sizes.work * 4, result=whole(y))


def _emit_winograd(case: ConvCase, edge: int) -> None:
    op, sizes, weight, (x, y, epilogue) = case.op, case.sizes.column_as_line, case.weight, _operands(case)
    tile = tall_tile(x.native, op.target)
    stride, axes = sizes.strides[2], sizes.axes
    assert isinstance(sizes.channels, int) and isinstance(sizes.outputs, int)
    assert isinstance(sizes.kernel[2], int) and isinstance(stride, int)
    groups, taps, outputs = sizes.groups, sizes.kernel[2], sizes.outputs // sizes.groups
    columns, block = _columns(outputs, tile.lanes), _block(sizes, edge, tile)
    tiles = sizes.tiles(edge)
    least = winograd.block_of(tiles, block, tile.rows) if isinstance(tiles, int) else block
    form, kernels = f"winograd {edge} {stride} {axes} {groups} {columns} {tile.columns}", op.kernels
    u = weight.pack(op, form, lambda array: winograd.filter_panels(array, groups, edge, columns, tile, kernels, stride, axes))
    size = winograd.scratch_size(edge, taps, stride, axes, block, sizes.channels // groups, columns)
    scratch = op.temporary(x.dtype, (op.options.threads, size))
    to, place = locate(y)
    operands = [x, u, epilogue.bias, epilogue.residual, to, scratch]
    compiled_for = winograd.WinogradForm(edge, taps, stride, axes, *tile, winograd.shares_for(least, tile))
    blocks = winograd.WinogradBlocks(block, columns, size)
    given: dict[str, Any] = {"g": sizes.images, "place": place, "blocks": blocks, "form": compiled_for}
    whole = outputs % tile.lanes == columns % tile.lanes == 0  # otherwise some channels are computed twice
    in_place = (4, 3) if whole else None
    given |= epilogue.activation.arguments
    result = _result(sizes, to, place)
    op.emit(winograd.winograd, operands, **given, slices=1, work=sizes.work // 2, inplace=in_place, result=result)


def _work_of_product(case: ConvCase) -> float:
    return work_of_channels(case.numbers, tile_for(case.native, case.op.target), dense=True)


def _work_of_general(case: ConvCase) -> float:
    return work_of_channels(case.numbers, _tile(case), dense=case.sizes.dilations[2] == 1)


def _winograd(edge: int) -> Candidate[ConvCase]:
    def work(case: ConvCase) -> float:
        sizes = case.sizes.column_as_line
        return work_of_winograd(sizes.numbers, edge, tall_tile("f32", case.op.target), sizes.axes)

    fits, emit = partial(_reject_winograd, edge=edge), partial(_emit_winograd, edge=edge)
    return Candidate(f"winograd-{edge}", fits, work, emit, _moves)


def _moves(case: ConvCase) -> float:
    return work_that_waits(case.op) + moves_of_channels(case.op, case.numbers)


CHANNELS_LAST: Final = (
    Candidate[ConvCase]("channels", _reject_product, _work_of_product, _emit_product, _moves),
    Candidate[ConvCase]("depthwise", _reject_depthwise, lambda case: work_of_depthwise(case.numbers), _emit_depthwise, _moves),
    _winograd(4),
    _winograd(2),
    Candidate[ConvCase]("conv", lambda case: "", _work_of_general, _emit_general, _moves),
)
"""Kernels for images that lie channels last."""


def _operands(case: ConvCase) -> tuple[Tensor, Tensor, Epilogue]:
    """Return (images, result, epilogue) of a kernel of channels last."""
    perm = channels_last(len(case.op.raw(0).shape))
    epilogue = case.epilogue(perm)
    return *case.images(perm), epilogue


def _block(sizes: Geometry, edge: int, tile: Tile) -> int:
    """Return about how many tiles a block takes, all of them if they are fewer: see `winograd.block_of`."""
    tiles, channels = sizes.tiles(edge), sizes.channels
    assert isinstance(channels, int)
    few = channels // sizes.groups <= MANY_CHANNELS
    twice = few if sizes.strides[2] == 2 else edge == 2 or not few
    about = -(-TILES // tile.rows) * tile.rows * (2 if twice else 1)
    if sizes.axes == 1:  # half as many numbers as of tiles along both axes
        assert isinstance(sizes.kernel[2], int)
        about *= winograd.input_extent(edge, sizes.kernel[2], 1) // 2
    step = winograd.step_of(tile.rows)
    return min(about, max(-(-tiles // step), 1) * step) if isinstance(tiles, int) else about


def _columns(outputs: int, lanes: int) -> int:
    """Return the output channels that are computed together, COLUMNS at most, so that the last ones make at least a vector."""
    if outputs <= COLUMNS:
        return outputs
    return next(columns for columns in range(COLUMNS, 0, -1) if outputs % columns == 0 or outputs % columns >= lanes)
