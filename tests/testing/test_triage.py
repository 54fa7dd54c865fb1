"""Findings are grouped by their cause."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_lite.provider import CompiledPartition, Partition
from ort_lite.testing import check_provider
from ort_lite.testing.kit import Finding
from ort_lite.testing.triage import triage
from tests.provider.numpy_provider import NumpyProvider, evaluate

OPERATORS = ("Add", "Mul", "Sub", "Tanh")


class Bfloat16Device(NumpyProvider):
    """Computes float32 with the precision of bfloat16."""

    name = "Bfloat16ExecutionProvider"

    def __init__(self) -> None:
        super().__init__(operators=OPERATORS)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [_rounding(partition) for partition in partitions]


def _rounding(partition: Partition) -> Any:
    def run(inputs: Sequence[Any]) -> list[Any]:
        return [_rounded(output) for output in evaluate(partition, [_rounded(value) for value in inputs])]

    return run


def _rounded(array: Any) -> Any:
    return array.astype(ml_dtypes.bfloat16).astype(np.float32) if array.dtype == np.float32 else array


class Exiting(NumpyProvider):
    """Leaves the process when it is asked."""

    name = "ExitingExecutionProvider"

    def get_capability(self, graph: Any) -> Any:
        raise SystemExit(3)


@pytest.mark.slow
def test_the_precision_of_a_device_is_one_cause() -> None:
    report = check_provider(Bfloat16Device, only=["claims", "attributes", "shapes", "constants"], operators=OPERATORS)
    assert sum(map(len, report.findings.values())) > 10
    assert len(report.causes) <= 10
    first = report.causes[0]
    assert first.text.startswith("Results of float32 have the precision of bfloat16: --rtol ")
    rtol, atol = map(float, re.findall(r"--[ra]tol (\S+)", first.text))
    explained = check_provider(Bfloat16Device, only=["claims", "constants"], operators=OPERATORS, rtol=rtol, atol=atol)
    assert explained.passed, explained


def test_a_check_that_raises_or_exits_is_a_finding() -> None:
    seen: list[tuple[str, int, int]] = []
    report = check_provider(
        Exiting, only=["contract", "claims"], progress=lambda name, done, total: seen.append((name, done, total))
    )
    assert [name for name, _, _ in seen] == ["contract", "claims"] and {total for _, _, total in seen} == {2}
    assert not report.passed
    assert any("SystemExit: 3" in finding.text for several in report.findings.values() for finding in several)


def finding(text: str, case: str = "Abs", size: int = 1, check: str = "numbers") -> Finding:
    return Finding(check, case, text, size=(size, 0, 0))


FINDINGS: Mapping[str, tuple[list[Finding], list[str]]] = {
    "one precision": (
        [
            finding("output 0 (float32) differs: at (1,): got 1.0, expected 1.1 (accepted with rtol and atol of 0.04)", size=2),
            finding("it claims Exp, and then: output 0 (float32) differs: at (1,): got 2, expected 3 (accepted with rtol and "
                    "atol of 0.002)", "Exp"),
        ],
        ["Results of float32 have the precision of bfloat16: --rtol 4.2e-02 --atol 4.2e-02 accepts all of them (2 findings)"],
    ),
    "one element type": (
        [finding(f"output 0 is int32[{k}], expected int64[{k}]", name) for k, name in enumerate(("ArgMax", "Shape", "Size"))],
        ["outputs have another element type: int32 instead of int64, in the check numbers (3 findings)"],
    ),
    "one message": (
        [finding(f"RuntimeError: no slot for 'x{k}' of shape [{k}, 2]", f"Op{k}") for k in range(5)],
        ["RuntimeError: no slot for 'x0' of shape [0, 2] (5 findings)"],
    ),
    "two operators": (
        [
            finding("output 0 (float32) differs: at (0,): got 9.0, expected 1.0 (accepted with rtol and atol of 4)", "Conv"),
            finding("output 0 (float32) differs: at (0,): got nan, expected 1.0", "Exp"),
        ],
        [
            "Conv computes other values than ONNX asks for",
            "Exp differs at NaN, infinities or elements that are no floating-point numbers",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_causes(name: str) -> None:
    findings, expected = FINDINGS[name]
    causes = triage({"numbers": findings})
    found = [cause.text if len(cause.findings) == 1 else str(cause).splitlines()[0] for cause in causes]
    assert found == expected
    assert all(str(cause) == str(cause.findings[0]) for cause in causes if len(cause.findings) == 1)
    sizes = [[found.size for found in cause.findings] for cause in causes]
    assert sizes == [sorted(found) for found in sizes]
