import re

import pytest

from tests.hostile.children import outcome


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("passes", "^$"),
        ("fails", "ValueError: not as it should be"),
        ("hangs", "no answer within 1"),
        ("crashes", "status -11"),
        ("takes memory", "MemoryError"),
        ("passes last", "^$"),
    ],
)
def test_each_case_has_an_outcome(name: str, words: str) -> None:
    assert re.search(words, outcome("tests.hostile.endings", name, seconds=1, megabytes=512))
