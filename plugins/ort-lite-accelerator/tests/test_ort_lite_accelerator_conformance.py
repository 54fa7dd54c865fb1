"""ort-lite's conformance kit, pointed at the accelerator: one test for each check."""

from typing import Any

import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider
from ort_lite_accelerator.operators import SINCE, SIZES

from ort_lite.testing import CHECKS, Kit

pytestmark = pytest.mark.slow


class PlannedExecutionProvider(AcceleratorExecutionProvider):
    """The card with a memory that holds few tensors, and one that its kernels cannot use."""

    def __init__(self, memories: str = "fast=1M, slow=*:remote", **options: Any) -> None:
        super().__init__(memories=memories, **options)


@pytest.fixture(scope="module", params=[AcceleratorExecutionProvider, PlannedExecutionProvider])
def kit(request: pytest.FixtureRequest) -> Kit:
    return Kit(request.param, SINCE)


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    assert CHECKS[check](kit) == []


def test_the_kit_looked_at_every_operator(kit: Kit) -> None:
    expected = set(SINCE) - set(SIZES if kit.make is PlannedExecutionProvider else ())
    assert {operator for case in kit.some for operator in kit.operators_by_case[case]} == expected
