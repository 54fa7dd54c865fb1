"""No model makes symbolic sizes take without end."""

import pytest

from tests.case_server import Outcome
from tests.hostile.blow_ups import CASES


@pytest.mark.parametrize("name", CASES)
def test_sizes_of_a_model_stay_small(outcome: Outcome, name: str) -> None:
    assert outcome("tests.hostile.blow_ups", name, seconds=30) == ""
