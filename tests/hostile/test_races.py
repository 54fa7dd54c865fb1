"""No thread that writes to a feed makes a run touch memory that is not its own."""

import pytest

from tests.case_server import Outcome
from tests.hostile.races import CASES


@pytest.mark.parametrize("name", CASES)
def test_a_feed_that_changes_during_a_run_ends_no_process(outcome: Outcome, name: str) -> None:
    assert outcome("tests.hostile.races", name, seconds=60) == ""
