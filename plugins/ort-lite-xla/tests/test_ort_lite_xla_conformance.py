"""ort-lite's conformance kit on all node tests of ONNX: one test for each check."""

from collections.abc import Iterator

import pytest
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.registry import TABLE

from ort_lite.native import store
from ort_lite.testing import CHECKS, Kit

UNCLAIMED = {"GlobalLpPool", "Range", "SimplifiedLayerNormalization"}
"""They have no node tests (test_beside_cpu.py has some), or one whose first input would have to be a constant."""

KEPT = {"argmax_default_axis_example", "argmin_default_axis_example"}
"""Compiled for each shape, because the axis is open: JAX keeps the traces of all of them, in caches of its own, as the README says.
What ran before decides whether they are enough to be seen.
"""


@pytest.fixture(autouse=True, scope="module")
def saved_executables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The checks share what they compile."""
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("programs"))
        patch.setattr(store, "directory", lambda: folder)
        yield


@pytest.fixture(scope="module")
def kit() -> Kit:
    return Kit(XLAExecutionProvider)


@pytest.mark.parametrize("check", CHECKS)
def test_the_kit_finds_nothing(check: str, kit: Kit) -> None:
    found = CHECKS[check](kit)
    if check == "caches":
        assert {finding.case for finding in found} <= KEPT
    else:
        assert found == []


def test_the_kit_looked_at_its_operators(kit: Kit) -> None:
    claimed = {operator for operators in kit.operators_by_case.values() for operator in operators}
    assert {name for domain, name in TABLE if not domain} - claimed == UNCLAIMED
