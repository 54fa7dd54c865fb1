"""Files that are no files, change or lead elsewhere: none of them hangs, fills the memory or is read."""

import pytest

from tests.hostile.children import outcome
from tests.hostile.opened_files import CASES


@pytest.mark.parametrize("name", CASES)
def test_the_case_is_refused_or_does_no_harm(name: str) -> None:
    assert outcome("tests.hostile.opened_files", name, seconds=20, megabytes=1024) == ""
