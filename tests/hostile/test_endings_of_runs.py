import pytest

from tests.hostile import endings_of_runs
from tests.hostile.children import outcome


@pytest.mark.parametrize("name", endings_of_runs.CASES)
def test_a_run_ends_soon_after_its_time(name: str) -> None:
    assert outcome(endings_of_runs.__name__, name, seconds=60, megabytes=4096) == ""
