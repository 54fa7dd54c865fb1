"""All cases by "GROUP/NAME", as the server of cases runs them."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

from tests.nasty.cases import MODELS, wanted
from tests.nasty.judging import Case, ended, fault

_GROUPS = "answers blame compiling computing devices forks graphs layouts plugged rules saved threads verifying"
ALONE = ("blame/", "forks/", "plugged/", "rules/")
"""Groups whose cases leave something behind in their process."""


def _check(case: Case) -> None:
    """Raise AssertionError unless the case ends as it must."""
    wrong = fault(case, ended(case))
    assert not wrong, wrong


CASES: dict[str, Callable[[], None]] = {
    f"{group}/{name}": partial(_check, case)
    for group in _GROUPS.split()
    for name, case in import_module(f"tests.nasty.{group}").CASES.items()
}


def warm() -> None:
    """Run the models, whose results many cases are compared with."""
    for model in MODELS:
        wanted(model)
