import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.arenas import Arena
from ort_lite.memory.pool import MemoryBudget, ReturningPool, ScratchPool

THREADS = 16


@pytest.fixture
def quick_switching() -> Iterator[None]:
    """Threads take turns so often that a race shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_runs_in_flight_hold_an_arena_each_and_no_byte_more() -> None:
    pool = ScratchPool(Arena)
    for runs in (1, 4, 16):
        leased = [pool.lease(1000) for _ in range(runs)]
        assert len({id(arena.buffer) for arena in leased}) == runs
        assert pool.statistics().bytes == runs * 1000
        for arena in leased:
            pool.release(arena)
    assert pool.statistics().arenas == 16


def test_bytes_in_use_are_those_of_the_largest_scratch_of_each_run() -> None:
    pool = ScratchPool(Arena)
    for nbytes in (3000, 10, 2000):
        arenas = [pool.lease(nbytes) for _ in range(3)]
        for arena in arenas:
            pool.release(arena)
    assert pool.statistics().bytes == 3 * 3000


def test_what_others_ran_with_is_as_far_as_an_arena_grows_ahead() -> None:
    pool = ScratchPool(Arena)
    first, second = pool.lease(1000), pool.lease(700)
    pool.release(first)
    pool.release(second)
    assert pool.lease(900) is second
    assert second.nbytes == 1000  # not 1050
    assert pool.lease(1100) is first
    assert first.nbytes == 1500  # a record: it grows by half


def test_releasing_twice_is_refused() -> None:
    pool = ScratchPool(Arena)
    arena = pool.lease(8)
    pool.release(arena)
    with pytest.raises(InvalidArgument, match="this arena is not leased"):
        pool.release(arena)


def test_trim_keeps_what_runs_hold_and_the_peak() -> None:
    pool = ScratchPool(Arena)
    held, idle = pool.lease(100), pool.lease(200)
    pool.release(idle)
    pool.trim()
    statistics = pool.statistics()
    assert (statistics.bytes, statistics.in_use, statistics.peak, statistics.leases) == (100, 100, 300, 2)
    assert held.nbytes == 100
    assert pool.lease(50) is idle


def test_the_limit_counts_all_arenas_and_a_refusal_loses_none() -> None:
    pool = ScratchPool(Arena, MemoryBudget(300))
    first = pool.lease(200)
    for _ in range(3):
        with pytest.raises(OutOfMemory, match=r"limit of the pool is 300 bytes: 101 asked for as scratch.* 200 bytes are held"):
            pool.lease(101)
    second = pool.lease(100)
    assert pool.statistics().arenas == 2
    pool.release(first)
    pool.release(second)


@pytest.mark.usefixtures("quick_switching")
def test_threads_never_share_an_arena() -> None:
    pool, rounds, start = ScratchPool(Arena), 300, Barrier(THREADS)

    def run(number: int) -> int:
        start.wait(60)
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


def test_a_limit_is_kept_by_growing_less_and_by_what_idle_arenas_have() -> None:
    pool = ScratchPool(Arena, MemoryBudget(300))
    small, large = pool.lease(100), pool.lease(200)
    pool.release(large)
    pool.release(small)
    assert pool.lease(150) is small  # growing by half would make it no larger; the other gave its bytes back
    assert pool.statistics().bytes == 150


def test_pools_share_a_budget() -> None:
    budget = MemoryBudget(300, "the cap")
    budget.take(50, "weights")
    first, second = ScratchPool(Arena, budget), ScratchPool(Arena, budget)
    first.lease(200)
    with pytest.raises(OutOfMemory, match="the cap is 300 bytes: 51 asked for as scratch memory of a run, 250 bytes are held"):
        second.lease(51)
    assert second.lease(50).nbytes == 50
    with pytest.raises(OutOfMemory, match="1 asked for as weights"):
        budget.take(1, "weights")
    assert budget.held == 300


def test_a_returning_pool_holds_nothing_between_runs() -> None:
    budget = MemoryBudget()
    pool = ReturningPool(Arena, budget)
    arena = pool.lease(1000)
    assert pool.statistics().bytes == budget.held == 1000
    pool.release(arena)
    assert pool.statistics().bytes == budget.held == arena.nbytes == 0
    assert pool.lease(10) is arena
    with pytest.raises(InvalidArgument, match="not leased"):
        pool.release(Arena())
