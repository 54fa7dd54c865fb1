import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.arenas import PAGE, Arena, Bytes, ConstantArena, PersistentArena, ScratchPool

THREADS = 16


@pytest.fixture
def quick_switching() -> Iterator[None]:
    """Threads take turns so often that a race shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


# --- Arena
@pytest.mark.parametrize("alignment", [1, 64, PAGE])
@pytest.mark.parametrize("nbytes", [1, 100, 10**7])
def test_an_arena_is_aligned_and_as_large_as_asked(nbytes: int, alignment: int) -> None:
    arena = Arena(nbytes, alignment)
    assert arena.address % alignment == 0
    assert (arena.nbytes, arena.buffer.shape, arena.buffer.dtype.name) == (nbytes, (nbytes,), "uint8")
    assert arena.reserve(nbytes) == arena.buffer.ctypes.data == arena.address


def test_an_empty_arena_has_an_address_all_the_same() -> None:
    assert Arena().reserve(0) != 0


def test_an_arena_grows_by_half_at_least_and_never_shrinks() -> None:
    arena, sizes = Arena(1000), set()
    for nbytes in range(1000, 100_000, 100):
        arena.reserve(nbytes)
        assert nbytes <= arena.nbytes <= nbytes * 3 // 2
        sizes.add(arena.nbytes)
    assert len(sizes) <= 13
    before = arena.nbytes
    arena.reserve(1)
    assert arena.nbytes == before


def test_a_first_reservation_takes_no_byte_too_many() -> None:
    arena = Arena()
    arena.reserve(1000)
    assert arena.nbytes == 1000


def test_reserving_what_there_is_keeps_address_and_contents() -> None:
    arena = Arena(256)
    arena.buffer[:] = 7
    assert arena.reserve(256) == arena.address
    assert (arena.view(128, 128) == 7).all()


def test_trim_gives_the_memory_back() -> None:
    arena = Arena(1000)
    arena.trim()
    assert arena.nbytes == len(arena.buffer) == 0
    assert arena.reserve(10) % 64 == 0


def test_an_arena_that_may_not_grow_keeps_what_it_has() -> None:
    arena = Arena(100)
    address = arena.reserve(140, limit=140)
    assert arena.nbytes == 140
    with pytest.raises(OutOfMemory, match="arena of 140 bytes: 141 asked for, at most 140"):
        arena.reserve(141, limit=140)
    assert (arena.address, arena.nbytes) == (address, 140)


@pytest.mark.parametrize("nbytes", [1 << 46, 1 << 62, 1 << 63, 1 << 80])
def test_an_absurd_size_is_a_typed_error(nbytes: int) -> None:
    arena = Arena(64)
    with pytest.raises(OutOfMemory, match=f"{nbytes:,} bytes asked of the system"):
        arena.reserve(nbytes)
    assert arena.nbytes == 64


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 1), (0, 65), (64, 1), (2, -1)])
def test_a_view_outside_is_refused(offset: int, nbytes: int) -> None:
    with pytest.raises(InvalidArgument, match=r"of an arena that has \[0, 64\)"):
        Arena(64).view(offset, nbytes)


# --- ScratchPool
def test_runs_in_flight_hold_an_arena_each_and_no_byte_more() -> None:
    pool = ScratchPool()
    for runs in (1, 4, 16):
        leased = [pool.lease(1000) for _ in range(runs)]
        assert len({id(arena.buffer) for arena in leased}) == runs
        assert pool.statistics().bytes == runs * 1000
        for arena in leased:
            pool.release(arena)
    assert pool.statistics().arenas == 16


def test_bytes_in_use_are_those_of_the_largest_scratch_of_each_run() -> None:
    pool = ScratchPool()
    for nbytes in (3000, 10, 2000):
        arenas = [pool.lease(nbytes) for _ in range(3)]
        for arena in arenas:
            pool.release(arena)
    assert pool.statistics().bytes == 3 * 3000


def test_the_arena_released_last_is_leased_first() -> None:
    pool = ScratchPool()
    first, second = pool.lease(8), pool.lease(8)
    pool.release(first)
    pool.release(second)
    assert pool.lease(8) is second


def test_two_programs_share_a_pool_one_after_the_other() -> None:
    pool = ScratchPool()
    small = pool.lease(100)
    pool.release(small)
    large = pool.lease(5000)
    assert large is small
    assert (large.nbytes, pool.statistics().arenas) == (5000, 1)


def test_releasing_twice_is_refused() -> None:
    pool = ScratchPool()
    arena = pool.lease(8)
    pool.release(arena)
    with pytest.raises(InvalidArgument, match="this arena is not leased"):
        pool.release(arena)


def test_trim_keeps_what_runs_hold_and_the_peak() -> None:
    pool = ScratchPool()
    held, idle = pool.lease(100), pool.lease(200)
    pool.release(idle)
    pool.trim()
    statistics = pool.statistics()
    assert (statistics.bytes, statistics.peak, statistics.leases) == (100, 300, 2)
    assert held.nbytes == 100
    assert pool.lease(50) is idle


def test_the_limit_counts_all_arenas_and_a_refusal_loses_none() -> None:
    pool = ScratchPool(limit=300)
    first = pool.lease(200)
    for _ in range(3):
        with pytest.raises(OutOfMemory, match="101 asked for, at most 100"):
            pool.lease(101)
    second = pool.lease(100)
    assert pool.statistics().arenas == 2
    pool.release(first)
    pool.release(second)


@pytest.mark.usefixtures("quick_switching")
def test_threads_never_share_an_arena() -> None:
    pool, rounds, start = ScratchPool(), 300, Barrier(THREADS)

    def run(number: int) -> int:
        start.wait()
        for turn in range(rounds):
            arena = pool.lease(64 + 8 * turn)
            arena.buffer[:64] = number
            intruders = (arena.buffer[:64] != number).sum()
            pool.release(arena)
            if intruders:
                return int(intruders)
        return 0

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(run, range(THREADS))) == [0] * THREADS
    statistics = pool.statistics()
    assert statistics.leases == THREADS * rounds
    assert 1 <= statistics.arenas <= THREADS
    assert statistics.bytes <= statistics.arenas * (64 + 8 * rounds) * 3 // 2


# --- Persistent and constant arenas
def test_persistent_bytes_are_zero_at_first_and_stay_until_cleared() -> None:
    arena = PersistentArena(1000)
    assert arena.address % 64 == 0 == arena.buffer.sum()
    arena.buffer[:] = 3
    assert arena.buffer.sum() == 3000
    arena.clear()
    assert arena.buffer.sum() == 0


def test_cold_constants_are_read_in_place() -> None:
    stored = np.arange(100, dtype=np.uint8)
    arena = ConstantArena.cold(stored)
    assert np.shares_memory(arena.buffer, stored)
    assert (arena.address, arena.nbytes) == (stored.ctypes.data, 100)
    with pytest.raises(ValueError, match="read-only"):
        arena.buffer[0] = 1
    assert stored.flags.writeable


def test_staged_constants_are_copied_once_however_many_threads_come() -> None:
    copies, start = [], Barrier(THREADS)

    def hydrate(target: Bytes) -> None:
        copies.append(len(target))
        sleep(0.05)  # all threads come while this one copies
        target[:] = np.arange(200)

    arena = ConstantArena(200, hydrate)
    assert copies == []

    def read(_: int) -> tuple[int, int]:
        start.wait()
        return int(arena.buffer.sum()), arena.address

    with ThreadPoolExecutor(THREADS) as threads:
        results = set(threads.map(read, range(THREADS)))
    assert copies == [200]
    assert results == {(sum(range(200)), arena.address)}
    assert arena.address % 64 == 0
    assert not arena.buffer.flags.writeable


def test_a_copy_that_fails_is_tried_again() -> None:
    outcomes = iter([OSError("gone"), None])

    def hydrate(target: Bytes) -> None:
        target[:] = 5
        if (error := next(outcomes)) is not None:
            raise error

    arena = ConstantArena(4, hydrate)
    with pytest.raises(OSError, match="gone"):
        _ = arena.buffer
    assert arena.buffer.tolist() == [5, 5, 5, 5]
