"""Contradictions are refused, and nodes that are only strange run."""

import pytest

from tests.case_server import Outcome
from tests.hostile.contradictions import CASES


@pytest.mark.parametrize("name", CASES)
def test_inputs_that_contradict_each_other_are_refused(outcome: Outcome, name: str) -> None:
    assert outcome("tests.hostile.contradictions", name, seconds=60) == ""
