"""Scratch memory of runs in flight: a pool gives each run its own arena, within a budget that other pools may share."""

from collections.abc import Callable
from typing import Generic, TypeVar

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory import locks
from ort_lite.memory.arenas import Arena
from ort_lite.record import Record

A = TypeVar("A", bound=Arena)


class MemoryBudget:
    """A limit on the bytes held at once. Changing `held` requires the `lock`."""

    def __init__(self, limit: int | None = None, name: str = "the limit of the pool") -> None:
        """`name` tells users in error messages which limit to raise."""
        self.limit, self.name = limit, name
        self.held = 0
        self.lock = locks.lock()

    @property
    def room(self) -> int | None:
        """The number of bytes left; None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.held)

    def take(self, nbytes: int, what: str) -> None:
        """Count bytes that stay allocated. Raises OutOfMemory, and then counts none."""
        with self.lock:
            if self.room is not None and nbytes > self.room:
                raise self.refusal(nbytes, what)
            self.held += nbytes

    def refusal(self, nbytes: int, what: str) -> OutOfMemory:
        """Return the error for bytes beyond the limit."""
        held = f", {self.held:,} bytes are held already" if self.held else ""
        return OutOfMemory(
            f"{self.name} is {self.limit or 0:,} bytes: {nbytes:,} asked for as {what}{held}; "
            "raise it, run smaller inputs, or fewer at once"
        )


class PoolStatistics(Record):
    """Statistics of a pool.

    `bytes` are held now, `in_use` of them by runs; `peak` is the most ever held. `leases` counts leases so far, `arenas` the arenas
    created, which is the most runs in flight at once.
    """

    bytes: int
    in_use: int
    peak: int
    leases: int
    arenas: int


class ScratchPool(Generic[A]):
    """A pool with one scratch arena per run in flight. Each arena grows to the largest scratch it was used for.

    Any thread may call `lease` and `release`. They lock only to create or grow an arena, since list.pop and list.append are atomic.
    The last arena released is leased first, while its bytes are still in a cache. Programs and sessions may share a pool, since
    nothing in scratch outlives a run.
    """

    def __init__(self, make: Callable[[], A], budget: MemoryBudget | None = None) -> None:
        """`make` creates an empty arena."""
        self.budget = budget or MemoryBudget()
        self._make = make
        self._free: list[A] = []
        self._arenas: list[A] = []
        self._held = self._peak = self._largest = 0

    def lease(self, nbytes: int) -> A:
        """Return an arena with at least `nbytes` bytes for exclusive use until it is released. Raises OutOfMemory."""
        try:
            arena = self._free.pop()
        except IndexError:
            arena = self._make()
            self._arenas.append(arena)
        if arena.nbytes < nbytes:
            self._grow(arena, nbytes)
        arena.leased = True
        arena.leases += 1
        return arena

    def release(self, arena: A) -> None:
        """Take an arena back. Raises InvalidArgument unless it is leased: two runs would otherwise get the same bytes."""
        if not arena.leased:
            raise InvalidArgument("ScratchPool.release: this arena is not leased; expected one release for each lease")
        arena.leased = False
        self._free.append(arena)

    def trim(self) -> None:
        """Return the memory of all idle arenas to the system."""
        with self.budget.lock:
            self._trim()

    def statistics(self) -> PoolStatistics:
        """Return the statistics. While other threads lease, they are those of some moment during the call. O(arenas)."""
        arenas = list(self._arenas)
        in_use = sum(arena.nbytes for arena in arenas if arena.leased)
        leases = sum(arena.leases for arena in arenas)
        return PoolStatistics(self._held, in_use, self._peak, leases, len(arenas))

    def _trim(self) -> None:
        idle = []
        while self._free:
            try:
                idle.append(self._free.pop())
            except IndexError:  # another thread took it
                break
        for arena in idle:
            self._give_back(arena)
        self._free.extend(idle)

    def _give_back(self, arena: A) -> None:
        self._held -= arena.nbytes
        self.budget.held -= arena.nbytes
        arena.trim()

    def _grow(self, arena: A, nbytes: int) -> None:
        budget = self.budget
        try:
            with budget.lock:
                before = arena.nbytes
                if budget.room is not None and nbytes - before > budget.room:
                    self._trim()  # frees idle arenas, which may be too small for this run too
                room = budget.room
                if room is not None and nbytes - before > room:
                    raise budget.refusal(nbytes, "scratch memory of a run")
                # Only the largest request so far allocates ahead: a slightly larger one may follow.
                enough = self._largest if nbytes < self._largest else None
                arena.reserve(nbytes, None if room is None else before + room, enough)
                self._largest = max(self._largest, nbytes)
                self._held += arena.nbytes - before
                budget.held += arena.nbytes - before
                self._peak = max(self._peak, self._held)
        except BaseException:
            self._free.append(arena)
            raise


class ReturningPool(ScratchPool[A]):
    """A pool that returns memory to the system as soon as a run releases it."""

    def release(self, arena: A) -> None:
        """Take an arena back and free its memory."""
        if arena.leased:
            with self.budget.lock:
                self._give_back(arena)
        super().release(arena)
