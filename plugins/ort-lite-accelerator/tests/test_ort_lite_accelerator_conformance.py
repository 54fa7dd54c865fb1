"""ort-lite's conformance kit, pointed at the accelerator: one test for each check."""

import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider
from ort_lite_accelerator.operators import SINCE

from ort_lite.testing import CHECKS, Kit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kit() -> Kit:
    return Kit(AcceleratorExecutionProvider, SINCE)


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    assert CHECKS[check](kit) == []


def test_the_kit_looked_at_every_operator(kit: Kit) -> None:
    assert {operator for case in kit.some for operator in kit.operators_by_case[case]} == set(SINCE)
