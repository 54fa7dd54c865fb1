"""Memory planners: blocks with sizes, alignments and lifetimes in, their offsets in one arena out.

What sessions use is one of PLANNERS or of the hook `ort_lite_memory_planners`, by the config entry `ort_lite.memory_planner`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ort_lite.memory.planning.blocks import Blocks
from ort_lite.memory.planning.neighbours import Words
from ort_lite.memory.planning.packing import LIMIT

SEARCHES = 3
"""Sizes of equal lifetimes for which `adaptive` searches: a model with a new shape at every call pays for no more."""
TOLERABLE = 16
"""The part of the lower bound, one over this, that is not worth a second search: new memory takes less time."""


class MemoryPlannerType(StrEnum):
    """The names of PLANNERS; plugins add planners of other names."""

    adaptive = "adaptive"
    greedy = "greedy"
    by_size = "by_size"
    auto = "auto"


class MemoryPlanner(ABC):
    """Packs blocks into one arena. `name` is what users write.

    Stateless, for many threads may pack at once; what is to be kept for other sizes of the same lifetimes is in
    `Blocks.hints`. Sessions call it once for each shape, while a run waits.
    """

    name: ClassVar[str] = ""

    @abstractmethod
    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> Words | Sequence[int]:
        """The offset of every block, -1 for a block that `capacity` bytes do not hold.

        Blocks that live at the same time share no byte; offsets are multiples of `blocks.align`, where it is not None.
        """


class AdaptiveMemoryPlanner(MemoryPlanner):
    """First fit, largest first, which is optimal for nearly all networks; where it misses the lower bound, what `auto` finds.

    It searches SEARCHES times at most, for other sizes than the first only where more than a TOLERABLE part is missed: an order that
    was found is tried for all sizes to come. O(n * neighbours in time), and milliseconds for a search, for which the run of a new
    shape waits.
    """

    name = MemoryPlannerType.adaptive.value

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> Words:
        bound, near = blocks.lower_bound(), blocks.near()
        offsets, peak = blocks.first_fit(blocks.by_size(), near, capacity)
        if peak < 0:  # not all fit
            return _portfolio(blocks, capacity)[0]
        for order in blocks.hints.orders:
            if peak > bound:
                tried, other = blocks.first_fit(order, near, capacity)
                offsets, peak = (tried, other) if 0 <= other < peak else (offsets, peak)
        tolerated = bound // TOLERABLE if blocks.hints.used else 0
        blocks.hints.used = True
        if peak > bound + tolerated and len(blocks.hints.orders) < SEARCHES:
            found, lower, order = _portfolio(blocks, capacity)
            blocks.hints.orders = (*blocks.hints.orders, order)
            if lower < peak:
                return found
        return offsets


class GreedyMemoryPlanner(MemoryPlanner):
    """First fit in the order of first operators, as an allocator at run time would do. O(n * free blocks)."""

    name = MemoryPlannerType.greedy.value

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> list[int]:
        from ort_lite.memory.planning.free_list import FreeList

        arena, offsets = FreeList(capacity), [-1] * blocks.n
        size, start, end = blocks.size.tolist(), blocks.start.tolist(), blocks.end.tolist()
        align = [1] * blocks.n if blocks.align is None else blocks.align.tolist()
        for index in sorted(range(blocks.n), key=start.__getitem__):
            arena.advance(start[index])
            offset = arena.place(size[index], end[index] - 1, align[index])
            offsets[index] = -1 if offset is None else offset
        return offsets


class BySizeMemoryPlanner(MemoryPlanner):
    """First fit, largest first, and nothing else. Within 1% of the lower bound on ordinary networks."""

    name = MemoryPlannerType.by_size.value

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> Words:
        return blocks.first_fit(blocks.by_size(), blocks.near(), capacity)[0]


class AutoMemoryPlanner(MemoryPlanner):
    """The best of a portfolio of orders and a short search, see `portfolio`: never worse than greedy. Milliseconds."""

    name = MemoryPlannerType.auto.value

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> Words:
        return _portfolio(blocks, capacity)[0]


def _portfolio(blocks: Blocks, capacity: int) -> tuple[Words, int, Words]:
    """`portfolio.pack`, imported when a session first searches: few do."""
    from ort_lite.memory.planning import portfolio

    return portfolio.pack(blocks, capacity)


DEFAULT_PLANNER: MemoryPlanner = AdaptiveMemoryPlanner()

PLANNERS: Mapping[str, MemoryPlanner] = MappingProxyType(
    {planner.name: planner for planner in (DEFAULT_PLANNER, GreedyMemoryPlanner(), BySizeMemoryPlanner(), AutoMemoryPlanner())}
)
"""Those that ort_lite has, by name."""


def packed(planner: MemoryPlanner, blocks: Blocks, names: Sequence[str], capacity: int = LIMIT) -> Words:
    """`planner.pack`, fit for native code to rely on. `names` of the blocks are for errors.

    Tests prove the planners of PLANNERS right; the answer of any other one is checked. Raises InvalidPlan that names it.
    """
    if not blocks.n:
        return blocks.size
    if PLANNERS.get(planner.name) is planner:
        return np.asarray(planner.pack(blocks, capacity), np.int64)
    from ort_lite.memory.planning.checker import check_offsets

    who = f"memory planner {planner.name!r} ({type(planner).__module__}.{type(planner).__qualname__})"
    return check_offsets(who, planner.pack, blocks, names, capacity)
