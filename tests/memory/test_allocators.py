"""ArenaAllocator: chunks never overlap, regions grow, shrink and keep the limit, the figures are onnxruntime's."""

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.allocators import FIRST_REGION, GRAIN, ArenaAllocator, Chunk, Scratch
from ort_lite.memory.arenas import Growth
from ort_lite.provider import CPU, Device
from ort_lite.testing.allocation_log import AllocationLog
from tests.threads import run_together

AS_REQUESTED = Growth.same_as_requested


class Books:
    """A device's memory: handles are numbers."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.count = 0

    def allocate(self, nbytes: int) -> int:
        self.count += 1
        self.live[self.count] = nbytes
        return self.count

    def free(self, handle: int) -> None:
        del self.live[handle]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5000)), max_size=40), st.sampled_from([*Growth]))
def test_chunks_never_overlap_and_everything_comes_back(steps: list[tuple[bool, int]], growth: Growth) -> None:
    books = Books()
    memory = ArenaAllocator(Device("crate"), growth=growth, source=books)
    held: list[Chunk] = []
    for takes, number in steps:
        if takes or not held:
            held.append(memory.allocate(number))
        else:
            memory.free(held.pop(number % len(held)))
        spans = sorted((chunk.region, chunk.offset, chunk.offset + chunk.reserved) for chunk in held)
        for (a, _, top), (b, low, _) in pairwise(spans):
            assert a != b or top <= low
        assert all(chunk.nbytes <= chunk.reserved and chunk.offset % GRAIN == 0 for chunk in held)
        assert all(top <= books.live[region] for region, _, top in spans)
        assert memory.bytes_in_use == sum(chunk.reserved for chunk in held)
        assert memory.statistics()["TotalAllocated"] == sum(books.live.values())
    for chunk in held:
        memory.free(chunk)
    memory.shrink()
    assert not books.live
    assert memory.statistics()["InUse"] == memory.statistics()["TotalAllocated"] == 0


class Owner:
    """In a circle with itself: the garbage collector frees its chunk, wherever it happens to come by."""

    def __init__(self, memory: ArenaAllocator) -> None:
        self.me, self.chunk = self, memory.allocate(100)
        weakref.finalize(self, memory.free, self.chunk).atexit = False


def test_the_garbage_collector_may_free_inside_of_any_call() -> None:
    memory = ArenaAllocator(CPU)

    def work() -> None:
        for k in range(3000):
            gc.set_threshold(3 + k % 60)
            Owner(memory)
            memory.statistics()

    before, worker = gc.get_threshold(), threading.Thread(target=work, daemon=True)
    try:
        worker.start()
        worker.join(20)
    finally:
        gc.set_threshold(*before)
    assert not worker.is_alive(), "it waits for itself"
    gc.collect()
    assert memory.bytes_in_use == 0


def test_threads_that_free_at_once_lose_nothing() -> None:
    memory = ArenaAllocator(CPU, limit=1 << 20, growth=AS_REQUESTED)

    def work(_: int) -> None:
        for k in range(2000):
            chunks = [memory.allocate(k % 999) for _ in range(3)]
            for chunk in chunks:
                memory.free(chunk)

    with switching_often():
        run_together(work, 4)
    assert memory.bytes_in_use == 0
    memory.shrink()
    assert memory.statistics()["TotalAllocated"] == 0


@contextmanager
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_a_chunk_of_the_hosts_is_memory() -> None:
    memory = ArenaAllocator(CPU)
    first, second = memory.allocate(1000), memory.allocate(10)
    np.asarray(first)[:] = 7
    second.data[:] = 9
    assert (first.data == 7).all()
    assert first.data.ctypes.data % GRAIN == second.data.ctypes.data % GRAIN == 0
    assert (len(first.data), len(second.data)) == (1000, 10)


def test_the_smallest_free_chunk_that_is_large_enough_is_taken() -> None:
    memory = ArenaAllocator(CPU)
    chunks = [memory.allocate(n * GRAIN) for n in (4, 1, 2, 1)]
    memory.free(chunks[0])
    memory.free(chunks[2])
    assert memory.allocate(2 * GRAIN).offset == chunks[2].offset
    assert memory.allocate(2 * GRAIN).offset == chunks[0].offset


def test_neighbours_that_are_free_become_one() -> None:
    memory = ArenaAllocator(CPU, growth=AS_REQUESTED)
    memory.reserve(3 * GRAIN)
    for order in ((0, 1, 2), (2, 1, 0), (0, 2, 1)):
        chunks = [memory.allocate(GRAIN) for _ in range(3)]
        for k in order:
            memory.free(chunks[k])
        whole = memory.allocate(3 * GRAIN)
        assert whole.offset == 0
        memory.free(whole)
    assert memory.statistics()["NumArenaExtensions"] == 1


@pytest.mark.parametrize(
    ("growth", "regions"),
    [
        (Growth.next_power_of_two, [FIRST_REGION, 2 * FIRST_REGION, 4 * FIRST_REGION]),
        (AS_REQUESTED, [FIRST_REGION // 2 + GRAIN] * 5),
    ],
)
def test_regions_grow_by_the_strategy(growth: Growth, regions: list[int]) -> None:
    books = Books()
    memory = ArenaAllocator(Device("crate"), growth=growth, source=books)
    for _ in range(5):
        memory.allocate(FIRST_REGION // 2 + 1)
    assert list(books.live.values()) == regions


def test_the_limit_is_kept_and_a_region_is_no_larger_than_it_allows() -> None:
    memory = ArenaAllocator(Device("crate"), limit=FIRST_REGION // 2, source=Books())
    first = memory.allocate(FIRST_REGION // 4)
    assert memory.statistics()["TotalAllocated"] == FIRST_REGION // 4
    message = r"allocator of crate:0: 393,216 bytes asked for in one piece; 262,144 are in use and .* at most 524,288"
    with pytest.raises(OutOfMemory, match=message):
        memory.allocate(FIRST_REGION // 8 * 3)
    memory.free(first)
    memory.shrink()
    memory.allocate(FIRST_REGION // 8 * 3)
    with pytest.raises(OutOfMemory, match="bytes more exceed its limit"):
        memory.reserve(FIRST_REGION)


def test_a_source_that_has_less_gets_a_second_question() -> None:
    class Small(Books):
        def allocate(self, nbytes: int) -> int:
            if nbytes > 1000 * GRAIN:
                raise MemoryError(nbytes)
            return super().allocate(nbytes)

    memory = ArenaAllocator(Device("crate"), source=Small())
    assert memory.allocate(1000 * GRAIN).nbytes == 1000 * GRAIN
    with pytest.raises(MemoryError):
        memory.allocate(1001 * GRAIN)
    assert memory.bytes_in_use == 1000 * GRAIN


def test_shrinking_keeps_regions_in_use() -> None:
    books = Books()
    memory = ArenaAllocator(Device("crate"), growth=AS_REQUESTED, source=books)
    first, second = memory.allocate(GRAIN), memory.allocate(GRAIN)
    memory.free(second)
    memory.shrink()
    assert list(books.live) == [first.region]


def test_the_figures_have_onnxruntimes_names() -> None:
    memory = ArenaAllocator(CPU, limit=1 << 24)
    chunk = memory.allocate(1000)
    memory.free(memory.allocate(5000))
    memory.free(chunk)
    memory.shrink()
    memory.reserve(GRAIN)
    assert memory.statistics() == {
        "Limit": 1 << 24,
        "InUse": 0,
        "TotalAllocated": GRAIN,
        "MaxInUse": 1024 + 5120,
        "NumAllocs": 2,
        "NumReserves": 1,
        "NumArenaExtensions": 2,
        "NumArenaShrinkages": 1,
        "MaxAllocSize": 5120,
    }


@pytest.mark.parametrize("other", [True, False])
def test_freeing_what_is_not_held_is_refused(other: bool) -> None:
    memory: Any = ArenaAllocator(CPU)
    chunk = (ArenaAllocator(CPU) if other else memory).allocate(8)
    if not other:
        memory.free(chunk)
    with pytest.raises(InvalidArgument, match="allocator of cpu:0: this chunk is another's, or it was freed before"):
        memory.free(chunk)
    with pytest.raises(InvalidArgument, match="-1 bytes asked for"):
        memory.allocate(-1)


def test_scratch_is_one_chunk_that_grows_and_goes_back() -> None:
    arena = ArenaAllocator("device", limit=1 << 20)
    scratch = Scratch(arena)
    first = scratch.chunk(1000)
    assert scratch.chunk(10) is first
    assert scratch.chunk(5000) is not first
    assert 5000 <= arena.bytes_in_use < 6000
    scratch.release()
    scratch.release()
    assert arena.bytes_in_use == 0
    assert scratch.chunk(10).nbytes == 10


class Driver:
    """Regions at addresses that the host cannot look at."""

    def __init__(self) -> None:
        self.next = 4096

    def allocate(self, nbytes: int) -> int:
        self.next += nbytes
        return self.next - nbytes

    def free(self, handle: int) -> None:
        pass


def test_chunks_of_a_source_that_gives_addresses_say_where_they_lie() -> None:
    arena = ArenaAllocator(Device("npu"), source=Driver())
    first, second = arena.allocate(100), arena.allocate(100)
    assert first.address == 4096 + first.offset and second.address - first.address >= 100
    assert not hasattr(first, "__array_interface__")
    assert AllocationLog.of(arena).trials() == []
    with pytest.raises(AttributeError, match="the source's handles are ndarray, not addresses"):
        _ = ArenaAllocator(CPU).allocate(1).address


class Buffers:
    """A device whose handles are objects without addresses, and without slices."""

    def allocate(self, nbytes: int) -> object:
        return object()

    def free(self, handle: object) -> None:
        pass


def test_chunks_of_a_source_that_gives_objects_have_a_region_and_an_offset() -> None:
    arena = ArenaAllocator(Device("npu"), source=Buffers())
    first, second = arena.allocate(100), arena.allocate(100)
    assert first.region is second.region and first.offset != second.offset
    assert [getattr(first, name, None) for name in ("__array_interface__", "address", "data")] == [None, None, None]
    assert AllocationLog.of(arena).trials() == []
    with pytest.raises(AttributeError, match="the source's handles are object, which has no slices: use `region` and `offset`"):
        _ = first.data
