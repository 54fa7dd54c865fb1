"""No model makes symbolic sizes take without end."""

import pytest

from tests.hostile.blow_ups import CASES
from tests.hostile.children import outcome


@pytest.mark.parametrize("name", CASES)
def test_sizes_of_a_model_stay_small(name: str) -> None:
    assert outcome("tests.hostile.blow_ups", name, seconds=30) == ""
