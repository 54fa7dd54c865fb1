"""The conformance kit: finds each defect of a deliberately bad provider, and nothing in a good one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.provider import Capability, GraphView, Rejection
from ort_lite.testing import CHECKS, Deviation, GeneratedModels, Kit, check_provider
from ort_lite.testing.checks import conduct
from ort_lite.testing.report import run
from tests.testing.bad_provider import (
    DEFECTS,
    DEVICE_DEFECTS,
    FUNCTIONS,
    OPERATORS,
    BadDeviceProvider,
    BadProvider,
    operators_of,
)

pytestmark = pytest.mark.slow
LITTLE_WRONG: dict[str, Any] = {"operators": ["Abs"], "defect": "is a little wrong"}


@pytest.fixture(scope="module")
def models() -> GeneratedModels:
    """Fewer models than by default, which all tests share: drawing them takes most of the time."""
    return GeneratedModels(most=120)


def test_a_good_provider_passes_every_check() -> None:
    report = check_provider(BadProvider, operators=OPERATORS)
    assert report.passed, str(report)
    assert report.score == 1 and report.claimed > 10
    assert set(report.findings) == set(CHECKS)


def test_a_good_provider_with_a_device_passes_every_check(models: GeneratedModels) -> None:
    kit = Kit(BadDeviceProvider, OPERATORS, models=models)
    assert [finding for check in CHECKS.values() for finding in run(check, kit)] == []


@pytest.mark.parametrize("defect", [*DEFECTS, *DEVICE_DEFECTS])
def test_a_planted_defect_is_found(defect: str, models: GeneratedModels, monkeypatch: pytest.MonkeyPatch) -> None:
    if "fork" in defect and not hasattr(os, "fork"):
        pytest.skip("os.fork exists on POSIX systems only")
    monkeypatch.setattr(import_module("ort_lite.testing.checks.forks"), "PATIENCE", 1.0)
    check = {**DEFECTS, **DEVICE_DEFECTS}[defect]
    provider = BadProvider if defect in DEFECTS else BadDeviceProvider
    kit = Kit(partial(provider, defect=defect), operators_of(defect), models=models)
    assert run(CHECKS[check], kit), f"{check} did not find that the provider {defect}"


def test_threads_that_wait_for_each_other_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conduct, "PATIENCE", 0.5)
    report = check_provider(BadProvider, only=["threads"], operators=["Abs"], defect="waits for itself")
    assert "threads did not come back within 0.5 s" in str(report)


def test_every_check_finds_something() -> None:
    """The bugs for `donations` and `replay` are planted in the accelerator, which takes both."""
    assert {*DEFECTS.values(), *DEVICE_DEFECTS.values(), "donations", "replay"} == set(CHECKS)


def test_a_provider_that_takes_none_of_the_node_tests_does_not_pass() -> None:
    report = check_provider(BadProvider, operators=["NonZero"])
    assert str(*report.findings["claims"]) == "claims: it takes no node of the node tests: there is nothing to check"


def test_operators_that_are_taken_in_groups_alone_are_tried_in_chains(models: GeneratedModels) -> None:
    kit = Kit(InGroups, ["Abs", "Neg"], models=models)
    assert [case.name for case in kit.positive_cases] == ["three Abs in a row", "three Neg in a row"]
    assert kit.unary and kit.some == kit.positive_cases
    assert [finding for check in CHECKS.values() for finding in run(check, kit)] == []
    assert run(CHECKS["claims"], Kit(partial(InGroups, defect="is a little wrong"), ["Abs"]))


def test_operators_that_are_taken_with_constants_alone_are_tried_so() -> None:
    class WithConstants(BadProvider):
        def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
            for node in graph:
                known = node.op_type == "CumSum" and node.inputs[1] is not None and node.inputs[1].constant is not None
                yield Capability([node]) if known else Rejection(node, "constant", "takes CumSum along a constant axis")

    kit = Kit(WithConstants, ["CumSum"])
    assert "cumsum_2d_axis_0, fixed" in {case.name for case in kit.positive_cases}
    assert all(list(case.feed) == ["x"] for case in kit.positive_cases)


def test_a_device_of_fewer_bits_may_differ_by_more() -> None:
    reports = [check_provider(BadProvider, only=["claims"], atol=x, **LITTLE_WRONG) for x in (0.0, 0.1)]
    assert [report.passed for report in reports] == [False, True]


class TestKnownDeviations:
    """Ceil of a device that has no NaN."""

    @pytest.fixture(autouse=True)
    def ceil(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(FUNCTIONS, "Ceil", lambda x: np.where(np.isnan(x), np.float32(0), np.ceil(x)))

    def findings(self, **deviations: Deviation) -> list[str]:
        return [
            f"{f.case}: {f.text}" for f in CHECKS["numbers"](Kit(BadProvider, ["Abs", "Ceil"], known={"numbers": deviations}))
        ]

    def test_are_findings_where_nobody_knows_them(self) -> None:
        (text,) = self.findings()
        assert text.startswith("Ceil(") and "got 0.0, expected nan" in text

    def test_are_none_where_they_are_said(self) -> None:
        assert self.findings(Ceil=Deviation("NaN becomes 0", np.isnan)) == []

    def test_say_nothing_about_other_elements(self) -> None:
        wrong, *_ = self.findings(Ceil=Deviation("infinities become 0", np.isinf))
        assert "got 0.0, expected nan" in wrong

    def test_that_do_not_occur_are_findings(self) -> None:
        text = "Abs: NaN becomes 1: known, but no generated model shows it; take it off the list"
        known = {"Abs": Deviation("NaN becomes 1", np.isnan), "Ceil": Deviation("NaN becomes 0", np.isnan)}
        assert self.findings(**known) == [text]


class InGroups(BadProvider):
    """Takes two nodes or more."""

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for answer in super().get_capability(graph):
            yield Capability(answer.nodes, minimum=2) if isinstance(answer, Capability) else answer


def test_a_report_is_plain_data() -> None:
    report = check_provider(BadProvider, only=["claims"], **LITTLE_WRONG)
    assert not report.passed
    told = json.loads(report.to_json())
    assert told["provider"] == "BadExecutionProvider" and told["score"] == 0
    assert told["checks"]["claims"][0]["case"] == "abs"
    assert "claims: abs: it claims Abs, and then: output 0 (float32) differs" in str(report)


def test_the_pytest_plugin_has_a_test_for_each_check_and_writes_a_score(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    root = Path(__file__).parents[2]
    options = json.dumps({"defect": "is a little wrong"})
    arguments = ["-q", "-p", "ort_lite.testing.plugin", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    arguments += ["-c", str(tmp_path / "pytest.ini"), "--provider", "tests.testing.bad_provider:BadProvider"]
    arguments += ["--provider-options", options, "--operators", "Abs,Neg", "--score", str(score)]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    paths = [str(root), str(root / "providers"), str(root / "transforms")]
    code = f"import sys; sys.path[:0] = {paths!r}; import pytest; sys.exit(pytest.main({arguments!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=240)
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(score.read_text())
    assert set(told["checks"]) == set(CHECKS) and 0 < told["score"] < 1
    assert told["checks"]["claims"]
    assert "BadExecutionProvider" in told["provider"]


class Dividing(BadProvider):
    """Fails in a line of its own."""

    name = "DividingExecutionProvider"

    def compile(self, partitions: Any) -> Any:
        return [lambda inputs: [self.scaled(x) for x in inputs] for _ in partitions]

    def scaled(self, x: Any) -> Any:
        return x * (len(x.shape) // 0)


def test_a_finding_names_the_line_of_the_provider_at_which_an_exception_began() -> None:
    [finding, *_] = CHECKS["claims"](Kit(Dividing, ["Abs"]))
    line = Dividing.scaled.__code__.co_firstlineno + 1
    assert f"ZeroDivisionError: integer division or modulo by zero (test_kit.py:{line} in scaled)" in finding.text


def test_caches_tries_small_cases_where_there_are_some(models: GeneratedModels) -> None:
    sizes: list[int] = []

    class Noting(BadProvider):
        name = "NotingExecutionProvider"

        def compile(self, partitions: Any) -> Any:
            return [partial(self.noted, one) for one in super().compile(partitions)]

        def noted(self, compiled: Any, inputs: Any) -> Any:
            sizes.extend(x.nbytes for x in inputs)
            return compiled(inputs)

    assert CHECKS["caches"](Kit(Noting, OPERATORS, models=models)) == []
    assert 0 < max(sizes) <= 2048 * 32 * 18


def test_the_number_of_shapes_is_an_option(models: GeneratedModels) -> None:
    shapes: set[Any] = set()

    class Noting(BadProvider):
        def compile(self, partitions: Any) -> Any:
            return [partial(self.noted, one) for one in super().compile(partitions)]

        def noted(self, compiled: Any, inputs: Any) -> Any:
            shapes.add(inputs[0].shape)
            return compiled(inputs)

    unbounded = partial(Noting, defect="keeps something for each shape")
    [finding] = CHECKS["caches"](Kit(unbounded, ["Abs"], models=models, shapes=100))
    assert finding.text.startswith("32 new shapes keep ") and "after 64 others" in finding.text
    assert len(shapes) == 96, "whole stretches"
    with pytest.raises(InvalidArgument, match="shapes is 63: expected 64 or more, 576 by default"):
        Kit(BadProvider, shapes=63)
