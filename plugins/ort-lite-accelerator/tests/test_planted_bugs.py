"""Bugs planted in the accelerator: the conformance kit finds each, with the check that is there for it, and nothing without."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider
from ort_lite_accelerator.operators import SINCE

from ort_lite.testing import CHECKS, Finding, GeneratedModels, Kit
from ort_lite.testing.generated import GeneratedCase
from ort_lite.testing.hosts import Host


def _beside(name: str) -> ModuleType:
    """A module in this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


pytestmark = pytest.mark.slow
planted = _beside("planted_bugs")


Answers = dict[Any, tuple[str, ...]]
"""By case: the operators of which a provider claims nodes. To ask costs more than most runs."""


class SharingKit(Kit):
    """A kit that knows the claims of some cases; of the models it shows one in `every`."""

    def __init__(self, provider: Any, operators: Sequence[str], healthy: "Healthy", known: Answers, every: int = 1) -> None:
        super().__init__(provider, operators, models=healthy.models, host=healthy.host)
        self.answers, self.every = known, every

    def takes(self, case: Any) -> tuple[str, ...]:
        return self.answers[case] if case in self.answers else super().takes(case)

    def of_kind(self, kind: str) -> list[GeneratedCase]:
        return super().of_kind(kind)[:: self.every]


class LearningKit(SharingKit):
    def takes(self, case: Any) -> tuple[str, ...]:
        self.answers[case] = super().takes(case)
        return self.answers[case]


class Healthy:
    """The accelerator without a bug: what checks find in it, and what it claims."""

    def __init__(self, host: Host | None = None) -> None:
        self.host = host
        self.models = GeneratedModels(most=144)
        """As many as one operator has by default: a bug is about a few operators."""
        self.answers: Answers = {}
        self._findings: dict[tuple[str, tuple[str, ...]], list[Finding]] = {}

    def findings(self, check: str, operators: tuple[str, ...]) -> list[Finding]:
        if (check, operators) not in self._findings:
            with pytest.MonkeyPatch.context() as patch:
                planted.widen(patch)
                kit = LearningKit(AcceleratorExecutionProvider, operators, self, self.answers)
                self._findings[check, operators] = CHECKS[check](kit)
        return self._findings[check, operators]


@pytest.fixture(scope="module")
def healthy() -> Healthy:
    return Healthy()


@pytest.mark.parametrize("name", planted.BUGS)
def test_a_planted_bug_is_found(name: str, healthy: Healthy, monkeypatch: pytest.MonkeyPatch) -> None:
    find_bug(name, healthy, monkeypatch)


def find_bug(name: str, healthy: Healthy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug, and expect findings with a fifth of the models, or with all, or where the bug is in the claims."""
    check, operators, plant = planted.BUGS[name]
    healthy.findings(check, operators)
    planted.widen(monkeypatch)
    provider = plant(monkeypatch) or AcceleratorExecutionProvider
    attempts: list[tuple[Answers, int]] = [(healthy.answers, 5), (healthy.answers, 1), ({}, 1)]
    kits = (SharingKit(provider, operators, healthy, known, every) for known, every in attempts)
    found = next(filter(None, (CHECKS[check](kit) for kit in kits)), [])
    assert found, f"{check} did not find: {name.replace('_', ' ')}"
    assert all(finding.check == check for finding in found)


WHERE = sorted({(bug.check, bug.operators) for bug in planted.BUGS.values()})


@pytest.mark.parametrize(("check", "operators"), WHERE, ids=[f"{check}-{'-'.join(names)}" for check, names in WHERE])
def test_without_a_bug_nothing_is_found(check: str, operators: tuple[str, ...], healthy: Healthy) -> None:
    assert healthy.findings(check, operators) == []


def test_there_are_bugs_of_all_kinds() -> None:
    assert len(planted.BUGS) >= 90
    others = {"contract", "shapes", "groups", "inputs_untouched", "outputs_owned", "errors"}
    assert {bug.check for bug in planted.BUGS.values()} == {*CHECKS} - others, "tests/testing has some for the others"
    assert {name for bug in planted.BUGS.values() for name in bug.operators} >= set(SINCE)
