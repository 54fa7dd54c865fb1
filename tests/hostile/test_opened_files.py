"""Files that are no files, change, lead elsewhere or ask for too much: none of them hangs, fills the memory or is read."""

import pytest

from tests.case_server import Outcome
from tests.hostile import external_files, opened_files, parameter_files

CASES = [(module.__name__, name) for module in (external_files, opened_files, parameter_files) for name in module.CASES]


@pytest.mark.parametrize(("module", "name"), CASES, ids=[name for _, name in CASES])
def test_the_case_is_refused_or_does_no_harm(outcome: Outcome, module: str, name: str) -> None:
    assert outcome(module, name, seconds=20, megabytes=1024) == ""
