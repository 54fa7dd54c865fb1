"""Mutants of nodes: no signal, no hang, no access outside, refusals with a name, results as onnx.reference's."""

import pytest

from tests.fuzz.checking import check, linux


@linux
@pytest.mark.slow
@pytest.mark.timeout(1830)
@pytest.mark.parametrize("first", [0, 500, 1000, 1500])
def test_mutants_run_or_are_refused(first: int) -> None:
    check("tests.fuzz", first, 500)
