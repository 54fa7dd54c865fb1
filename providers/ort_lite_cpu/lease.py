"""What one run holds while it is in flight: scratch memory, a memory table and a job record."""

from __future__ import annotations

import ctypes

from ort_lite.memory.arenas import Arena
from ort_lite_cpu.loop import Job


class Lease:
    """`memory` is the table of base addresses: null, scratch, then one entry a place."""

    __slots__ = ("arena", "base", "job", "memory", "memory_address")

    def __init__(self, threads: int, entries: int) -> None:
        self.arena = Arena()
        self.base = 0
        self.memory = (ctypes.c_int64 * entries)()
        self.memory_address = ctypes.addressof(self.memory)
        self.job = Job(threads)


class Leases:
    """Leases that no run holds, last given first. Bytes in use are those of the runs in flight at most."""

    def __init__(self, threads: int, entries: int) -> None:
        self._threads, self._entries = threads, entries
        self._free: list[Lease] = []

    def take(self, scratch: int) -> Lease:
        """A lease with at least `scratch` bytes. list.pop and append are atomic: no lock."""
        try:
            lease = self._free.pop()
        except IndexError:
            lease = Lease(self._threads, self._entries)
        lease.base = lease.arena.reserve(scratch)
        return lease

    def give(self, lease: Lease) -> None:
        self._free.append(lease)

    @property
    def nbytes(self) -> int:
        """Scratch memory held by leases that are not in use."""
        return sum(lease.arena.nbytes for lease in self._free)


__all__ = ["Lease", "Leases"]
