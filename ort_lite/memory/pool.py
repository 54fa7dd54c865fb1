"""Scratch memory of the runs in flight: a pool gives each an arena of its own, within a budget that others may share."""

from collections.abc import Callable
from typing import Generic, TypeVar

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory import locks
from ort_lite.memory.arenas import Arena
from ort_lite.record import Record

A = TypeVar("A", bound=Arena)


class Budget:
    """Bytes that may be held at once. Who changes `held` has the `lock`."""

    def __init__(self, limit: int | None = None, name: str = "the limit of the pool") -> None:
        """`name` says in errors what to raise."""
        self.limit, self.name = limit, name
        self.held = 0
        self.lock = locks.lock()

    @property
    def room(self) -> int | None:
        """Bytes left; None: no limit."""
        return None if self.limit is None else max(0, self.limit - self.held)

    def take(self, nbytes: int, what: str) -> None:
        """Takes bytes that stay. Raises OutOfMemory, and takes none."""
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
    """`bytes` held now and `in_use` by runs of them, `peak` ever held, `leases` given so far, `arenas` made: as many as there
    were runs at once.
    """

    bytes: int
    in_use: int
    peak: int
    leases: int
    arenas: int


class ScratchPool(Generic[A]):
    """One scratch arena for each run in flight: k runs hold k arenas, as large as the largest scratch they ran with.

    `lease` and `release` may be called from any thread, and take no lock unless an arena is made or grows: list.pop
    and list.append are atomic. The arena released last is leased first, while its bytes are still in a cache.
    Several programs, and several sessions, may share a pool: nothing in scratch outlives a run.
    """

    def __init__(self, make: Callable[[], A], budget: Budget | None = None) -> None:
        """`make` gives empty arenas."""
        self.budget = budget or Budget()
        self._make = make
        self._free: list[A] = []
        self._arenas: list[A] = []
        self._held = self._peak = self._largest = 0

    def lease(self, nbytes: int) -> A:
        """An arena with at least `nbytes` bytes that nobody else has, until it is released. Raises OutOfMemory."""
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
        """Takes an arena back. Raises InvalidArgument if nobody has it: two runs would get the same bytes."""
        if not arena.leased:
            raise InvalidArgument("ScratchPool.release: this arena is not leased; expected one release for each lease")
        arena.leased = False
        self._free.append(arena)

    def trim(self) -> None:
        """Gives the memory of all arenas that no run has back to the system."""
        with self.budget.lock:
            self._trim()

    def statistics(self) -> PoolStatistics:
        """O(arenas). While other threads lease, the numbers are those of some moment during the call."""
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
                    self._trim()  # arenas that are idle, perhaps too small for this run as well
                room = budget.room
                if room is not None and nbytes - before > room:
                    raise budget.refusal(nbytes, "scratch memory of a run")
                # Only who sets a record takes more than was ever asked for: the next record may be near.
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
    """A pool whose memory goes back to the system as soon as a run is done with it."""

    def release(self, arena: A) -> None:
        """Take an arena back and, if the pool may not keep it, free it."""
        if arena.leased:
            with self.budget.lock:
                self._give_back(arena)
        super().release(arena)
