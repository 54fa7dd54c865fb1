"""ort-lite's conformance kit on all node tests of ONNX: one test for each check."""

import pytest
from ort_lite_openvino import OpenVINOExecutionProvider
from ort_lite_openvino.operators import OPERATORS

from ort_lite.testing import CHECKS, Kit

UNCLAIMED = {"DynamicQuantizeLinear", "LayerNormalization", "Not", "ReduceMax", "ReduceMin", "TopK"}
"""Of operators that it has: their node tests are of opset 1, of floats, or read outputs that it does not compute."""


@pytest.fixture(scope="module")
def kit() -> Kit:
    return Kit(OpenVINOExecutionProvider)


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    assert CHECKS[check](kit) == []


def test_the_kit_looked_at_its_operators(kit: Kit) -> None:
    claimed = {operator for operators in kit.taken.values() for operator in operators}
    assert {name for domain, name in OPERATORS if not domain} - claimed == UNCLAIMED
