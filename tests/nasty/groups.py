"""All cases by "GROUP/NAME", as the server of cases runs them."""

from collections.abc import Callable
from functools import partial

from tests.nasty import (
    answers,
    blame,
    compiling,
    computing,
    devices,
    forks,
    graphs,
    layouts,
    plugged,
    rules,
    saved,
    threads,
    verifying,
)
from tests.nasty.cases import MODELS, Case, ended, fault, wanted

_GROUPS = (answers, blame, compiling, computing, devices, forks, graphs, layouts, plugged, rules, saved, threads, verifying)
ALONE = ("blame/", "forks/", "plugged/", "rules/")
"""Groups whose cases leave something behind in their process."""


def _check(case: Case) -> None:
    """Raise AssertionError unless the case ends as it must."""
    wrong = fault(case, ended(case))
    assert not wrong, wrong


CASES: dict[str, Callable[[], None]] = {
    f"{group.__name__.rpartition('.')[2]}/{name}": partial(_check, case)
    for group in _GROUPS
    for name, case in group.CASES.items()
}


def warm() -> None:
    """Run the models, whose results many cases are compared with."""
    for model in MODELS:
        wanted(model)
