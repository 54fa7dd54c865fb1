"""Each case of `patterns`, in a child with limits on time and memory."""

import pytest

from tests.case_server import Outcome
from tests.hostile import patterns


@pytest.mark.parametrize("name", patterns.CASES)
def test_patterns(outcome: Outcome, name: str) -> None:
    assert outcome(patterns.__name__, name) == ""
