"""Predicted work of the kernels of a convolution, in nanoseconds of one thread of the reference CPU.

That one multiplies and adds RATE pairs of float32 in a nanosecond. Open sizes count as numbers (see `nominal`).
"""

from __future__ import annotations

from ort_lite_cpu.kernels.gemm import pixels, winograd
from ort_lite_cpu.kernels.gemm.microkernel import Tile
from ort_lite_cpu.operators.convolutions import ConvolutionNumbers

RATE = 40.0
"""The products of float32 in a nanosecond."""
TRANSFORM = 0.12
"""The nanoseconds in which Winograd's convolution transforms a number."""
NEAR = 8192
"""The most image elements under one tile of pixels that stay near: more come from the second cache level each time."""
MANY_FILTERS = 128 * 128
"""The number of filters above which transformed ones, of 64 or 144 bytes each, have left the caches when a model runs again."""


def work_of_pointwise(n: ConvolutionNumbers, tile: Tile) -> float:
    """Return the work of a product of a matrix with planes: rows of outputs, vectors of pixels."""
    rows = -(-n.outputs // tile.rows) * tile.rows
    return n.batch * rows * n.channels * -(-n.size // tile.lanes) * tile.lanes / RATE


def work_of_pixels(n: ConvolutionNumbers, tile: Tile) -> float:
    """Return the work by vectors of pixels, with the copy of the input, and pixels that fill no vector."""
    vectors = pixels.products(n.outputs, tile.rows) / tile.lanes * -(-n.ow // tile.lanes) * tile.lanes / max(n.ow, 1)
    lines = n.channels * n.taps // n.line * min(n.line, n.stride)
    far = 1.3 if lines * tile.columns > NEAR else 1.0
    return n.result * n.groups * n.channels * (n.taps * vectors * far + n.area / 2) * tile.lanes / RATE


def work_of_channels(n: ConvolutionNumbers, tile: Tile, joined: int, dense: bool) -> float:
    """Return the work channels last, with columns that are computed in any case, and with short loops over the input of a line.

    joined: the groups that are computed as one. dense: the taps of a line see neighbouring pixels.
    """
    groups = n.groups // joined
    columns = -(-n.outputs * joined // tile.least_columns) * tile.least_columns
    run = n.channels * joined * (n.line if groups == 1 and dense else 1)
    waits = 1.3 if columns == tile.lanes else 1.0  # one vector of columns: each product waits for the one before
    return n.result * groups * n.channels * joined * n.taps * columns * waits * (1 + 2 / run) / RATE


def work_of_depthwise(n: ConvolutionNumbers) -> float:
    """Return the work of a filter a channel."""
    return n.result * n.groups * n.taps / RATE * 4


def work_of_winograd(n: ConvolutionNumbers, edge: int, tile: Tile, axes: int) -> float:
    """Return the work of Winograd's convolution by tiles of edge x edge outputs, or of `edge` along one axis.

    A plane has a row of products for each tile, but no fewer than fit into the time in which its filters arrive. Pixels and results are
    transformed.
    """
    tiles = n.batch * -(-n.ow // edge) * (n.oh if axes == 1 else -(-n.oh // edge))
    least = tile.columns * (5 if n.groups * n.channels * n.outputs > MANY_FILTERS else 3) // 4
    seen = winograd.planes_of(edge, n.line, n.stride, axes)
    together = {1: 9, 2: 6, 4: 1} if n.stride == 2 else {1: seen}
    rows = sum(kinds * max(planes * tiles, least) for planes, kinds in together.items())
    transformed = tiles * seen * (n.channels + n.outputs)
    return n.groups * (rows * n.channels * n.outputs / RATE + transformed * TRANSFORM)
