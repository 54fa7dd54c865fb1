"""What is no model is refused in a time that does not depend on what it is instead."""

import pytest

from tests.hostile.children import outcome
from tests.hostile.junk_models import CASES


@pytest.mark.parametrize("name", CASES)
def test_the_case_takes_little_time(name: str) -> None:
    assert outcome("tests.hostile.junk_models", name, seconds=20, megabytes=2048) == ""
