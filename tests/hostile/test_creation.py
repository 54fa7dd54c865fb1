"""The creation of a session ends: within its timeout, when it is cancelled, and with constants that do not grow beyond a budget."""

import pytest

from tests.case_server import Outcome
from tests.hostile.creation import CASES


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_creation_ends(outcome: Outcome, name: str) -> None:
    assert outcome("tests.hostile.creation", name, seconds=20, megabytes=1500) == ""
