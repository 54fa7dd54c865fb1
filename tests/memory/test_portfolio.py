"""The planner `auto`: never worse than greedy, never an overlap, the same plan for the same problem."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given

from ort_lite.errors import OutOfMemory
from ort_lite.memory.planning import packing, portfolio, wide
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.neighbours import Words
from ort_lite.memory.planning.planner import AutoMemoryPlanner
from ort_lite.memory.planning.requests import MemoryConstraint, Platform
from tests.memory.problems import Problem, first_fit, peak_of, problems, random_problem


def blocks(problem: Problem) -> Blocks:
    return Blocks(problem.size, problem.start, problem.end)


def overlaps(problem: Problem, offsets: list[int]) -> list[tuple[int, int]]:
    spans = list(zip(problem.start, problem.end, offsets, problem.size, strict=True))
    return [
        (i, j)
        for j, (start, end, low, size) in enumerate(spans)
        for i, (other_start, other_end, other_low, other_size) in enumerate(spans[:j])
        if start < other_end and other_start < end and low < other_low + other_size and other_low < low + size
    ]


@given(problems(most=20))
def test_it_is_never_worse_than_greedy_and_never_overlaps(problem: Problem) -> None:
    prepared = blocks(problem)
    offsets, peak, order = portfolio.pack(prepared)
    assert prepared.first_fit(order)[1] == peak
    greedy = prepared.first_fit(prepared.by_start())[1]
    assert problem.most_alive() <= peak == peak_of(problem, offsets.tolist()) <= greedy
    assert not overlaps(problem, offsets.tolist())


@pytest.mark.parametrize("seed", range(4))
def test_the_search_lowers_the_peak_and_keeps_blocks_apart_and_aligned(seed: int) -> None:
    problem = random_problem(seed, 120, 60, 30)
    aligned = Blocks(problem.size, problem.start, problem.end, [1 << (i % 7) for i in range(120)])
    order = aligned.by_start()
    offsets, peak = aligned.first_fit(order)
    state = np.array([portfolio.SEED], np.int64)
    found = aligned.improve(order, offsets, peak, aligned.near(), aligned.lower_bound(), 300, state)
    assert sorted(order.tolist()) == list(range(120))
    assert found == peak_of(problem, offsets.tolist()) < peak
    assert not overlaps(problem, offsets.tolist())
    assert all(offset % (1 << (i % 7)) == 0 for i, offset in enumerate(offsets.tolist()))


def test_more_time_does_not_hurt() -> None:
    prepared = blocks(Problem.read("B"))
    assert portfolio.pack(prepared, seconds=0.2)[1] <= portfolio.pack(prepared)[1]


def test_of_orders_that_leave_blocks_out_the_one_with_fewest_bytes_counts() -> None:
    problem = Problem((50, 60, 50), (0, 0, 0), (9, 9, 9))
    offsets, _, _ = portfolio.pack(blocks(problem), capacity=100)
    assert sorted(offsets.tolist()) == [-1, 0, 50]
    memories = Memories(Platform(min_alignment=1), [MemoryConstraint("cpu", max_size=100)])
    with pytest.raises(OutOfMemory, match="1 tensors do not fit 'cpu'"):
        memories.plan(AutoMemoryPlanner(), problem.requests(), problem.lifetimes())


@pytest.mark.parametrize(("times", "longest"), [(1000, 5), (1000, 1000), (3000, 300), (3, 3)])
@pytest.mark.parametrize("rule", [Blocks.by_size, Blocks.by_start])
def test_many_blocks_are_placed_as_few_are(
    monkeypatch: pytest.MonkeyPatch, times: int, longest: int, rule: Callable[[Blocks], Words]
) -> None:
    problem = random_problem(11, 900, times, longest)
    align = [1 << (i % 7) for i in range(900)]
    prepared = Blocks(problem.size, problem.start, problem.end, align)
    order = rule(prepared)
    for capacity in (packing.LIMIT, 2000):
        expected = prepared.first_fit(order, capacity=capacity)
        with monkeypatch.context() as patched:
            patched.setattr(wide, "WIDE", 0)
            got = prepared.first_fit(order, capacity=capacity)
        np.testing.assert_array_equal(got[0], expected[0])
        assert got[1] == expected[1]


@given(problems())
def test_listing_by_time_changes_nothing(problem: Problem) -> None:
    prepared = blocks(problem)
    order = prepared.by_size()
    offsets, _ = prepared._first_fit_wide(order, packing.LIMIT)
    assert offsets.tolist() == first_fit(problem, order.tolist())
