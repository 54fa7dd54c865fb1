"""The predicted work of the forms of a convolution of bytes, in nanoseconds of one thread."""

from __future__ import annotations

from ort_lite_cpu.kernels.gemm.byte_tile import DotTile
from ort_lite_cpu.kernels.gemm.integer_winograd import EDGE, PLANES
from ort_lite_cpu.operators.byte_candidates import DOTS, READ
from ort_lite_cpu.operators.convolutions import ConvolutionNumbers

RUN, COPIED = 5.0, 0.01
"""The nanoseconds in which a run of bytes begins to be copied, and in which one more byte is."""
TRANSFORMED, RESTORED = 15.0, 30.0
"""The nanoseconds in which Winograd's algorithm transforms a channel of the inputs of a tile, and of its outputs, with one lane."""
BEGUN = 32.0
"""The nanoseconds in which a register tile of its products begins and ends."""
HELD, AHEAD = 1 << 23, READ / 4
"""The bytes of its filters that the last cache level holds, and the nanoseconds in which one comes from there, asked for in time."""


def work_of_lines(n: ConvolutionNumbers, tile: DotTile) -> float:
    """Return the work of the products of lines: tiles end with each line of pixels, and steps of k with each line of taps."""
    rows, depth = n.batch * n.oh * computed_rows(n.ow, tile), n.taps // n.line * _depth(n.line * n.channels, tile)
    return rows * _work_of_a_row(n, depth, tile)


def work_of_windows(n: ConvolutionNumbers, tile: DotTile) -> float:
    """Return the work of the products of windows, and of gathering them: a run of memory for each line of taps."""
    lines, run = n.taps // n.line, n.line * n.channels
    gathered = n.result * lines * (RUN + COPIED * run)
    return computed_rows(n.result, tile) * _work_of_a_row(n, _depth(lines * run, tile), tile) + gathered


def work_of_winograd(n: ConvolutionNumbers, tile: DotTile) -> float:
    """Return the work of Winograd's products of 16 bits, of reading their filters, and of the transforms."""
    tiles, panels = n.batch * -(-n.oh // EDGE) * -(-n.ow // EDGE), -(-n.outputs // tile.columns)
    rows, filters = computed_rows(tiles, tile), PLANES * panels * tile.columns * n.channels
    products = rows * filters / (DOTS * tile.lanes / 2) + PLANES * panels * -(-rows // tile.rows) * BEGUN
    read = 2 * filters * AHEAD + max(2 * filters - HELD, 0) * (READ - AHEAD)
    return products + read + tiles * (n.channels * TRANSFORMED + n.outputs * RESTORED) / tile.lanes


def computed_rows(m: int, tile: DotTile) -> int:
    """Return the rows that `dot_panel` computes for m rows in vector registers. A single last row takes the time of two."""
    whole, rest = divmod(m, tile.rows)
    if whole > 0 and 0 < rest < tile.few and (tile.rows + rest) % tile.few == 0:  # as `few_fill` says
        whole, rest = whole - 1, tile.rows + rest
    elif rest > tile.rows - tile.few:
        return (whole + 1) * tile.rows
    few, last = divmod(rest, tile.few)
    return whole * tile.rows + few * tile.few + (2 if last == 1 and tile.quads == 1 else tile.few if last else 0)


def _depth(k: int, tile: DotTile) -> int:
    """Return the fours of k, filled up."""
    return -(-k // (4 * tile.quads)) * tile.quads


def _work_of_a_row(n: ConvolutionNumbers, depth: int, tile: DotTile) -> float:
    """Return the work of the products of a row over `depth` fours of k."""
    return -(-n.outputs // tile.columns) * tile.columns * depth * 4 / (DOTS * tile.lanes)
