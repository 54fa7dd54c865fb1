"""Each case of `python_steps`, in a child with limits on time and memory."""

import pytest

from tests.hostile import python_steps
from tests.hostile.children import outcome


@pytest.mark.parametrize("name", python_steps.CASES)
def test_python_steps(name: str) -> None:
    assert outcome(python_steps.__name__, name) == ""
