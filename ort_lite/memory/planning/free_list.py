"""First fit in order of birth: a list of free blocks, and blocks in use until a given operator."""

from bisect import bisect_left
from dataclasses import dataclass
from heapq import heappop, heappush

from ort_lite.memory.planning.requests import align_up


@dataclass(slots=True)
class MemoryFreeBlock:
    """Bytes that no live tensor uses."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True, order=True)
class MemoryActiveBlock:
    """The bytes of a tensor that is in use up to and including operator `end_time`."""

    end_time: int
    offset: int
    size: int


class FreeList:
    """An arena of `capacity` bytes for a simulated run: `advance` to each operator and `place` the tensors that it defines.

    Free blocks are sorted by offset, disjoint and never adjacent. Placing or returning a block costs O(free blocks).
    """

    def __init__(self, capacity: int) -> None:
        self.free = [MemoryFreeBlock(0, capacity)] if capacity > 0 else []
        self.active: list[MemoryActiveBlock] = []  # a heap

    def advance(self, start_op: int) -> None:
        """Free the blocks of tensors whose last operator comes before `start_op`."""
        while self.active and self.active[0].end_time < start_op:
            block = heappop(self.active)
            self._give_back(block.offset, block.size)

    def place(self, size: int, end_op: int, alignment: int = 1) -> int | None:
        """Return the lowest aligned offset with `size` free bytes and use them through `end_op`; None if there is none."""
        if size == 0:
            return 0
        for position, block in enumerate(self.free):
            offset = align_up(block.offset, alignment)
            pad = offset - block.offset
            if pad + size <= block.size:
                rest = MemoryFreeBlock(offset + size, block.size - pad - size)
                parts = [MemoryFreeBlock(block.offset, pad), rest]
                self.free[position : position + 1] = [part for part in parts if part.size]
                heappush(self.active, MemoryActiveBlock(end_op, offset, size))
                return offset
        return None

    def _give_back(self, offset: int, size: int) -> None:
        position = bisect_left(self.free, offset, key=lambda block: block.offset)
        if position < len(self.free) and self.free[position].offset == offset + size:
            size += self.free.pop(position).size
        if position > 0 and self.free[position - 1].offset + self.free[position - 1].size == offset:
            self.free[position - 1].size += size
        else:
            self.free.insert(position, MemoryFreeBlock(offset, size))
