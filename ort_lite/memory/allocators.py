"""An arena allocator for providers: best fit within regions, with growth, shrinking, a limit and statistics."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ort_lite.errors import InvalidArgument, OutOfMemory, format_error
from ort_lite.memory import locks
from ort_lite.memory.arenas import Growth, MemorySource, allocate_bytes

GRAIN = 256
"""Chunks begin and end at multiples of this many bytes within their region."""
FIRST_REGION, LARGEST_STEP = 1 << 20, 1 << 30
"""The size of the first region if regions grow by powers of two, and the size from which regions stop doubling."""


class HostSource:
    """Host memory, as byte arrays aligned to GRAIN."""

    def allocate(self, nbytes: int) -> Any:
        """Return `nbytes` bytes of host memory."""
        return allocate_bytes(nbytes, GRAIN)

    def free(self, handle: Any) -> None:
        """Do nothing: NumPy's reference counts free the memory."""


class MemoryRegion:
    """Memory obtained from the source in one piece. `free` lists its free chunks by offset, with neighbours merged."""

    __slots__ = ("free", "handle", "nbytes")

    def __init__(self, handle: Any, nbytes: int) -> None:
        self.handle, self.nbytes = handle, nbytes
        self.free: list[tuple[int, int]] = [(0, nbytes)]

    @property
    def idle(self) -> bool:
        """True if no byte of it is in use."""
        return self.free == [(0, self.nbytes)]

    def take(self, offset: int, nbytes: int) -> None:
        """Mark a range as used."""
        position = bisect_left(self.free, (offset, 0))
        start, length = self.free.pop(position)
        if length > nbytes:
            self.free.insert(position, (start + nbytes, length - nbytes))

    def give(self, offset: int, nbytes: int) -> None:
        """Mark a range as free, and merge it with its neighbours."""
        position = bisect_left(self.free, (offset, 0))
        if position < len(self.free) and self.free[position][0] == offset + nbytes:
            nbytes += self.free.pop(position)[1]
        if position and sum(self.free[position - 1]) == offset:
            start, length = self.free.pop(position - 1)
            offset, nbytes = start, length + nbytes
        insort(self.free, (offset, nbytes))


class Chunk:
    """A result of `ArenaAllocator.allocate`: `nbytes` bytes at `offset` of a region. `region` is the source's handle of it."""

    __slots__ = ("_owner", "_region", "nbytes", "offset", "reserved")

    def __init__(self, owner: "ArenaAllocator", region: MemoryRegion, offset: int, nbytes: int, reserved: int) -> None:
        self._owner = owner
        self._region, self.offset, self.nbytes, self.reserved = region, offset, nbytes, reserved

    @property
    def region(self) -> Any:
        """The source's handle of the region."""
        return self._region.handle

    @property
    def address(self) -> int:
        """The address of the first byte. Raises AttributeError unless the source's handles are addresses."""
        if isinstance(handle := self._region.handle, int):
            return handle + self.offset
        raise AttributeError(f"the source's handles are {type(handle).__name__}, not addresses")

    @property
    def data(self) -> Any:
        """The bytes, as a slice of the source's handle: an array for host memory. Raises AttributeError for opaque handles."""
        handle = self._region.handle
        if hasattr(type(handle), "__getitem__"):
            return handle[self.offset : self.offset + self.nbytes]
        raise AttributeError(
            f"the source's handles are {type(handle).__name__}, which has no slices: use `region` and `offset`"
        )

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not hasattr(self._region.handle, "__array_interface__"):
            raise AttributeError(f"a {type(self._region.handle).__name__} is no array")
        interface: dict[str, Any] = self.data.__array_interface__
        return interface


class ArenaAllocator:
    """An allocator of chunks of a device's memory. `ExecutionProvider.allocator()` returns the same one each time.

    Thread-safe; the garbage collector may free chunks during any call. `source` allocates and frees the device's memory (None: host
    memory). `growth` sets the size of new regions: powers of two, each at least twice the last (kNextPowerOfTwo), or exactly what
    is requested (kSameAsRequested).
    """

    def __init__(
        self,
        device: Any,
        limit: int | None = None,
        growth: Growth = Growth.next_power_of_two,
        source: MemorySource | None = None,
    ) -> None:
        self.device, self.limit = device, limit
        self._growth, self._source = growth, source if source is not None else HostSource()
        self._lock = locks.lock()
        self._returned: deque[Chunk] = deque()
        self._regions: list[MemoryRegion] = []
        self._step = FIRST_REGION
        self._in_use = self._total = self._most = self._largest = 0
        self._allocations = self._extensions = self._shrinkages = self._reserves = 0

    @property
    def bytes_in_use(self) -> int:
        """The number of bytes allocated now."""
        return self._in_use

    def allocate(self, nbytes: int) -> Chunk:
        """Allocate a chunk of at least `nbytes` bytes. Raises OutOfMemory at the limit or if the source fails. O(free chunks)."""
        if nbytes < 0:
            raise InvalidArgument(f"allocator of {self.device}: {nbytes} bytes asked for, expected 0 or more")
        reserved = max(GRAIN, -(-nbytes // GRAIN) * GRAIN)
        with self._inside():
            region, offset = self._best_fit(reserved) or (self._extend(reserved), 0)
            region.take(offset, reserved)
            self._in_use += reserved
            self._allocations += 1
            self._most, self._largest = max(self._most, self._in_use), max(self._largest, reserved)
        return Chunk(self, region, offset, nbytes, reserved)

    def free(self, handle: Chunk) -> None:
        """Free a chunk. Raises InvalidArgument if it was freed before or belongs to another allocator."""
        try:
            mine = handle._owner is self
            if mine:
                del handle._owner  # only one of two threads succeeds
        except AttributeError:
            mine = False
        if not mine:
            raise InvalidArgument(f"allocator of {self.device}: this chunk is another's, or it was freed before")
        self._returned.append(handle)
        self._settle()

    def reserve(self, nbytes: int) -> None:
        """Get a region of `nbytes` bytes from the source for later allocations. Raises OutOfMemory."""
        with self._inside():
            self._add(-(-nbytes // GRAIN) * GRAIN)
            self._reserves += 1

    def shrink(self) -> None:
        """Return regions without allocated chunks to the source."""
        with self._inside():
            idle = [region for region in self._regions if region.idle]
            self._regions = [region for region in self._regions if not region.idle]
            self._total -= sum(region.nbytes for region in idle)
            self._shrinkages += len(idle)
        for region in idle:
            self._source.free(region.handle)

    def statistics(self) -> dict[str, int]:
        """Return statistics by onnxruntime's names; Limit is 0 if there is none."""
        with self._inside():
            return {
                "Limit": self.limit or 0,
                "InUse": self._in_use,
                "TotalAllocated": self._total,
                "MaxInUse": self._most,
                "NumAllocs": self._allocations,
                "NumReserves": self._reserves,
                "NumArenaExtensions": self._extensions,
                "NumArenaShrinkages": self._shrinkages,
                "MaxAllocSize": self._largest,
            }

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Admit one thread at a time, and take back freed chunks on entry and on exit."""
        try:
            with self._lock:
                self._take_back()
                yield
        finally:
            self._settle()

    def _settle(self) -> None:
        """Take back freed chunks, unless another thread is inside, which does so on exit.

        Never waits: the garbage collector may free a chunk on the thread that is inside.
        """
        while self._returned and self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def _take_back(self) -> None:
        while self._returned:
            chunk = self._returned.popleft()
            chunk._region.give(chunk.offset, chunk.reserved)
            self._in_use -= chunk.reserved

    def _best_fit(self, nbytes: int) -> tuple[MemoryRegion, int] | None:
        fits = [
            (length, k, offset) for k, region in enumerate(self._regions) for offset, length in region.free if length >= nbytes
        ]
        if not fits:
            return None
        _, k, offset = min(fits)
        return self._regions[k], offset

    def _extend(self, nbytes: int) -> MemoryRegion:
        """Add a region for `nbytes` bytes: as large as the growth says, or smaller if limit or source require it."""
        wanted = nbytes
        if self._growth is not Growth.same_as_requested:
            wanted = max(self._step, self._growth.next(0, nbytes))
        room = None if self.limit is None else self.limit - self._total
        if room is not None and nbytes > room:
            raise OutOfMemory(
                f"allocator of {self.device}: {nbytes:,} bytes asked for in one piece; {self._in_use:,} are in use and "
                f"{self._total:,} held of at most {self.limit:,}: raise its limit, or run smaller inputs"
            ).set_sizes(nbytes, self._in_use, self.limit)
        if room is not None and wanted > room:
            wanted = nbytes
        try:
            region = self._add(wanted)
        except MemoryError:
            if wanted == nbytes:
                raise
            region = self._add(nbytes)
        if self._growth is not Growth.same_as_requested:
            self._step = min(max(self._step, wanted) * 2, max(self._step, LARGEST_STEP))
        return region

    def _add(self, nbytes: int) -> MemoryRegion:
        if self.limit is not None and self._total + nbytes > self.limit:
            text = f"allocator of {self.device}: {nbytes:,} bytes more exceed its limit of {self.limit:,}"
            raise OutOfMemory(text).set_sizes(nbytes, self._in_use, self.limit)
        try:
            handle = self._source.allocate(nbytes)
        except MemoryError as error:
            raise OutOfMemory(
                f"allocator of {self.device}: {nbytes:,} bytes asked of its source, which refused; {self._in_use:,} are in use and "
                f"{self._total:,} held{'' if self.limit is None else f' of at most {self.limit:,}'}: {format_error(error)}"
            ).set_sizes(nbytes, self._in_use, self.limit) from error
        region = MemoryRegion(handle, nbytes)
        self._regions.append(region)
        self._total += nbytes
        self._extensions += 1
        return region


class Scratch:
    """Memory for temporary data of calls: one chunk, as large as the largest request so far. For one thread."""

    def __init__(self, arena: ArenaAllocator) -> None:
        self._arena = arena
        self._chunk: Chunk | None = None

    def chunk(self, nbytes: int) -> Chunk:
        """Return the chunk, enlarged to at least `nbytes` bytes if needed. Its contents are undefined. Raises OutOfMemory."""
        if self._chunk is None or self._chunk.nbytes < nbytes:
            self.release()
            self._chunk = self._arena.allocate(nbytes)
        return self._chunk

    def release(self) -> None:
        """Return the chunk to the arena."""
        if self._chunk is not None:
            self._arena.free(self._chunk)
            self._chunk = None
