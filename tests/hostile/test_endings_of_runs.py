import pytest

from tests.case_server import Outcome
from tests.hostile import endings_of_runs


@pytest.mark.parametrize("name", endings_of_runs.CASES)
def test_a_run_ends_soon_after_its_time(outcome: Outcome, name: str) -> None:
    assert outcome(endings_of_runs.__name__, name, seconds=60, megabytes=4096) == ""
