"""The memory planners, and every name of a plan: a planner is one method, `pack`, over what `placement` has in common."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from ort_lite.errors import InvalidArgument
from ort_lite.memory.planning import packing, portfolio
from ort_lite.memory.planning.base import Block, MemoryPlanner
from ort_lite.memory.planning.blocks import Blocks
from ort_lite.memory.planning.free_list import FreeList, MemoryActiveBlock, MemoryFreeBlock
from ort_lite.memory.planning.plan import ArenaUsage, Certificate, MemoryPlan, TensorAllocation, TensorBinding
from ort_lite.memory.planning.requests import ArenaRole, MemoryConstraint, MemoryType, Platform, TensorAttributes, TensorRequest

__all__ = [
    "PLANNERS",
    "ArenaRole",
    "ArenaUsage",
    "AutoMemoryPlanner",
    "Block",
    "BySizeMemoryPlanner",
    "Certificate",
    "GreedyMemoryPlanner",
    "MemoryActiveBlock",
    "MemoryConstraint",
    "MemoryFreeBlock",
    "MemoryPlan",
    "MemoryPlanner",
    "MemoryPlannerType",
    "MemoryType",
    "Platform",
    "TensorAllocation",
    "TensorAttributes",
    "TensorBinding",
    "TensorRequest",
    "create_planner",
]


class MemoryPlannerType(StrEnum):
    """The planners of `PLANNERS`; `create_planner` takes these names and those of further ones."""

    greedy = "greedy"
    by_size = "by_size"
    auto = "auto"


class GreedyMemoryPlanner(MemoryPlanner):
    """First fit in the order of first operators, as an allocator at run time would do. O(n * free blocks)."""

    def pack(self, blocks: Sequence[Block], capacity: int) -> list[int]:
        arena = FreeList(capacity)
        offsets = [-1] * len(blocks)
        for index in sorted(range(len(blocks)), key=lambda index: blocks[index].lifetime.start_op):
            block = blocks[index]
            arena.advance(block.lifetime.start_op)
            offset = arena.place(block.size, block.lifetime.end_op, block.alignment)
            offsets[index] = -1 if offset is None else offset
        return offsets


class BySizeMemoryPlanner(MemoryPlanner):
    """First fit, largest first, by the native kernel. Within 1% of the lower bound on ordinary networks."""

    def pack(self, blocks: Sequence[Block], capacity: int) -> list[int]:
        problem = _problem(blocks)
        offsets, _ = problem.first_fit(problem.order(packing.BY_SIZE), problem.near(), capacity)
        found: list[int] = offsets.tolist()
        return found


class AutoMemoryPlanner(MemoryPlanner):
    """The best of a portfolio of orders and a short search, see `portfolio`: never worse than greedy. Milliseconds.

    `search_seconds` more are spent on the search; equal calls then need not give equal plans.
    """

    def __init__(
        self,
        platform: Platform | None = None,
        constraints: Iterable[MemoryConstraint] = (),
        *,
        search_seconds: float = 0.0,
    ) -> None:
        super().__init__(platform, constraints)
        self.search_seconds = search_seconds

    def pack(self, blocks: Sequence[Block], capacity: int) -> list[int]:
        offsets, _, _ = portfolio.pack(_problem(blocks), capacity, self.search_seconds)
        found: list[int] = offsets.tolist()
        return found


def _problem(blocks: Sequence[Block]) -> Blocks:
    start, end = np.array([block.lifetime.half_open() for block in blocks], np.int64).reshape(-1, 2).T
    return Blocks([block.size for block in blocks], start, end, [block.alignment for block in blocks])


PLANNERS: Mapping[str, type[MemoryPlanner]] = MappingProxyType(
    {
        MemoryPlannerType.greedy: GreedyMemoryPlanner,
        MemoryPlannerType.by_size: BySizeMemoryPlanner,
        MemoryPlannerType.auto: AutoMemoryPlanner,
    }
)


def create_planner(
    kind: str,
    platform: Platform | None = None,
    constraints: Iterable[MemoryConstraint] = (),
    planners: Mapping[str, type[MemoryPlanner]] = PLANNERS,
) -> MemoryPlanner:
    """The planner of this name; `{**PLANNERS, "mine": Mine}` adds one. Raises InvalidArgument for an unknown name."""
    if kind not in planners:
        raise InvalidArgument(f"memory planner {kind!r}: expected one of {', '.join(planners)}")
    return planners[kind](platform, constraints)
