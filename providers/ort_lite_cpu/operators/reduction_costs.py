"""Predicted work of the kernels of reductions and pools, in nanoseconds of one thread of the reference CPU."""

from __future__ import annotations

from typing import NamedTuple

from ort_lite_cpu.costs import Costs

ROW, SUMMED = 3.8, 0.035
"""The nanoseconds in which a row of floats is summed in blocks: at least, and each element."""
FOLDED_ROW, FOLDED = 1.5, 0.05
"""The nanoseconds in which a row is joined in the type of its elements: at least, and each element."""
EXPONENTIAL = 2.0
"""The nanoseconds in which an exponential is computed, and the largest element found."""
BLOCK, LINE, JOINED = 64, 3.4, 0.06
"""The columns that are reduced together, and the nanoseconds in which a line of them is added: at least, and each element."""
EXTREME_LINE, EXTREME = 5.5, 0.08
"""The same for the extremes of a line of floats, in which NaN counts: targets differ (`join-extreme`)."""
LOCATED_ROW, LOCATED = 3.5, 0.6
"""The nanoseconds in which the extreme of a row is located: at least, and each element."""
SEARCHED_ROW, SEARCHED = 6.0, 1.0
"""The same where each element is compared with the extreme before it, in a branch."""
WIDE_LINE, WIDE = 8.0, 0.13
"""The nanoseconds in which a line of a middle axis is compared with the extremes before it: at least, and each element."""
MOVED, MOVE = 0.22, 2000.0
"""The nanoseconds in which an element is moved, so that those that are reduced come last, and those of an instruction for it."""
PIXEL, TAP, CHANNEL, UNROLLED = 4.0, 5.0, 0.09, 0.04
"""The nanoseconds of a pixel of a pool, of a tap of its window, and of a channel of a tap: in a loop, and in unrolled code."""
PLANE_ROW, VECTOR, JOIN = 8.0, 16, 0.7
"""The nanoseconds of a row of the result of a pool of planes, and those in which a vector of a row or of a column is joined."""


class ReductionNumbers(NamedTuple):
    """The sizes of a reduction as numbers: the middle one of (outer, n, inner). Axes that are not adjacent have an inner of 1."""

    outer: int
    n: int
    inner: int

    @property
    def rows(self) -> int:
        """The number of results."""
        return self.outer * self.inner


def work_of_rows(r: ReductionNumbers, row: float, each: float) -> float:
    """Return the work of a reduction of rows, whose elements are adjacent."""
    return r.rows * (row + each * r.n)


def work_of_middle(r: ReductionNumbers, extreme: bool, costs: Costs) -> float:
    """Return the work of a reduction of a middle axis, by lines of BLOCK columns."""
    line, each = (EXTREME_LINE, costs.predict("join-extreme", EXTREME)) if extreme else (LINE, JOINED)
    return r.outer * r.n * (-(-r.inner // BLOCK) * line + r.inner * each)


def work_of_wide_lines(r: ReductionNumbers, columns: int) -> float:
    """Return the work of locating the extremes along a middle axis, by lines of `columns` columns."""
    return r.outer * r.n * (-(-r.inner // columns) * WIDE_LINE + r.inner * WIDE)


class PoolNumbers(NamedTuple):
    """The sizes of a pool as numbers."""

    pixels: int
    """The pixels of the result, over the whole batch."""
    channels: int
    taps: int
    """The pixels of a window."""
    images: int
    """The elements of the images."""
    iw: int
    ow: int
    """The pixels of a line of the result; `iw` counts those of an image."""
    lines: int
    columns: int
    """The columns of a window; `lines` counts its rows."""

    @property
    def results(self) -> int:
        """The elements of the result."""
        return self.pixels * self.channels


def work_of_pool(p: PoolNumbers) -> float:
    """Return the work of a pool that goes through its window tap by tap."""
    return p.pixels * p.taps * (TAP + CHANNEL * p.channels)


def work_of_unrolled_pool(p: PoolNumbers) -> float:
    """Return the work of a pool whose window is unrolled: a channel is read once for each tap and written once."""
    return p.pixels * (PIXEL + p.channels * (CHANNEL + UNROLLED * p.taps))


def work_of_pooled_planes(p: PoolNumbers) -> float:
    """Return the work of a pool of planes: vectors of the rows of a window are joined, then its columns."""
    rows = p.results // max(p.ow, 1)
    return rows * (PLANE_ROW + (-(-p.iw // VECTOR)) * JOIN * p.lines + (-(-p.ow // VECTOR)) * JOIN * p.columns)
