"""A sample of the grids of `language_grids`: 40 cases of each operator."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.cpu.language_grids import GRIDS, Case, cases, differences

SAMPLE = 40
MOST = 8 << 20
"""Bytes of the inputs of a case of the sample, at most."""


def sample(op_type: str) -> Iterator[Case]:
    """Yield cases at random places of the grid, always the same."""
    every = [make for _, make in cases(op_type)]
    left = SAMPLE
    for number in np.random.default_rng(1).permutation(len(every)):
        case = every[number]()
        if case is not None and sum(x.nbytes for x in case.inputs if x is not None) <= MOST:
            yield case
            left -= 1
        if not left:
            return


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GRIDS)
def test_cases_of_onnxruntimes_tests(op_type: str) -> None:
    for case in sample(op_type):
        assert not differences(op_type, case), f"{[None if x is None else x.shape for x in case.inputs]}, {case.attributes}"
