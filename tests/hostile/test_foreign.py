"""Memory of other libraries is taken where all that is said of it can be true."""

import pytest

from tests.case_server import Outcome
from tests.hostile.foreign import CASES


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_is_refused(outcome: Outcome, name: str) -> None:
    assert outcome("tests.hostile.foreign", name, seconds=20) == ""
