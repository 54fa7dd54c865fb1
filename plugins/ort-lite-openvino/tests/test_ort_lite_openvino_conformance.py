"""ort-lite's conformance kit on all node tests of ONNX: one test for each check."""

from functools import reduce

import numpy as np
import pytest
from ort_lite_openvino import OpenVINOExecutionProvider
from ort_lite_openvino.operators import OPERATORS

from ort_lite.dtypes import Array
from ort_lite.testing import CHECKS, Deviation, Kit

UNCLAIMED = {"DynamicQuantizeLinear", "LayerNormalization", "Not", "ReduceMax", "ReduceMin", "TopK"}
"""Of operators that it has: their node tests are of opset 1, of floats, or read outputs that it does not compute."""


def _first_is_nan(first: Array, *_: Array) -> Array:
    return np.isnan(first)


def _any_is_nan(*operands: Array) -> Array:
    return reduce(np.logical_or, map(np.isnan, operands))


NUMBERS = {
    "Celu": Deviation("NaN becomes 0", _first_is_nan),
    "Clip": Deviation("NaN becomes the lower bound", _first_is_nan),
    "Exp": Deviation("NaN becomes infinity", _first_is_nan),
    "Gelu": Deviation("half of 2 x overflows, and infinity becomes NaN", lambda x: x > np.finfo(np.float32).max / 2),
    "Greater": Deviation("everything is greater than NaN, and NaN than everything", _any_is_nan),
    "GreaterOrEqual": Deviation("everything is greater than NaN, and NaN than everything", _any_is_nan),
    "HardSigmoid": Deviation("NaN becomes 1", _first_is_nan),
    "Max": Deviation("NaN and a number give the number", _any_is_nan),
    "Min": Deviation("NaN and a number give the number", _any_is_nan),
    "Relu": Deviation("NaN becomes 0", _first_is_nan),
    "Shrink": Deviation("NaN and infinities become NaN: a product with 0", lambda x: ~np.isfinite(x)),
}
"""What OpenVINO's CPU device makes of NaN, infinities and the largest numbers, as the README says."""


@pytest.fixture(scope="module")
def kit() -> Kit:
    return Kit(OpenVINOExecutionProvider, known={"numbers": NUMBERS})


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    assert CHECKS[check](kit) == []


def test_the_kit_looked_at_its_operators(kit: Kit) -> None:
    claimed = {operator for operators in kit.operators_by_case.values() for operator in operators}
    assert {name for domain, name in OPERATORS if not domain} - claimed == UNCLAIMED
