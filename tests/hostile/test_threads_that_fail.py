import pytest

from tests.case_server import Outcome
from tests.hostile import threads_that_fail


@pytest.mark.parametrize("name", threads_that_fail.CASES)
def test_a_thread_that_cannot_start_disables_nothing(outcome: Outcome, name: str) -> None:
    assert outcome(threads_that_fail.__name__, name) == ""
