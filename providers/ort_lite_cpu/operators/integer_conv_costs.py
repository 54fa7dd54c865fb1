"""The predicted work of the forms of a convolution of bytes, in nanoseconds of one thread."""

from __future__ import annotations

from ort_lite_cpu.kernels.gemm.byte_tile import DotTile
from ort_lite_cpu.operators.byte_candidates import DOTS
from ort_lite_cpu.operators.convolutions import ConvolutionNumbers

RUN, COPIED = 5.0, 0.01
"""The nanoseconds in which a run of bytes begins to be copied, and in which one more byte is."""


def work_of_lines(n: ConvolutionNumbers, tile: DotTile) -> float:
    """Return the work of the products of lines: tiles end with each line of pixels, and steps of k with each line of taps."""
    rows, depth = n.batch * n.oh * computed_rows(n.ow, tile), n.taps // n.line * tile.depth(n.line * n.channels)
    return rows * _work_of_a_row(n, depth, tile)


def work_of_windows(n: ConvolutionNumbers, tile: DotTile) -> float:
    """Return the work of the products of windows, and of gathering them: a run of memory for each line of taps."""
    lines, run = n.taps // n.line, n.line * n.channels
    gathered = n.result * lines * (RUN + COPIED * run)
    return computed_rows(n.result, tile) * _work_of_a_row(n, tile.depth(lines * run), tile) + gathered


def computed_rows(m: int, tile: DotTile) -> int:
    """Return the rows that `dot_panel` computes for m rows in vector registers. A single last row takes the time of two."""
    whole, rest = divmod(m, tile.rows)
    if rest > tile.rows - tile.few:
        return (whole + 1) * tile.rows
    few, last = divmod(rest, tile.few)
    return whole * tile.rows + few * tile.few + (2 if last == 1 and tile.quads == 1 else tile.few if last else 0)


def _work_of_a_row(n: ConvolutionNumbers, depth: int, tile: DotTile) -> float:
    """Return the work of the products of a row over `depth` fours of k."""
    return -(-n.outputs // tile.columns) * tile.columns * depth * 4 / (DOTS * tile.lanes)
