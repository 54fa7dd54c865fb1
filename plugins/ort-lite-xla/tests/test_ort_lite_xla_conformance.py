"""ort-lite's conformance kit on all node tests of ONNX: one test for each check."""

import pytest
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.registry import TABLE

from ort_lite.testing import CHECKS, Kit

UNCLAIMED = {"GlobalLpPool", "Range", "SimplifiedLayerNormalization"}
"""They have no node tests (test_beside_cpu.py has some), or one whose first input would have to be a constant."""


@pytest.fixture(scope="module")
def kit() -> Kit:
    return Kit(XLAExecutionProvider)


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    assert CHECKS[check](kit) == []


def test_the_kit_looked_at_its_operators(kit: Kit) -> None:
    claimed = {operator for operators in kit.taken.values() for operator in operators}
    assert {name for domain, name in TABLE if not domain} - claimed == UNCLAIMED
