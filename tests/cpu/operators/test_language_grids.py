"""All pairs of values of the grids of `language_grids`, in cases that are small."""

import itertools

import pytest

from tests.cpu.grid_cases import Case, Grid, covering, every
from tests.cpu.language_grids import GRIDS, cases, describe, differences

MOST = 8 << 20
"""Bytes of the inputs of a case, at most."""


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GRIDS)
def test_cases_of_onnxruntimes_tests(op_type: str) -> None:
    for case in cases(op_type, 2):
        if sum(x.nbytes for x in case.inputs if x is not None) <= MOST:
            assert not differences(op_type, case), describe(case)


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_all_combinations_that_go_together_appear(strength: int) -> None:
    grid = Grid(
        {"a": range(4), "b": range(3), "c": range(3), "d": range(2)},
        lambda *parameters: Case([], {}, [], 0),
        lambda a, b, c, d: a != b,
    )
    found = list(covering(grid, strength))
    for names in itertools.combinations(range(4), strength):
        wanted = {tuple(one[k] for k in names) for one in every(grid)}
        assert {tuple(one[k] for k in names) for one in found} == wanted
    assert len(found) < len(list(every(grid)))
