"""What is no model is refused in a time that does not depend on what it is instead."""

import pytest

from tests.case_server import Outcome
from tests.hostile.junk_models import CASES


@pytest.mark.parametrize("name", CASES)
def test_the_case_takes_little_time(outcome: Outcome, name: str) -> None:
    assert outcome("tests.hostile.junk_models", name, seconds=20, megabytes=2048) == ""
