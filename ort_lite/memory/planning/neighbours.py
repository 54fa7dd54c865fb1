"""Inputs for the packing kernels, computed by NumPy: neighbours in time, and the most bytes in use at once."""

from typing import Any

import numpy as np

from ort_lite.memory.planning.packing import NEAR

Words = np.ndarray[Any, np.dtype[np.int64]]


def table(start: Words, end: Words) -> Words:
    """Return the table of neighbours in time, for those of n blocks that have at most NEAR; lifetimes are [start, end).

    table[2t] and table[2t + 1] delimit the neighbours of block t within the table, the end exclusive; both are 0 for a block with
    more neighbours. Neighbours are sorted by start. O(n * NEAR).
    """
    n, order = len(start), np.argsort(start, kind="stable")
    born, gone = start[order], end[order]
    numbers = np.arange(n)
    # Block q of the order overlaps in time with blocks q + 1 up to its reach, and with some before it.
    reach = np.searchsorted(born, gone)
    change = np.zeros(n + 1, np.int64)
    change[1:] += 1
    np.subtract.at(change, reach, 1)
    count = change[:n].cumsum() + reach - numbers - 1
    few = np.flatnonzero(count <= NEAR)
    owner, later = _ranges(few + 1, reach[few])
    other, place = _ranges(np.searchsorted(few, numbers + 1), np.searchsorted(few, reach))
    owners, others = np.concatenate([few[owner], few[place]]), np.concatenate([later, other])
    listed = others[np.lexsort((others, owners))]
    made = np.zeros(2 * n + len(listed), np.int64)
    ends = 2 * n + count[few].cumsum()
    made[2 * order[few]], made[2 * order[few] + 1], made[2 * n :] = ends - count[few], ends, order[listed]
    return made


def _ranges(first: Words, last: Words) -> tuple[Words, Words]:
    """Return k and i of each pair in: for every k, for i from first[k] to last[k] - 1."""
    counts = np.maximum(last - first, 0)
    k = np.repeat(np.arange(len(first)), counts)
    return k, np.arange(len(k)) - (counts.cumsum() - counts)[k] + first[k]


def most_alive(size: Words, start: Words, end: Words, times: int) -> int:
    """Return the most bytes in use at once, a lower bound on the peak of any plan. O(n + times).

    Start times are less than `times`, end times at most `times`.
    """
    change = np.zeros(times + 1, np.int64)
    np.add.at(change, start, size)
    np.subtract.at(change, end, size)
    return int(change.cumsum().max())
