"""The context of a run in flight: scratch memory, a memory table and a job record."""

from __future__ import annotations

import ctypes

from ort_lite.memory.arenas import CACHE_LINE, Arena, Growth, MemorySource
from ort_lite_cpu.run.loop import Job


class RunContext(Arena):
    """An arena, and what native code is told of it. `memory` is the table of base addresses: null, scratch, then one a place.

    Any program may have it next: `fit` makes it right for a number of threads and of places. `job` is told of each run anew.
    `attached` has the jobs that can do the last run of a bound program again, by its token: one for each segment of a program.
    `spare` has jobs that were attached to programs before.
    """

    __slots__ = ("attached", "fits", "job", "memory", "memory_address", "spare")

    MOST_ATTACHED = 8

    def __init__(self, growth: Growth = Growth.half, source: MemorySource | None = None) -> None:
        super().__init__(0, CACHE_LINE, growth, source)
        self.memory = (ctypes.c_int64 * 0)()
        self.fits = (0, 0)
        self.attached: dict[object, Job] = {}
        self.spare: list[Job] = []

    def fit(self, needs: tuple[int, int]) -> None:
        """`needs` are (threads, entries): a job for those, a table of at least these. `fits` says whom it was made right for."""
        threads, entries = needs
        if threads != self.fits[0]:
            self.job = Job(threads)
            self.spare.clear()
        else:
            self.spare += self.attached.values()
        self.attached.clear()
        if entries > len(self.memory):
            self.memory = (ctypes.c_int64 * entries)()
            self.memory_address = ctypes.addressof(self.memory)
        self.fits = needs

    def keep_job(self, token: object) -> None:
        """Keep the job for the bound program that it has run. A spare one becomes `job`, the oldest if many are kept, or a new one."""
        attached = self.attached
        if len(attached) >= self.MOST_ATTACHED:
            self.spare.append(attached.pop(next(iter(attached))))
        attached[token], self.job = self.job, self.spare.pop() if self.spare else Job(self.fits[0])
