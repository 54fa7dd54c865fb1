"""The bytes behind a plan: scratch that runs lease, persistent bytes that start as zeros, constants filled once."""

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.record import Record

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

CACHE_LINE, PAGE = 64, 4096


def aligned_bytes(nbytes: int, alignment: int = CACHE_LINE, zeroed: bool = False) -> Bytes:
    """(nbytes,), the first byte at a multiple of `alignment`. Pages are touched when used. Raises OutOfMemory."""
    try:
        raw = (np.zeros if zeroed else np.empty)(nbytes + alignment - 1, np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:
        raise OutOfMemory(f"{nbytes:,} bytes asked of the system, which refused: {error}") from error
    skip = -address_of(raw) % alignment
    return raw[skip : skip + nbytes]


def address_of(array: Bytes) -> int:
    """Of the first byte, also for an empty array."""
    address: int = array.__array_interface__["data"][0]
    return address


class Arena:
    """A buffer that grows and never shrinks, until `trim`. Growing takes fresh memory and forgets the contents.

    First touch costs more than most kernels, so growth is geometric: a sequence that gets longer by one with each run
    takes fresh memory a logarithmic number of times. One thread at a time; `ScratchPool` gives each run its own.
    """

    __slots__ = ("address", "alignment", "buffer", "leased", "leases", "nbytes")

    def __init__(self, nbytes: int = 0, alignment: int = CACHE_LINE) -> None:
        self.alignment = alignment
        self.nbytes, self.leases, self.leased = 0, 0, False
        self.trim()
        self.reserve(nbytes)

    def reserve(self, nbytes: int, limit: int | None = None) -> int:
        """The address of at least `nbytes` bytes, which stay until the next call that asks for more than there are.

        Keeps to `limit` bytes where growing by half would exceed it. Raises OutOfMemory, and keeps what there is.
        """
        if nbytes > self.nbytes:
            wanted = max(nbytes, self.nbytes + self.nbytes // 2)
            if limit is not None and wanted > limit:
                wanted = nbytes
            if limit is not None and nbytes > limit:
                raise OutOfMemory(f"arena of {self.nbytes:,} bytes: {nbytes:,} asked for, at most {limit:,} are allowed")
            self._grow(wanted, nbytes)
        return self.address

    def trim(self) -> None:
        """Gives the memory back to the system; the next `reserve` takes fresh one."""
        self.buffer = aligned_bytes(0, self.alignment)
        self.nbytes, self.address = 0, address_of(self.buffer)

    def view(self, offset: int, nbytes: int) -> Bytes:
        """(nbytes,) of the buffer itself. Raises InvalidArgument where that is not inside."""
        if not 0 <= offset <= offset + nbytes <= self.nbytes:
            raise InvalidArgument(f"bytes [{offset}, {offset + nbytes}) of an arena that has [0, {self.nbytes})")
        return self.buffer[offset : offset + nbytes]

    def _grow(self, wanted: int, needed: int) -> None:
        try:
            buffer = aligned_bytes(wanted, self.alignment)
        except OutOfMemory:
            if wanted == needed:
                raise
            buffer = aligned_bytes(needed, self.alignment)
        self.buffer, self.nbytes, self.address = buffer, len(buffer), address_of(buffer)


class PoolStatistics(Record):
    """`bytes` held now, `peak` ever held, `leases` given so far, `arenas` made: as many as there were runs at once."""

    bytes: int
    peak: int
    leases: int
    arenas: int


class ScratchPool:
    """One scratch arena for each run in flight: k runs hold k arenas, as large as the largest scratch they ran with.

    `lease` and `release` may be called from any thread, and take no lock unless an arena is made or grows: list.pop
    and list.append are atomic. The arena released last is leased first, while its bytes are still in a cache.
    Several programs may share a pool: nothing in scratch outlives a run.
    """

    def __init__(self, alignment: int = CACHE_LINE, limit: int | None = None) -> None:
        """`limit`: bytes that all arenas of the pool may have together."""
        self._alignment, self._limit = alignment, limit
        self._free: list[Arena] = []
        self._arenas: list[Arena] = []
        self._growing = Lock()
        self._peak = 0

    def lease(self, nbytes: int) -> Arena:
        """An arena with at least `nbytes` bytes that nobody else has, until it is released. Raises OutOfMemory."""
        try:
            arena = self._free.pop()
        except IndexError:
            arena = Arena(0, self._alignment)
            self._arenas.append(arena)
        if arena.nbytes < nbytes:
            self._grow(arena, nbytes)
        arena.leased = True
        arena.leases += 1
        return arena

    def release(self, arena: Arena) -> None:
        """Takes an arena back. Raises InvalidArgument if nobody has it: two runs would get the same bytes."""
        if not arena.leased:
            raise InvalidArgument("ScratchPool.release: this arena is not leased; expected one release for each lease")
        arena.leased = False
        self._free.append(arena)

    def trim(self) -> None:
        """Gives the memory of all arenas that no run has back to the system."""
        idle = []
        while self._free:
            try:
                idle.append(self._free.pop())
            except IndexError:  # another thread took it
                break
        for arena in idle:
            arena.trim()
        self._free.extend(idle)

    def statistics(self) -> PoolStatistics:
        """O(arenas). While other threads lease, the numbers are those of some moment during the call."""
        arenas = list(self._arenas)
        held = sum(arena.nbytes for arena in arenas)
        return PoolStatistics(held, max(self._peak, held), sum(arena.leases for arena in arenas), len(arenas))

    def _grow(self, arena: Arena, nbytes: int) -> None:
        try:
            with self._growing:
                others = sum(other.nbytes for other in self._arenas if other is not arena)
                arena.reserve(nbytes, None if self._limit is None else self._limit - others)
                self._peak = max(self._peak, others + arena.nbytes)
        except BaseException:
            self._free.append(arena)
            raise


class PersistentArena:
    """(nbytes,) writable bytes that keep their contents from run to run, zero at first and after `clear`."""

    def __init__(self, nbytes: int, alignment: int = CACHE_LINE) -> None:
        self.buffer = aligned_bytes(nbytes, alignment, zeroed=True)
        self.nbytes, self.address = nbytes, address_of(self.buffer)

    def clear(self) -> None:
        self.buffer[:] = 0


class ConstantArena:
    """Read-only bytes. Cold ones are read where they are; staged ones are copied by `hydrate`, once, when first needed.

    `hydrate` gets the writable bytes and fills them. Threads that come meanwhile wait; if it raises, the next call of
    `buffer` tries again.
    """

    def __init__(self, nbytes: int, hydrate: Callable[[Bytes], None], alignment: int = CACHE_LINE) -> None:
        self.nbytes = nbytes
        self._hydrate, self._alignment = hydrate, alignment
        self._hydrating = Lock()
        self._buffer: Bytes | None = None

    @classmethod
    def cold(cls, stored: Bytes) -> "ConstantArena":
        """Over bytes that are stored already, say in a mapped file: nothing is copied."""
        arena = cls(len(stored), lambda _: None)
        arena._buffer = _read_only(stored)
        return arena

    @property
    def buffer(self) -> Bytes:
        """(nbytes,), read-only. Raises OutOfMemory, and what `hydrate` raises."""
        if self._buffer is None:
            with self._hydrating:
                if self._buffer is None:
                    filled = aligned_bytes(self.nbytes, self._alignment)
                    self._hydrate(filled)
                    self._buffer = _read_only(filled)
        return self._buffer

    @property
    def address(self) -> int:
        return address_of(self.buffer)


def _read_only(data: Bytes) -> Bytes:
    view = data.view()
    view.flags.writeable = False
    return view
