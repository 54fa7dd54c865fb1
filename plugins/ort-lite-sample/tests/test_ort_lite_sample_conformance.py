"""ort-lite's conformance kit, pointed at the sample: one test for each check."""

import pytest
from ort_lite_sample import SampleExecutionProvider
from ort_lite_sample.operators import OPERATORS

from ort_lite.testing import CHECKS, Kit

pytestmark = pytest.mark.slow
CHAINS = ["Abs", "Exp", "Neg"]


@pytest.fixture(scope="module")
def kit() -> Kit:
    """Of single nodes: with a minimum of 1 it takes each node test of its operators."""
    return Kit(lambda **options: SampleExecutionProvider(**{"minimum": 1, **options}), OPERATORS)


@pytest.fixture(scope="module")
def chains() -> Kit:
    """As it is installed: two nodes or more."""
    return Kit(SampleExecutionProvider, CHAINS)


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    assert CHECKS[check](kit) == []


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing_in_chains(check: str, chains: Kit) -> None:
    assert CHECKS[check](chains) == []


def test_the_kit_looked_at_every_operator(kit: Kit, chains: Kit) -> None:
    assert {operator for case in kit.some for operator in kit.operators_by_case[case]} == set(OPERATORS)
    assert [case.name for case in chains.positive_cases] == [f"three {name} in a row" for name in CHAINS]
