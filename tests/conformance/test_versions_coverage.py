"""Nothing is left out: every type of every operator is run by a case, and every case is run by a version."""

import pytest

from tests.conformance.versions.cases import Case
from tests.conformance.versions.checking import label, own_type, plan, produced_types
from tests.conformance.versions.registry import EXCEPTIONS, cases
from tests.conformance.versions.schemas import Key, follows, main_types, newest, schemas

WITHOUT_CASE: dict[tuple[str, str], tuple[set[str], str]] = {("", "Col2Im"): ({"string"}, "strings have no sum")}
"""Types of an operator's main type variable that no case runs, and why."""


def runs_in(key: Key) -> set[str]:
    """The types of the main type variable that the cases of a version run in."""
    schema, types = schemas()[key], set()
    for one, dtype in plan(key):
        if any(follows(schema, k) for k in range(len(one.inputs))):
            types.add(dtype or own_type(one, schema) or "")
        else:
            types |= produced_types(key, one)
    return types


@pytest.mark.parametrize("key", [key for key in newest() if key not in EXCEPTIONS], ids=label)
def test_every_type_of_an_operator_is_run_by_a_case(key: Key) -> None:
    versions = [other for other in schemas() if other[:2] == key[:2]]
    run = set().union(*map(runs_in, versions))
    without, _ = WITHOUT_CASE.get(key[:2], (set(), ""))
    assert set(main_types(schemas()[key])) - run == without


def test_every_case_is_run_by_a_version() -> None:
    run = {id(one) for key in schemas() for one, _ in plan(key)}
    idle: list[Case] = [one for some in cases().values() for one in some if id(one) not in run]
    assert not idle
