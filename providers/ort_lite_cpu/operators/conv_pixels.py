"""Convolutions of images in ONNX's own order by vectors of pixels: the choice of Conv for which they cost less, and the kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from ort_lite.graph import Node, Value
from ort_lite.shapes import ceildiv, maximum, minimum, product
from ort_lite_cpu.kernels.gemm import pack, pixels
from ort_lite_cpu.kernels.gemm.microkernel import Tile
from ort_lite_cpu.lowering.lowered import whole
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, channels_last, storage_order
from ort_lite_cpu.operators.convolutions import Epilogue, Geometry, Weight, family_of, takes_channels_last
from ort_lite_cpu.operators.rounded import result_of

BLOCK = 1 << 15
"""The approximate number of image elements in a block, which stay in the second cache level."""
EACH = 4
"""The fewest blocks for each of several threads, if there are enough lines and pixels."""
NEAR = 8192
"""The most image elements under one tile of pixels that stay near: more come from the second cache level each time."""
FEW_OUTPUTS = 8
"""The number of outputs that, channels last, fill at most half a vector of the widest."""
MOVED, MARGIN = 1.5, 1.1
"""The cost of moving an element to another place, and the factor by which vectors of pixels must cost less."""
AHEAD = 4
"""The number of nodes in a chain that are searched for the order in which a result will be read."""


# --- The choice
class Numbers(NamedTuple):
    """The sizes that determine the cost; `channels` and `outputs` are those of a group."""

    groups: int
    channels: int
    outputs: int
    taps: int
    last_taps: int
    stride: int
    area: int
    """The product of all strides: pixels of the image for one of the result."""
    ow: int
    """The row length of the result, -1 if unknown."""


def compare_with_channels(op: NodeLowering, sizes: Geometry, tile: Tile, joined: int) -> str:
    """Return why vectors of pixels do not cost less than channels last with this `tile` and this many joined groups, or "".

    Changes of layout count. The unit of cost is a product of vectors for each output pixel. Close calls stay channels last, as most of
    a model is.
    """
    found, x, value = _numbers(sizes), op.raw(0), result_of(op)
    if found is None or value is None:
        return "a size of its window or its channels is not known"
    last, order, readers = channels_last(len(x.shape)), storage_order(x), _readers(value)
    before, behind = (MOVED * found.groups * n for n in (found.channels * found.area, found.outputs))
    here = cost_of_pixels(found, pixels.pixel_tile(x.native, op.target, found.outputs))
    there = cost_of_channels(found, tile, joined, sizes.dilations[2] == 1)
    here += 0 if order is None else before
    there += 0 if order == last or last in x.layouts else before
    if any(_wants_channels_last(node) for node in readers):
        here += behind
    elif not any(_is_at_home_in_both(node) for node in readers):
        there += behind
    return "" if MARGIN * here < there else f"{here:.1f} products of vectors for a pixel, channels last {there:.1f}"


def _numbers(sizes: Geometry) -> Numbers | None:
    """Return the sizes, or None if some are known only at run time, since code cannot be generated for those."""
    given = [sizes.channels, sizes.outputs, *sizes.kernel, *sizes.strides, *sizes.dilations]
    known = [number for number in given if isinstance(number, int)]
    if len(known) < len(given):
        return None
    channels, outputs, kd, kh, kw, sd, sh, sw, *_ = known
    ow = sizes.result[2]
    taps, area = kd * kh * kw, sd * sh * sw
    groups, along = sizes.groups, ow if isinstance(ow, int) and ow > 0 else -1
    return Numbers(groups, channels // groups, outputs // groups, taps, kw, sw, area, along)


def cost_of_pixels(n: Numbers, tile: Tile) -> float:
    """Return the cost by vectors of pixels, with the copy of the input, and pixels that fill no vector."""
    vectors = pixels.products(n.outputs, tile.rows) / tile.lanes
    if n.ow > 0:
        vectors *= -(-n.ow // tile.lanes) * tile.lanes / n.ow
    lines = n.channels * n.taps // n.last_taps * min(n.last_taps, n.stride)
    far = 1.3 if lines * tile.columns > NEAR else 1.0
    return n.groups * n.channels * (n.taps * vectors * far + n.area / 2)


def cost_of_channels(n: Numbers, tile: Tile, joined: int, dense: bool) -> float:
    """Return the cost channels last, with columns that are computed in any case, and with short loops over the input of a line.

    dense: the taps of a line see neighbouring pixels.
    """
    groups = n.groups // joined
    columns = -(-n.outputs * joined // tile.least_columns) * tile.least_columns
    run = n.channels * joined * (n.last_taps if groups == 1 and dense else 1)
    waits = 1.3 if columns == tile.lanes else 1.0  # one vector of columns: each product waits for the one before
    return n.groups * n.channels * n.taps * columns / tile.lanes * waits * (1 + 2 / run)


def _readers(value: Value) -> set[Node]:
    """Return the readers of a value, and of the results of those that keep any order, AHEAD nodes deep. O(graph) at most."""
    seen: set[Node] = set()
    values: list[Value | None] = [value]
    for _ in range(AHEAD):
        readers = {node for v in values if v is not None for node in v.readers} - seen
        seen |= readers
        values = [v for node in readers if _takes_any_order(node) for v in node.outputs]
    return seen


def _wants_channels_last(node: Node) -> bool:
    """Return True if the node reads images channels last. A Conv with few outputs may run by pixels as well."""
    if node.op_type not in ("Conv", "FusedConv"):
        return takes_channels_last(node)
    weight = node.inputs[1]
    return weight is None or weight.shape is None or weight.shape[0] not in range(1, FEW_OUTPUTS + 1)


def _is_at_home_in_both(node: Node) -> bool:
    """Return True for Reshape and Transpose, which often move nothing in one order or the other."""
    return family_of(node) == "reshape"


def _takes_any_order(node: Node) -> bool:
    """Return True if the result of the node has the order of its input."""
    return family_of(node) == "elementwise" or node.op_type in ("BatchNormalization", "Concat")


# --- The kernel
def emit_pixels(op: NodeLowering, sizes: Geometry, x: Tensor, weight: Weight, y: Tensor, epilogue: Epilogue) -> None:
    """y = the convolution of x, both in ONNX's own order in memory, with sizes as in `suits_pixels`."""
    assert isinstance(sizes.outputs, int)
    groups, threads, channels = sizes.groups, op.options.threads, sizes.channels // sizes.groups
    tile = pixels.pixel_tile(x.native, op.target, sizes.outputs // groups)
    w = weight.pack(op, f"pixels {groups}, {tile.rows}", lambda array: pack.filters(array, groups, tile.rows, op.kernels))
    cut = _blocks(op, sizes, tile)
    (kd, kh, kw), (_, sh, sw), (_, dh, dw) = sizes.kernel, sizes.strides, sizes.dilations
    lines, wide = (cut.heights - 1) * sh + (kh - 1) * dh + 1, cut.across * tile.lanes + (kw - 1) * dw // sw
    table = op.temporary("int64", (threads, product(sizes.kernel) * channels))
    scratch = op.temporary(x.dtype, (threads, channels * kd * lines * sw * wide))
    operands = [x, w, epilogue.bias, epilogue.residual, y, table, scratch]
    given = {"g": sizes.shape, "window": sizes.window, "cut": cut, **epilogue.activation.arguments}
    op.emit(pixels.conv_pixels, operands, **given, work=sizes.work, result=whole(y))


def _blocks(op: NodeLowering, sizes: Geometry, tile: Tile) -> pixels.PixelBlocks:
    """Return the sizes of blocks; blocks of a line start where a tile does."""
    (kd, kh, kw), (_, sh, sw), (_, dh, dw) = sizes.kernel, sizes.strides, sizes.dilations
    copies, reach = sizes.channels // sizes.groups * kd * sw, (kh - 1) * dh + 1
    shares = op.options.threads * EACH if op.options.threads > 1 else 1
    oh, ow = sizes.result[1:]
    tiles = ceildiv(ceildiv(ow, tile.columns), maximum(ceildiv(shares, maximum(oh, 1)), 1))
    across = maximum(minimum(tiles, BLOCK // (copies * reach * tile.columns)), 1) * tile.vectors
    wide = across * tile.lanes + (kw - 1) * dw // sw
    heights = minimum((BLOCK // (copies * wide) - reach) // sh + 1, ceildiv(oh, shares))
    cut: Any = (maximum(heights, 1), across, *tile)
    return pixels.PixelBlocks(*cut)
