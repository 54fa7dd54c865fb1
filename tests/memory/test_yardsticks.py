"""How close the planners come to the lower bound on problems from elsewhere: tests/data/planner/README.md."""

from functools import cache
from statistics import mean

import pytest

from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.plan import Certificate
from ort_lite.memory.planning.planner import PLANNERS
from ort_lite.memory.planning.requests import Platform
from tests.memory.problems import Problem

HARD = "ABCDEFGHIJK"


@cache
def certificate(kind: str, name: str) -> Certificate:
    problem = Problem.read(name)
    return Memories(Platform(min_alignment=1)).plan(PLANNERS[kind], problem.requests(), problem.lifetimes()).certificate()


@pytest.mark.parametrize("name", [*HARD, "resnet50", "G_1"])
def test_the_bound_of_a_plan_is_that_of_the_problem(name: str) -> None:
    assert certificate("by_size", name).lower_bound == certificate("greedy", name).lower_bound
    assert certificate("greedy", name).lower_bound == Problem.read(name).most_alive()
    assert certificate("auto", name).ratio < 1.34


@pytest.mark.parametrize(("kind", "least", "most"), [("greedy", 1.571, 1.573), ("by_size", 1, 1.342), ("auto", 1, 1.23)])
def test_hard_problems_on_average(kind: str, least: float, most: float) -> None:
    assert least <= mean(certificate(kind, name).ratio for name in HARD) <= most


@pytest.mark.parametrize("name", ["resnet50", "G_1"])
@pytest.mark.parametrize(("kind", "most"), [("by_size", 1.01), ("auto", 1.003)])
def test_training_graphs(kind: str, most: float, name: str) -> None:
    assert 1 <= certificate(kind, name).ratio <= most
