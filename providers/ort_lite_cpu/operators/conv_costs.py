"""Predicted work of the kernels of a convolution, in nanoseconds of one thread of the reference CPU (see `ort_lite_cpu.costs`)."""

from __future__ import annotations

from ort_lite_cpu.costs import RATE
from ort_lite_cpu.kernels.gemm import pixels, winograd
from ort_lite_cpu.kernels.gemm.microkernel import Tile
from ort_lite_cpu.operators.convolutions import ConvolutionNumbers

NEAR_WEIGHT, WEIGHT, NEAR = 0.04, 0.13, 1 << 18
"""Nanoseconds to read a weight from the caches, and from memory if there are more than NEAR weights."""
PICKED = 0.7
"""Nanoseconds to copy a pixel of a channel that strides reach."""
ELEMENT = 0.06
"""Nanoseconds to read or write an element of an image."""
COPIED, SPLIT = 0.15, 1.2
"""Nanoseconds to copy an element into the buffer of `conv_pixels`, for a stride of 1 and for larger strides."""
TRANSFORM = 0.15
"""Nanoseconds of a Winograd transform for each number of a tile."""
STORE = 0.2
"""Nanoseconds to store an output of `conv_pixels`."""
LINE = 7.0
"""Nanoseconds for each line of a channel or an output in `conv_pixels`, for windows of one tap. More taps hide them."""
PADDED = 0.14
"""Nanoseconds to copy an element of a plane into its padded buffer, or to store a result."""


def work_of_pointwise(n: ConvolutionNumbers, tile: Tile) -> float:
    """Return the work of a product of a matrix with planes: rows of outputs, vectors of pixels."""
    rows = -(-n.outputs // tile.rows) * tile.rows
    products = n.batch * rows * n.channels * -(-n.size // tile.lanes) * tile.lanes
    return products / RATE + n.elements * ELEMENT + _of_weights(n.weights)


def work_of_strided_pointwise(n: ConvolutionNumbers, tile: Tile) -> float:
    """Return the work of a pointwise product of the pixels that strides reach, and of their copy."""
    size = n.od * n.oh * n.ow
    return n.batch * n.channels * size * PICKED + work_of_pointwise(n._replace(size=size), tile)


def work_of_pixels(n: ConvolutionNumbers, tile: Tile) -> float:
    """Return the work by vectors of pixels, with the copy of the input, and pixels that fill no vector."""
    whole = -(-n.ow // tile.lanes) * tile.lanes / max(n.ow, 1)
    products = n.result * n.groups * n.channels * n.taps * pixels.products(n.outputs, tile.rows) * whole
    copied = n.batch * n.groups * n.channels * _copied_pixels(n)
    lines = n.batch * n.groups * (n.channels + n.outputs) * n.od * n.oh if n.taps == 1 else 0
    return (
        products / RATE
        + copied * (SPLIT if n.stride > 1 else COPIED)
        + n.result * n.groups * n.outputs * STORE
        + lines * LINE
        + _of_weights(n.weights)
    )


def _copied_pixels(n: ConvolutionNumbers) -> int:
    """Return the pixels that `conv_pixels` copies for a channel: with dilations, blocks of few lines copy the same ones many times.

    The constants include what blocks copy twice without dilations.
    """
    if n.lines * (n.span + 1) <= n.taps:
        return n.size
    wide = n.ow * n.stride + n.span
    fit = pixels.BLOCK // max(n.channels * wide, 1) - n.lines
    blocks = n.od * -(-n.oh // max(fit // n.stride + 1, 1))
    return max(n.size, (blocks * (n.lines - 1) + n.od * n.oh * n.stride) * wide)


def work_of_channels(n: ConvolutionNumbers, tile: Tile, dense: bool) -> float:
    """Return the work channels last, with columns that are computed in any case, and with short loops over the input of a line.

    dense: the taps of a line see neighbouring pixels.
    """
    columns = -(-n.outputs // tile.least_columns) * tile.least_columns
    run = max(n.channels * (n.line if n.groups == 1 and dense else 1), 1)
    waits = 1.3 if columns == tile.lanes else 1.0  # one vector of columns: each product waits for the one before
    products = n.result * n.groups * n.channels * n.taps * columns * waits * (1 + 2 / run)
    return products / RATE + n.elements * ELEMENT + _of_weights(n.weights)


def work_of_depthwise(n: ConvolutionNumbers) -> float:
    """Return the work of a filter a channel, channels last."""
    return n.result * n.groups * n.taps / RATE + n.elements * ELEMENT


def work_of_depthwise_planes(n: ConvolutionNumbers) -> float:
    """Return the work of a filter a channel, in planes with padding around them."""
    return n.result * n.groups * n.taps / RATE + n.elements * PADDED


def work_of_winograd(n: ConvolutionNumbers, edge: int, tile: Tile, axes: int) -> float:
    """Return the work of Winograd's convolution by tiles of edge x edge outputs, or of `edge` along one axis.

    Each tile is one row of the products of each plane, or of several where the stride is 2. Pixels and results are transformed, and
    transformed filters come from memory.
    """
    tiles = n.batch * -(-n.ow // edge) * (n.oh if axes == 1 else -(-n.oh // edge))
    seen = winograd.planes_of(edge, n.line, n.stride, axes)
    kinds, rows = (16, 25) if n.stride == 2 else (seen, seen)
    columns = -(-n.outputs // tile.lanes) * tile.lanes
    products, transformed = tiles * rows * n.channels * columns, tiles * seen * (n.channels + n.outputs)
    return n.groups * (products / RATE + transformed * TRANSFORM) + _of_weights(n.groups * kinds * n.channels * n.outputs)


def _of_weights(count: int) -> float:
    """Return the nanoseconds in which so many weights are read once."""
    return count * (WEIGHT if count > NEAR else NEAR_WEIGHT)
