"""Mutants 1000 to 1499: no signal, no hang, no access outside, refusals with a name, results as onnx.reference's."""

import pytest

from tests.fuzz.checking import check, linux


@linux
@pytest.mark.slow
def test_mutants_run_or_are_refused() -> None:
    check("tests.fuzz", 1000, 500)
