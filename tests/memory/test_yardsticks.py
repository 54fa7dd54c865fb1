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


def test_by_size_on_hard_problems() -> None:
    assert mean(certificate("by_size", name).ratio for name in HARD) <= 1.342


def test_greedy_on_hard_problems() -> None:
    assert mean(certificate("greedy", name).ratio for name in HARD) == pytest.approx(1.572, abs=0.001)


@pytest.mark.parametrize("name", ["resnet50", "G_1"])
def test_by_size_is_within_a_percent_on_training_graphs(name: str) -> None:
    assert 1 <= certificate("by_size", name).ratio <= 1.01
