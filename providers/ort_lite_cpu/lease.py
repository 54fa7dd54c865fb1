"""What one run holds while it is in flight: scratch memory, a memory table and a job record."""

from __future__ import annotations

import ctypes

from ort_lite.memory.arenas import CACHE_LINE, Arena, Growth, Source
from ort_lite_cpu.loop import Job


class Lease(Arena):
    """An arena, and what native code is told of it. `memory` is the table of base addresses: null, scratch, then one a place.

    Any program may have it next: `fit` makes it right for a number of threads and of places.
    """

    __slots__ = ("entries", "job", "memory", "memory_address", "threads")

    def __init__(self, growth: Growth = Growth.half, source: Source | None = None) -> None:
        super().__init__(0, CACHE_LINE, growth, source)
        self.threads = self.entries = 0

    def fit(self, threads: int, entries: int) -> None:
        """A table of at least `entries`, and a job for `threads`."""
        if threads != self.threads:
            self.threads, self.job = threads, Job(threads)
        if entries > self.entries:
            self.entries, self.memory = entries, (ctypes.c_int64 * entries)()
            self.memory_address = ctypes.addressof(self.memory)


__all__ = ["Lease"]
