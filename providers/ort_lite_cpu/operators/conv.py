"""Conv and its fused form, over 1 to 3 spatial axes, on channels-last activations; the choice among kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite.shapes import at_least, equal, maximum, minimum, product, same
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import channels, convolution, depthwise, pack, winograd
from ort_lite_cpu.kernels.gemm.activation import NONE, Activation, activation, parameter_counts
from ort_lite_cpu.kernels.gemm.gemm import depth_of
from ort_lite_cpu.kernels.gemm.geometry import ResultPlace
from ort_lite_cpu.kernels.gemm.microkernel import Tile, tall_tile, tile_for
from ort_lite_cpu.lowering.attributes import check_fit, check_windows
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.lowering.lowered import ResultRegion, whole
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.lowering.tensor import Tensor, channels_last
from ort_lite_cpu.operators.conv_pixels import compare_with_channels, emit_pixels
from ort_lite_cpu.operators.conv_planes import conv_planes, reject_planes
from ort_lite_cpu.operators.convolutions import Epilogue, Geometry, Triple, Weight
from ort_lite_cpu.operators.joined import locate, output_in_concat
from ort_lite_cpu.operators.rounded import rounding_behind
from ort_lite_cpu.registry import REAL, operator

TILES, COLUMNS = 24, 32
"""About how many tiles of a Winograd transform make a block, and how many output channels are taken together."""
MANY_CHANNELS = 128
"""Above it a block takes twice the tiles: reading the filters again and again costs more than a transform that is far away.

With a stride of 2 a tile is transformed to 25 numbers and not 16: it is the other way round, so that the second cache level holds them.
"""


# --- Operators
@operator("Conv", types=REAL)
def conv(op: NodeLowering) -> None:
    """Spec: ONNX Conv-22."""
    _conv(op, NONE)


@operator("FusedConv", domain="com.microsoft", types=REAL)
def fused_conv(op: NodeLowering) -> None:
    """activation(Conv + Z). Spec: onnxruntime FusedConv-1."""
    name = op.attr("activation", "")
    act = activation(name, op.attr("activation_params") or ())
    if act is None:
        raise op.reject(f"activation {name!r}")
    if len(op.attr("activation_params") or ()) not in (0, *parameter_counts(name)):
        raise op.reject(f"activation_params {list(op.attr('activation_params'))} for activation {name!r}")
    _conv(op, act)


def _conv(op: NodeLowering, act: Activation) -> None:
    """Emit a convolution together with the rounding Casts that follow it (see `rounded`)."""
    act, behind = rounding_behind(op, act)
    _convolve(op, act)
    value = op.node.outputs[0]
    if behind and value is not None:
        op.values.do_with(op.values.tensors[value], value, behind)


class ConvCase(Record):
    """A convolution of a node's input 0, for its candidates."""

    op: NodeLowering
    sizes: Geometry
    weight: Weight
    act: Activation


def _convolve(op: NodeLowering, act: Activation) -> None:
    """Emit a convolution, and add input 3 if the node has one."""
    x, w, y = op.raw(0).shape, op.raw(1).shape, op.info().shape
    assert y is not None
    sizes = geometry(op, x, w, y)
    _require(op, sizes, x, w, y, op.raw(3) if op.has(3) else None)
    array = op.constant(1)
    case = ConvCase(op, sizes, Weight(array, None if array is not None else op.input(1), array), act)
    choose(op, LAYOUTS, case).emit(case)


def _emit_planes(case: ConvCase) -> None:
    op = case.op
    residual = op.input(3) if op.has(3) else None
    conv_planes(op, case.sizes, case.weight, Epilogue(op.optional(2), residual, case.act))


def _emit_pixels(case: ConvCase) -> None:
    _emit_in(case, None, emit_pixels)


def _emit_channels_last(case: ConvCase) -> None:
    _emit_in(case, channels_last(len(case.op.raw(0).shape)), emit_conv)


def _emit_in(case: ConvCase, perm: tuple[int, ...] | None, emit: Callable[..., None]) -> None:
    op = case.op
    epilogue = Epilogue(op.optional(2), op.input(3, perm) if op.has(3) else None, case.act)
    alone = perm is None or case.sizes.is_depthwise or epilogue.residual is not None
    image = op.input(0, perm)
    emit(op, case.sizes, image, case.weight, op.output(0, perm) if alone else output_in_concat(op), epilogue)


def _dynamic(case: ConvCase | ChannelsLast) -> str:
    return "its weight is computed when the model runs" if case.weight.array is None else ""


def reject_pixels(op: NodeLowering, sizes: Geometry) -> str:
    """Return why `emit_pixels` does not compute the convolution of input 0 by a constant in ONNX's own layout, or "" if it does."""
    x = op.raw(0)
    if sizes.is_pointwise or sizes.is_depthwise:
        return "it is pointwise or depthwise"
    if _winograd_edge(op, sizes, x):
        return "Winograd's convolution fits"
    tile = _tile(op, sizes, x)
    return compare_with_channels(op, sizes, tile, _groups_to_merge(sizes, tile.least_columns))


LAYOUTS: Final = (
    Candidate[ConvCase]("planes", lambda case: reject_planes(case.op, case.sizes), _emit_planes),
    Candidate[ConvCase]("vectors of pixels", lambda case: _dynamic(case) or reject_pixels(case.op, case.sizes), _emit_pixels),
    Candidate[ConvCase]("channels last", lambda case: "", _emit_channels_last),
)
"""Ways to compute a Conv, by the order in which its images lie."""


# --- Kernels, channels last
class ChannelsLast(Record):
    """A convolution of images that lie channels last, for its candidates."""

    op: NodeLowering
    sizes: Geometry
    x: Tensor
    weight: Weight
    y: Tensor
    epilogue: Epilogue


def emit_conv(op: NodeLowering, sizes: Geometry, x: Tensor, weight: Weight, y: Tensor, epilogue: Epilogue) -> None:
    """y = the convolution of x, both channels-last in memory."""
    case = ChannelsLast(op, sizes, x, weight, y, epilogue)
    choose(op, KERNELS, case).emit(case)


def _reject_product(case: ChannelsLast) -> str:
    sizes = case.sizes
    if reason := _dynamic(case):
        return reason
    if sizes.is_depthwise or not sizes.sees_one_pixel:
        return "an output pixel sees several pixels, or it is depthwise"
    joined = _groups_to_merge(sizes, tile_for(case.x.native, case.op.target).least_columns)
    return "" if sizes.groups == 1 or joined == 1 else f"{joined} of its groups fit into a panel together"


def _reject_depthwise(case: ChannelsLast) -> str:
    return "" if case.sizes.is_depthwise else "its groups have several channels or outputs, or its window is large"


def _reject_winograd(case: ChannelsLast) -> str:
    if reason := _dynamic(case):
        return reason
    if case.x.dtype != "float32" or not case.op.options.winograd:
        return "it computes in another type than float32, or the option winograd is off"
    return "" if _winograd_edge(case.op, case.sizes, case.x) else "no transform has its window and strides and saves products"


def _result(sizes: Geometry, y: Tensor, place: ResultPlace) -> ResultRegion:
    """Return the result as rows of pixels, at the offset and stride that `locate` returned."""
    return ResultRegion(y, sizes.pixels, sizes.outputs, place.at, place.ldy)


def _emit_channels(case: ChannelsLast) -> None:
    op, sizes, x, weight, y, epilogue = case.op, case.sizes, case.x, case.weight, case.y, case.epilogue
    tile, groups, (to, place) = tile_for(x.native, op.target), sizes.groups, locate(y)
    n, k = sizes.outputs // groups, sizes.channels // groups
    w = weight.pack(
        op, f"filters {groups}, {tile.columns}", lambda array: pack.filters(array, groups, tile.columns, op.kernels)
    )
    operands = [x, w, epilogue.bias, epilogue.residual, to]
    product_of: Any = (sizes.pixels, n, k, groups)
    given = {"g": channels.GroupedProduct(*product_of), "place": place, "tile": tile, **epilogue.activation.arguments}
    in_place = (4, 3) if at_least(depth_of(tile.vectors), k) else None
    op.emit(channels.channels, operands, **given, work=sizes.work, inplace=in_place, result=_result(sizes, to, place))


def _winograd_edge(op: NodeLowering, sizes: Geometry, x: Tensor) -> int:
    """Return the edge of Winograd's tiles, or 0 if Winograd's convolution is not used."""
    allowed = x.dtype == "float32" and op.options.winograd
    return sizes.column_as_line.winograd_edge(tall_tile("f32", op.target)) if allowed else 0


def _emit_general(case: ChannelsLast) -> None:
    op, sizes, x, weight, y, epilogue = case.op, case.sizes, case.x, case.weight, case.y, case.epilogue
    """Emit a convolution for which there is no special kernel."""
    tile, groups = _tile(op, sizes, x), sizes.groups
    if weight.tensor is None:
        joined = _groups_to_merge(sizes, tile.least_columns)
        groups = sizes.groups // joined
        form, width = f"filters {groups} of {joined}, {tile.columns}", tile.columns
        w = weight.pack(op, form, lambda array: pack.filters(_block_diagonal(array, groups, joined), groups, width, op.kernels))
    else:
        w = _pack_filters(op, sizes, weight.tensor, tile.columns)
    scratch = op.temporary(x.dtype, (op.options.threads, minimum(convolution.BLOCK, sizes.pixels), depth_of(tile.vectors)))
    to, place = locate(y)
    operands = [x, w, epilogue.bias, epilogue.residual, to, scratch]
    given: dict[str, Any] = {"g": sizes.replace(groups=groups).shape, "window": sizes.window, "place": place, "tile": tile}
    given |= epilogue.activation.arguments
    op.emit(convolution.conv, operands, **given, work=sizes.work, result=_result(sizes, to, place))


def _tile(op: NodeLowering, sizes: Geometry, x: Tensor) -> Tile:
    """Return the register tile: a tall one if the outputs of a group fill two vectors."""
    tile, outputs = tile_for(x.native, op.target), sizes.outputs // sizes.groups
    two_vectors = isinstance(outputs, int) and tile.lanes < outputs <= 2 * tile.lanes
    return tall_tile(x.native, op.target) if two_vectors else tile


def _groups_to_merge(sizes: Geometry, width: int) -> int:
    """Return how many groups to merge into one, padded with zeros: as many as fill a panel, which is computed in full anyway."""
    if not isinstance(sizes.outputs, int):
        return 1
    outputs = sizes.outputs // sizes.groups
    return max(n for n in range(1, sizes.groups + 1) if sizes.groups % n == 0 and (n == 1 or n * outputs <= width))


def _block_diagonal(array: Array, groups: int, joined: int) -> Array:
    """Return (O, C / (groups * joined), *kernel) as (O, C / groups, *kernel), with zeros for channels that an output does not read."""
    if joined == 1:
        return array
    outputs, channels = len(array) // (groups * joined), array.shape[1]
    wide = np.zeros((groups, joined, outputs, joined, channels, *array.shape[2:]), array.dtype)
    for k in range(joined):
        wide[:, k, :, k] = array.reshape(groups, joined, outputs, channels, *array.shape[2:])[:, k]
    return wide.reshape(len(array), joined * channels, *array.shape[2:])


def _pack_filters(op: NodeLowering, sizes: Geometry, weight: Tensor, width: int) -> Tensor:
    """Emit the packing of a weight that is computed at run time. Return its panels."""
    outputs, channels = sizes.outputs // sizes.groups, sizes.channels // sizes.groups
    across, taps = -(-outputs // width), product(sizes.kernel)
    w = op.temporary(weight.dtype, (sizes.groups * across, taps * channels, width))
    given: dict[str, Any] = {"groups": sizes.groups, "outputs": outputs, "channels": channels, "taps": taps, "width": width}
    op.emit(pack.pack_filters, [weight, w], **given, work=w.size * 2)
    return w


def _emit_depthwise(case: ChannelsLast) -> None:
    op, sizes, x, weight, y, epilogue = case.op, case.sizes, case.x, case.weight, case.y, case.epilogue
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


def _emit_winograd(case: ChannelsLast) -> None:
    op, sizes, x, weight, y, epilogue = case.op, case.sizes.column_as_line, case.x, case.weight, case.y, case.epilogue
    edge = _winograd_edge(op, case.sizes, x)
    tile = tall_tile(x.native, op.target)
    stride, axes = sizes.strides[2], sizes.axes
    assert isinstance(sizes.channels, int) and isinstance(sizes.outputs, int)
    assert isinstance(sizes.kernel[2], int) and isinstance(stride, int)
    groups, taps, outputs = sizes.groups, sizes.kernel[2], sizes.outputs // sizes.groups
    columns, block = _columns(outputs, tile.lanes), _block(sizes, edge, tile)
    form = f"winograd {edge} {stride} {axes} {groups} {columns} {tile.columns}"
    u = weight.pack(
        op, form, lambda array: winograd.filter_panels(array, groups, edge, columns, tile, op.kernels, stride, axes)
    )
    size = winograd.scratch_size(edge, taps, stride, axes, block, sizes.channels // groups, columns)
    scratch = op.temporary(x.dtype, (op.options.threads, size))
    to, place = locate(y)
    operands = [x, u, epilogue.bias, epilogue.residual, to, scratch]
    compiled_for = winograd.WinogradForm(edge, taps, stride, axes, *tile, winograd.shares_for(block, tile))
    blocks = winograd.WinogradBlocks(block, columns, size)
    given: dict[str, Any] = {"g": sizes.images, "place": place, "blocks": blocks, "form": compiled_for}
    whole = outputs % tile.lanes == columns % tile.lanes == 0  # otherwise some channels are computed twice
    in_place = (4, 3) if whole else None
    given |= epilogue.activation.arguments
    result = _result(sizes, to, place)
    op.emit(winograd.winograd, operands, **given, work=sizes.work // 2, inplace=in_place, result=result)


KERNELS: Final = (
    Candidate[ChannelsLast]("matrix product", _reject_product, _emit_channels),
    Candidate[ChannelsLast]("depthwise", _reject_depthwise, _emit_depthwise),
    Candidate[ChannelsLast]("Winograd", _reject_winograd, _emit_winograd),
    Candidate[ChannelsLast]("general", lambda case: "", _emit_general),
)
"""Kernels for images that lie channels last."""


def _block(sizes: Geometry, edge: int, tile: Tile) -> int:
    """Return the tiles in a block: as many in each block, so that no block reads all filters for the last few."""
    tiles, channels = sizes.tiles(edge), sizes.channels
    assert isinstance(channels, int)
    few = channels // sizes.groups <= MANY_CHANNELS
    twice = few if sizes.strides[2] == 2 else edge == 2 or not few
    about = -(-TILES // tile.rows) * tile.rows * (2 if twice else 1)
    if sizes.axes == 1:  # as many numbers as of a tile along both axes
        assert isinstance(sizes.kernel[2], int)
        about *= winograd.input_extent(edge, sizes.kernel[2], 1)
    return -(-tiles // max((tiles + about // 2) // about, 1)) if isinstance(tiles, int) else about


def _columns(outputs: int, lanes: int) -> int:
    """Return the output channels that are computed together, COLUMNS at most, so that the last ones make at least a vector."""
    if outputs <= COLUMNS:
        return outputs
    return next(columns for columns in range(COLUMNS, 0, -1) if outputs % columns == 0 or outputs % columns >= lanes)


# --- Sizes
def geometry(op: NodeLowering, x: Shape, w: Shape, y: Shape) -> Geometry:
    """Return the sizes of a Conv. Raises NotImplemented for attributes that are none of a convolution's over one to three axes."""
    rank = len(x) - 2
    check_windows(op, rank)
    if len(w) != len(x):
        raise op.reject(f"a weight of rank {len(w)} for an input of rank {len(x)}")
    kernel: Sequence[Dim] = op.attr("kernel_shape") or w[2:]
    check_fit(op, x[2:], kernel)
    strides, dilations = (op.attr(name) or (1,) * rank for name in ("strides", "dilations"))
    pads = _pads(op, x[2:], y[2:], kernel, strides, dilations)
    groups = op.attr("group", 1)
    channels = w[1] * groups if isinstance(w[1], int) else x[1]  # equal, and a number more often than not
    return sizes_of((x[0], channels, *x[2:]), y, kernel, strides, pads, dilations, groups)


def sizes_of(
    x: Shape,
    y: Shape,
    kernel: Sequence[Dim],
    strides: Sequence[Dim],
    pads: Sequence[Dim],
    dilations: Sequence[Dim],
    groups: int,
) -> Geometry:
    """Return the geometry for a kernel, strides, pads and dilations with one number per spatial axis."""
    return Geometry(
        batch=x[0],
        channels=x[1],
        size=_triple(x[2:], 1),
        outputs=y[1],
        result=_triple(y[2:], 1),
        kernel=_triple(kernel, 1),
        strides=_triple(strides, 1),
        pads=_triple(pads, 0),
        dilations=_triple(dilations, 1),
        groups=groups,
    )


def _triple(values: Sequence[Dim], fill: int) -> Triple:
    """Return one number per spatial axis, with `fill` for the axes that are missing in front."""
    missing: list[Dim] = [fill] * (3 - len(values))
    a, b, c = [*missing, *values]
    return a, b, c


def _pads(
    op: NodeLowering,
    size: Sequence[Dim],
    result: Sequence[Dim],
    kernel: Sequence[Dim],
    strides: Sequence[Dim],
    dilations: Sequence[Dim],
) -> Sequence[Dim]:
    """Return the padding in front of each spatial axis."""
    mode = op.attr("auto_pad") or "NOTSET"
    if mode == "NOTSET":
        given: Sequence[Dim] = op.attr("pads") or (0,) * (2 * len(size))
        return given[: len(size)]
    if mode == "VALID":
        return (0,) * len(size)
    pads = []
    for dim, out, k, stride, dilation in zip(size, result, kernel, strides, dilations, strict=True):
        total = maximum((out - 1) * stride + (k - 1) * dilation + 1 - dim, 0)
        pads.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
    return pads


def _require(op: NodeLowering, sizes: Geometry, x: Shape, w: Shape, y: Shape, residual: Tensor | None) -> None:
    """Check the shapes that the kernels rely on, and that neither the schema nor shape inference states."""
    pairs = [(k, dim, "kernel_shape and weight") for k, dim in zip(sizes.kernel[5 - len(w) :], w[2:], strict=True)]
    if residual is not None:
        pairs += [(a, b, "Z and the output") for a, b in zip(residual.shape, y, strict=True)]
    require_equal(op, pairs)


def require_equal(op: NodeLowering, pairs: Sequence[tuple[Dim, Dim, str]]) -> None:
    """Make the run fail for shapes for which a pair differs."""
    for a, b, what in pairs:
        if not same(a, b):
            op.require(equal(a, b), what + " differ: {0} and {1}", a, b)
