"""ort-lite's conformance kit, pointed at the provider: one test for each check."""

import pytest
from ort_lite_template import TemplateExecutionProvider

from ort_lite.testing import CHECKS, Kit


@pytest.fixture(scope="module")
def kit() -> Kit:
    """Node tests of ONNX with an operator that the provider has; without `operators` it is asked about all of them."""
    return Kit(TemplateExecutionProvider, TemplateExecutionProvider.kernels.op_types())


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    findings = CHECKS[check](kit)
    assert not findings, "\n".join(map(str, findings))


def test_the_kit_looked_at_it(kit: Kit) -> None:
    assert kit.positive_cases
