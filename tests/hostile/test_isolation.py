"""A model opens no connection, starts no program and changes no feed, and its names never become code."""

import pytest

from tests.case_server import Outcome
from tests.hostile.isolation import CASES


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_model_does_nothing_else(outcome: Outcome, name: str) -> None:
    assert outcome("tests.hostile.isolation", name) == ""
