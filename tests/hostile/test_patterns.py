"""Each case of `patterns`, in a child with limits on time and memory."""

import pytest

from tests.hostile import patterns
from tests.hostile.children import outcome


@pytest.mark.parametrize("name", patterns.CASES)
def test_patterns(name: str) -> None:
    assert outcome(patterns.__name__, name) == ""
