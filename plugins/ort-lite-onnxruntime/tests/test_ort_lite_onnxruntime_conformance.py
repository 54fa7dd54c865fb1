"""ort-lite's conformance kit on all node tests of ONNX: one test for each check."""

import pytest
from ort_lite_onnxruntime import OnnxRuntimeExecutionProvider

from ort_lite.testing import CHECKS, Kit


@pytest.fixture(scope="module")
def kit() -> Kit:
    return Kit(OnnxRuntimeExecutionProvider)


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    assert CHECKS[check](kit) == []


def test_the_kit_looked_at_most_operators(kit: Kit) -> None:
    assert len({operator for operators in kit.operators_by_case.values() for operator in operators}) >= 150
