"""Each case of `python_steps`, in a child with limits on time and memory."""

import pytest

from tests.case_server import Outcome
from tests.hostile import python_steps


@pytest.mark.parametrize("name", python_steps.CASES)
def test_python_steps(outcome: Outcome, name: str) -> None:
    assert outcome(python_steps.__name__, name) == ""
