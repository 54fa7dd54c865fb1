"""Memory planners: they take blocks with sizes, alignments and lifetimes, and return an offset in one arena for each.

The config entry `ort_lite.memory_planner` selects one of PLANNERS or of the hook `ort_lite_memory_planners`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.neighbours import Words
from ort_lite.memory.planning.packing import LIMIT

SEARCHES = 3
"""The number of sizes per set of lifetimes for which `adaptive` searches: models with ever-changing shapes pay for no more."""
TOLERABLE = 16
"""The fraction of the lower bound, as a divisor, below which a second search does not pay: new memory costs less time."""


class MemoryPlannerType(StrEnum):
    """The names of PLANNERS; plugins add planners with other names."""

    adaptive = "adaptive"
    greedy = "greedy"
    by_size = "by_size"
    auto = "auto"


class MemoryPlanner(ABC):
    """Packs blocks into one arena. Users select it by `name`.

    It is stateless, since many threads may pack at once; `Blocks.hints` holds what helps with other sizes of the same lifetimes.
    Sessions call it once per shape, while a run waits.
    """

    name: ClassVar[str] = ""

    @abstractmethod
    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> Words | Sequence[int]:
        """Return the offset of each block, -1 for a block that does not fit into `capacity` bytes.

        Blocks in use at the same time share no byte. Offsets are multiples of `blocks.align`, unless that is None.
        """


class AdaptiveMemoryPlanner(MemoryPlanner):
    """First fit, largest first, which is optimal for nearly all networks; above the lower bound, also the search of `auto`.

    It searches at most SEARCHES times, and after the first size only if the peak exceeds the bound by more than a TOLERABLE part;
    later sizes also try the orders found. O(n * neighbours in time), plus milliseconds per search, for which the first run with a
    new shape waits.
    """

    name = MemoryPlannerType.adaptive.value

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> Words:
        """Pack by first fit, and search if the peak is above the lower bound."""
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
    """First fit in order of first operators, as a run-time allocator would do. O(n * free blocks)."""

    name = MemoryPlannerType.greedy.value

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> list[int]:
        """Pack in order of first operators."""
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
    """First fit, largest first, without a search. Within 1% of the lower bound on ordinary networks."""

    name = MemoryPlannerType.by_size.value

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> Words:
        """Pack by first fit, largest first."""
        return blocks.first_fit(blocks.by_size(), blocks.near(), capacity)[0]


class AutoMemoryPlanner(MemoryPlanner):
    """The best of several orders plus a short search, see `portfolio`. Never worse than greedy. Milliseconds."""

    name = MemoryPlannerType.auto.value

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> Words:
        """Pack by the best of several orders and a short search."""
        return _portfolio(blocks, capacity)[0]


def _portfolio(blocks: Blocks, capacity: int) -> tuple[Words, int, Words]:
    """Call `portfolio.pack`, imported on first use because few sessions search."""
    from ort_lite.memory.planning import portfolio

    return portfolio.pack(blocks, capacity)


DEFAULT_PLANNER: MemoryPlanner = AdaptiveMemoryPlanner()

PLANNERS: Mapping[str, MemoryPlanner] = MappingProxyType(
    {planner.name: planner for planner in (DEFAULT_PLANNER, GreedyMemoryPlanner(), BySizeMemoryPlanner(), AutoMemoryPlanner())}
)
"""The built-in planners, by name."""


def pack_blocks(planner: MemoryPlanner, blocks: Blocks, names: Sequence[str], capacity: int = LIMIT) -> Words:
    """Return the offsets of `planner.pack`, checked so that native code may rely on them. `names` are for error messages.

    The planners of PLANNERS are covered by tests; results of any other are checked. Raises InvalidPlan naming the planner.
    """
    if not blocks.n:
        return blocks.size
    if PLANNERS.get(planner.name) is planner:
        return np.asarray(planner.pack(blocks, capacity), np.int64)
    from ort_lite.memory.planning.checker import check_offsets

    who = f"memory planner {planner.name!r} ({type(planner).__module__}.{type(planner).__qualname__})"
    return check_offsets(who, planner.pack, blocks, names, capacity)
