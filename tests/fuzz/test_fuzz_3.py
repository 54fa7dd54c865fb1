"""Mutants 1500 to 1999: no signal, no hang, no access outside, refusals with a name, results as onnx.reference's."""

import pytest

from tests.fuzz.checking import check, linux


@linux
@pytest.mark.slow
def test_mutants_run_or_are_refused() -> None:
    check("tests.fuzz", 1500, 500)
