"""The algorithm of the planner `auto`: the best of several orders for first fit, then a short search from there."""

from collections.abc import Callable, Mapping
from time import perf_counter
from types import MappingProxyType

import numpy as np

from ort_lite.memory.planning import packing, wide
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.neighbours import Words

SEED = 0x5EED
EFFORT = 2_000_000
"""The approximate budget of the short search, in blocks squared: a few milliseconds at most."""
MOST_STEPS, FEW, STEPS_FOR_FEW = 48, 128, 256
"""Below FEW blocks a step is cheap, and more steps close gaps that networks of that size have."""
CHUNK = 64
"""The number of steps between two looks at the clock."""


def by_crowd(blocks: Blocks) -> Words:
    """Sort by size times the bytes in use at the same time, largest first."""
    beside = _beside(blocks, blocks.size)
    return _descending(blocks.size.astype(np.float64) * beside)


def by_neighbours(blocks: Blocks) -> Words:
    """Sort by size times the number of blocks in use at the same time, largest first."""
    beside = _beside(blocks, np.ones(blocks.n, np.int64))
    return _descending(blocks.size.astype(np.float64) * beside)


def by_size_and_length(blocks: Blocks) -> Words:
    """Sort by size times the logarithm of the lifetime, largest first."""
    return _descending(blocks.size * np.log2(1.0 + (blocks.end - blocks.start)))


def by_start_and_length(blocks: Blocks) -> Words:
    """Sort by start, then by lifetime, longest first."""
    return np.lexsort((blocks.start - blocks.end, blocks.start)).astype(np.int64)


ORDERS: Mapping[str, Callable[[Blocks], Words]] = MappingProxyType(
    {
        "size": Blocks.by_size,
        "crowd": by_crowd,
        "start": Blocks.by_start,  # the order of greedy, so that no result is worse
        "neighbours": by_neighbours,
        "size_and_length": by_size_and_length,
        "start_and_length": by_start_and_length,
    }
)
"""Six of twenty orders that were tried. Each of the others lowered the mean of problems A to K by less than 0.002."""
FOR_WIDE = 3
"""The number of ORDERS that are tried for very many blocks, where each takes half a second."""


def pack(blocks: Blocks, capacity: int = packing.LIMIT, seconds: float = 0.0) -> tuple[Words, int, Words]:
    """Return (offsets, peak, order): the best result of ORDERS, improved by a short search. Offsets are as in `Blocks.first_fit`.

    Spends up to `seconds` more on the search, whose result then depends on its speed; it stops at the lower bound. If not all
    blocks fit `capacity`, the order that leaves out the fewest bytes wins.
    """
    goal, near = blocks.lower_bound(), blocks.near()
    found: list[tuple[int, int, Words, Words]] = []
    for make in list(ORDERS.values())[: FOR_WIDE if blocks.n >= wide.WIDE else None]:
        order = make(blocks)
        offset, peak = blocks.first_fit(order, near, capacity)
        left_out = int(blocks.size[offset < 0].sum())
        found.append((left_out, peak, order, offset))
        if left_out == 0 and peak == goal:
            return offset, peak, order
    left_out, peak, order, offset = min(found, key=lambda each: each[:2])
    if left_out == 0:
        peak = _search(blocks, order, offset, peak, near, goal, seconds)
    return offset, peak, order


def _search(blocks: Blocks, order: Words, offset: Words, peak: int, near: Words | None, goal: int, seconds: float) -> int:
    state = np.array([SEED], np.int64)
    peak = blocks.improve(order, offset, peak, near, goal, _steps(blocks.n), state)
    end = perf_counter() + seconds
    while seconds and peak > goal and perf_counter() < end:
        peak = blocks.improve(order, offset, peak, near, goal, CHUNK if blocks.n < wide.WIDE else 1, state)
    return peak


def _steps(n: int) -> int:
    """Return the number of steps of the short search."""
    return STEPS_FOR_FEW if n < FEW else min(MOST_STEPS, EFFORT // n**2)


def _descending(key: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Words:
    return np.argsort(-key, kind="stable").astype(np.int64)


def _beside(blocks: Blocks, weight: Words) -> Words:
    """Return, for each block, the summed weights of all blocks in use at some time with it. O(n + times)."""
    born, gone = (np.zeros(blocks.times + 2, np.int64) for _ in range(2))
    np.add.at(born, blocks.start + 1, weight)
    np.add.at(gone, blocks.end + 1, weight)
    born, gone = born.cumsum(), gone.cumsum()  # [t]: the total weight of blocks that start, or end, before t
    result: Words = born[blocks.end] - gone[blocks.start + 1]
    return result
