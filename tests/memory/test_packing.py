"""The kernels, called through `Blocks`: both ways of meeting neighbours, against the plainest first fit."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.memory.planning import packing, wide
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.neighbours import Words
from tests.memory.problems import Problem, first_fit, peak_of, problems, random_problem

RULES = [Blocks.by_start, Blocks.by_size]


def blocks(problem: Problem, align: list[int] | None = None) -> Blocks:
    return Blocks(problem.size, problem.start, problem.end, align)


def check_first_fit(problem: Problem, order: Words, align: list[int] | None = None, capacity: int = packing.LIMIT) -> None:
    expected = first_fit(problem, order.tolist(), align, capacity)
    prepared = blocks(problem, align)
    misfits = expected.count(-1)
    for near in (None, prepared.near()):
        offsets, peak = prepared.first_fit(order, near, capacity)
        assert offsets.tolist() == expected
        assert peak == (-misfits if misfits else peak_of(problem, expected))


@given(problems() | problems(largest=3), st.randoms(use_true_random=False), st.booleans())
def test_first_fit_matches_the_oracle_in_any_order(problem: Problem, random: "np.random.Generator", aligned: bool) -> None:
    order = list(range(len(problem.size)))
    random.shuffle(order)
    align = [2 ** (i % 4) for i in order] if aligned else None
    check_first_fit(problem, np.array(order, np.int64), align)


@given(problems(), st.integers(0, 120))
def test_what_exceeds_the_capacity_is_left_out_and_counted(problem: Problem, capacity: int) -> None:
    check_first_fit(problem, blocks(problem).by_size(), capacity=capacity)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("n", "times", "longest", "near"), [(400, 3, 9, "none"), (300, 300, 5, "all"), (300, 200, 90, "some")])
def test_first_fit_matches_the_oracle_with_few_and_many_neighbours(
    n: int, times: int, longest: int, near: str, rule: Callable[[Blocks], Words]
) -> None:
    problem = random_problem(7, n, times, longest)
    prepared = blocks(problem)
    table = prepared.near()
    assert table is not None
    listed = int((table[: 2 * n : 2] > 0).sum())
    assert {"none": listed == 0, "all": listed == n, "some": 0 < listed < n}[near]
    check_first_fit(problem, rule(prepared), [1 << (i % 7) for i in range(n)])


def test_a_negative_size_does_not_fit() -> None:
    offsets, misfits = Blocks([-1, 8], [0, 0], [1, 1]).first_fit(np.arange(2))
    assert (offsets.tolist(), misfits) == ([-1, 0], -1)


def test_sizes_up_to_the_limit_do_not_overflow() -> None:
    problem = Blocks([packing.LIMIT, packing.LIMIT, 1], [0, 1, 5], [3, 4, 6])
    offsets, misfits = problem.first_fit(np.arange(3))
    assert (offsets.tolist(), misfits) == ([0, -1, 0], -1)


@given(st.lists(st.tuples(st.integers(0, packing.LIMIT), st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=40))
def test_orders_are_stable_sorts(rows: list[tuple[int, int, int]]) -> None:
    size, start, length = zip(*rows, strict=True)
    prepared = Blocks(size, start, np.add(start, length))
    numbers = range(len(rows))
    assert prepared.by_start().tolist() == sorted(numbers, key=lambda i: start[i])
    assert prepared.by_size().tolist() == sorted(numbers, key=lambda i: -size[i])


@given(problems(most=30))
def test_the_lower_bound_is_what_lives_at_the_worst_moment(problem: Problem) -> None:
    assert blocks(problem).lower_bound() == problem.most_alive()


@pytest.mark.parametrize(("n", "times", "longest"), [(80, 4, 3), (200, 60, 30), (40, 100, 100), (1, 1, 1), (300, 2, 1)])
def test_the_table_lists_all_neighbours_by_their_starts_or_none(n: int, times: int, longest: int) -> None:
    problem = random_problem(3, n, times, longest)
    table = blocks(problem).near()
    assert table is not None
    for t in range(n):
        alive = [u for u in range(n) if problem.start[u] < problem.end[t] and problem.start[t] < problem.end[u] and u != t]
        listed = table[table[2 * t] : table[2 * t + 1]].tolist()
        assert listed == (sorted(alive, key=lambda u: problem.start[u]) if len(alive) <= packing.NEAR else [])
        assert (table[2 * t] > 0) == (len(alive) <= packing.NEAR)


def test_only_the_order_of_times_counts() -> None:
    small, large = Blocks([4, 4, 4], [0, 1, 2], [2, 3, 4]), Blocks([4, 4, 4], [-(10**15), 0, 70], [60, 71, 10**15])
    np.testing.assert_array_equal(small.first_fit(np.arange(3))[0], large.first_fit(np.arange(3))[0])


@pytest.mark.parametrize(
    ("size", "start", "end", "message"),
    [([1, 2], [0], [1], "expected equal lengths"), ([1, 2], [0, 3], [1, 3], "block 1 has an empty lifetime")],
)
def test_unsound_blocks_are_refused(size: list[int], start: list[int], end: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Blocks(size, start, end)


def test_very_many_blocks_need_no_table_of_neighbours() -> None:
    alive = np.ones(wide.WIDE, np.int64)
    assert Blocks(alive, 0 * alive, alive).near() is None
    assert Blocks(alive[1:], 0 * alive[1:], alive[1:]).near() is not None


@pytest.mark.parametrize("count", [0, 1, 40])
def test_blocks_need_not_compute_again_what_equal_ones_computed(count: int) -> None:
    rng = np.random.default_rng(count)
    start = rng.integers(0, 30, count)
    end, align = start + rng.integers(1, 9, count), np.full(count, 64)
    blocks = Blocks(np.zeros(count, np.int64), start, end, align)
    again = Blocks.restore(start, end, align.copy(), blocks.dump())
    sizes = rng.integers(1, 1000, count) * 64
    order = blocks.of(sizes).by_size()
    (offsets, misfits), (expected, none) = again.of(sizes).first_fit(order), blocks.of(sizes).first_fit(order)
    assert (offsets.tolist(), misfits) == (expected.tolist(), none)
    assert (again.n, again.times, again.dump()) == (blocks.n, blocks.times, blocks.dump())
    assert not any(kept is None or kept.flags.writeable for kept in (again.start, again.end, again.align))
    if count:
        with pytest.raises(ValueError, match="numbers of"):
            Blocks.restore(start, end, align.copy(), blocks.dump()[: 8 * count])
