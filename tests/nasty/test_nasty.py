"""Nasty providers, devices, transforms and plugins: each case ends rightly, or in an error that names who and where."""

import os
import re
from typing import Any

import numpy as np
import pytest

from ort_lite.errors import ProviderError
from tests.case_server import Outcome
from tests.nasty.cases import raises
from tests.nasty.groups import ALONE, CASES
from tests.nasty.judging import Case, ended, fault

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_ends_as_it_must(outcome: Outcome, name: str) -> None:
    wrong = outcome("tests.nasty.groups", name, tasks=1 if name.startswith(ALONE) else 16)
    if wrong:
        pytest.fail(wrong, pytrace=False)


# The judge: each way to end is told from the others


@pytest.mark.parametrize(
    ("act", "names", "said"),
    [
        (lambda: None, (), ""),
        (lambda: [([np.ones(2)], [np.ones(2)])], (), ""),
        (lambda: [([np.ones(2)], [np.zeros(2)])], (), "wrong: result 0"),
        (lambda: [([np.ones(2)], [np.ones(2, np.float32)])], (), "wrong: result 0"),
        (lambda: [([None], [np.ones(2)])], (), "wrong: result 0"),
        (lambda: [([], [np.ones(2)])], (), "wrong: result 0"),
        (lambda: None, ("A",), "no error came"),
        (raises(ProviderError("A did B")), ("A", "B"), ""),
        (raises(ProviderError("A did B")), ("A", "C"), r"lacks \['C'\]"),
        (raises(ProviderError("A did B")), (), "error: "),
        (raises(OSError("A")), ("A",), "foreign: OSError"),
    ],
)
def test_how_a_case_ended_is_judged(act: Any, names: tuple[str, ...], said: str) -> None:
    case = Case(act, names)
    found = fault(case, ended(case))
    assert re.search(said, found) if said else found == ""


def test_a_warning_that_must_come_is_missed() -> None:
    case = Case(lambda: None, warned="without end")
    assert "no warning" in fault(case, ended(case))
