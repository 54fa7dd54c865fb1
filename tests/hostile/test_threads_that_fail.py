import pytest

from tests.hostile import threads_that_fail
from tests.hostile.children import outcome


@pytest.mark.parametrize("name", threads_that_fail.CASES)
def test_a_thread_that_cannot_start_disables_nothing(name: str) -> None:
    assert outcome(threads_that_fail.__name__, name) == ""
