"""Contracting and joining groups of a DAG."""

import random
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise

import pytest

from ort_lite.partition.convex import Quotient, join


def dag(edges: str) -> list[list[int]]:
    """Readers of each node, from edges written as `0-1 1-2`."""
    pairs = [tuple(map(int, edge.split("-"))) for edge in edges.split()]
    after: list[list[int]] = [[] for _ in range(max(max(pair) for pair in pairs) + 1)]
    for first, second in pairs:
        after[first].append(second)
    return after


def is_acyclic(after: list[list[int]], group: list[int]) -> bool:
    """By the standard library: the groups have an order."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for node, readers in enumerate(after):
        sorter.add(group[node])
        for reader in readers:
            if group[reader] != group[node]:
                sorter.add(group[reader], group[node])
    try:
        sorter.prepare()
    except CycleError:
        return False
    return True


def random_dag(seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    size = rng.randint(2, 40)
    return [[j for j in range(i + 1, size) if rng.random() < 2.5 / (j - i + 3)] for i in range(size)]


def joined(edges: str, units: set[int]) -> list[list[int]]:
    return [sorted(parts) for parts, _ in join(Quotient(dag(edges)), units)]


@pytest.mark.parametrize(
    ("edges", "units", "expected"),
    [
        ("0-1 1-2", {0, 1, 2}, [[0, 1, 2]]),
        ("0-1 1-2", {0, 2}, [[0], [2]]),  # O-X-O
        ("0-1 1-2 0-2", {0, 2}, [[0], [2]]),  # also with a direct edge beside
        ("0-2 1-2", {0, 1}, [[0, 1]]),  # unconnected ones too
        ("0-1 2-3", {0, 3}, [[0, 3]]),
        ("0-1 1-2 2-3 3-4", {0, 2, 4}, [[0], [2], [4]]),
        ("0-1 1-2 3-2", {0, 2, 3}, [[0, 3], [2]]),
        ("0-1 1-3 0-2 2-3", {0, 1, 3}, [[0, 1], [3]]),
    ],
)
def test_units_are_joined_as_far_as_no_cycle_results(edges: str, units: set[int], expected: list[list[int]]) -> None:
    assert joined(edges, units) == expected


def test_each_result_but_the_first_names_a_node_between() -> None:
    assert [through for _, through in join(Quotient(dag("0-1 1-2 2-3 3-4")), {0, 2, 4})] == [None, 1, 3]


@pytest.mark.parametrize("seed", range(80))
def test_joining_is_acyclic_and_maximal_on_random_graphs(seed: int) -> None:
    after = random_dag(seed)
    rng = random.Random(seed)
    units = {k for k in range(len(after)) if rng.random() < 0.6}
    quotient = Quotient(after)
    groups = [quotient.contract(parts) for parts, _ in join(quotient, units)]
    assert is_acyclic(after, quotient.group)
    assert len(quotient.order()) == len(quotient.members)
    for first, second in combinations(groups, 2):
        merged = [first if g == second else g for g in quotient.group]
        assert not is_acyclic(after, merged), f"groups {first} and {second} could be one"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(80))
def test_a_witness_makes_the_cycle_that_it_stands_for(seed: int) -> None:
    after = random_dag(seed)
    rng = random.Random(seed + 1000)
    units = {k for k in range(len(after)) if rng.random() < 0.5}
    results = join(Quotient(after), units)
    for (before, _), (parts, through) in pairwise(results):
        assert through is not None
        assert through not in units
        assert any(reaches(after, node, through) for node in before)
        assert any(reaches(after, through, node) for node in parts)


def reaches(after: list[list[int]], start: int, goal: int) -> bool:
    return start == goal or any(reaches(after, reader, goal) for reader in after[start])


@pytest.mark.parametrize(
    ("edges", "units", "groups", "lost"),
    [
        ("0-1 1-2 2-3", [[0, 2], [3]], [3], [(0, 1)]),  # not convex
        ("0-2 1-3", [[0, 3], [1, 2]], [0], [(1, 3)]),  # each reads from the other: the first stays
        ("0-1 1-2 3-4 4-5 5-6", [[0, 2], [3, 4], [5, 6]], [3, 5], [(0, 1)]),  # units far from the cycle stay
    ],
)
def test_units_are_admitted_one_by_one(
    edges: str, units: list[list[int]], groups: list[int], lost: list[tuple[int, int]]
) -> None:
    assert Quotient(dag(edges)).admit(units) == (groups, lost)


@pytest.mark.parametrize("seed", range(80))
def test_what_is_admitted_is_acyclic_and_what_is_not_would_be_cyclic(seed: int) -> None:
    after = random_dag(seed)
    rng = random.Random(seed)
    nodes = list(range(len(after)))
    rng.shuffle(nodes)
    units = [sorted(nodes[k : k + 2]) for k in range(0, len(nodes) - 1, 2)]
    quotient = Quotient(after)
    _, lost = quotient.admit(units)
    assert is_acyclic(after, quotient.group)
    for k, through in lost:
        first, second = units[k]
        assert not is_acyclic(after, [first if node == second else g for node, g in enumerate(quotient.group)])
        assert through not in units[k]


def test_a_dissolved_group_is_single_nodes_again() -> None:
    quotient = Quotient(dag("0-1 1-2"))
    quotient.dissolve(quotient.contract([0, 1]))
    assert quotient.members == {0: [0], 1: [1], 2: [2]}
    assert quotient.group == [0, 1, 2]
