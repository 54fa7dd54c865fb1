"""Bugs planted in the accelerator: the conformance kit finds each, with the check that is there for it, and nothing without."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider
from ort_lite_accelerator.operators import SINCE

from ort_lite.testing import CHECKS, GeneratedModels, Kit


def _beside(name: str) -> ModuleType:
    """A module in this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


pytestmark = pytest.mark.slow
planted = _beside("planted_bugs")


@pytest.fixture(scope="module")
def models() -> GeneratedModels:
    """Models that all bugs share, as many as one operator has by default: a bug is about a few operators."""
    return GeneratedModels(most=144)


@pytest.mark.parametrize("name", planted.BUGS)
def test_a_planted_bug_is_found(name: str, models: GeneratedModels, monkeypatch: pytest.MonkeyPatch) -> None:
    check, operators, plant = planted.BUGS[name]
    planted.widen(monkeypatch)
    provider = plant(monkeypatch) or AcceleratorExecutionProvider
    found = CHECKS[check](Kit(provider, operators, models=models))
    assert found, f"{check} did not find: {name.replace('_', ' ')}"
    assert all(finding.check == check for finding in found)


WHERE = sorted({(bug.check, bug.operators) for bug in planted.BUGS.values()})


@pytest.mark.parametrize(("check", "operators"), WHERE, ids=[f"{check}-{'-'.join(names)}" for check, names in WHERE])
def test_without_a_bug_nothing_is_found(
    check: str, operators: tuple[str, ...], models: GeneratedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.widen(monkeypatch)
    assert CHECKS[check](Kit(AcceleratorExecutionProvider, operators, models=models)) == []


def test_there_are_bugs_of_all_kinds() -> None:
    assert len(planted.BUGS) >= 90
    others = {"contract", "shapes", "groups", "inputs_untouched", "outputs_owned", "instances", "errors"}
    assert {bug.check for bug in planted.BUGS.values()} == {*CHECKS} - others, "tests/testing has some for the others"
    assert {name for bug in planted.BUGS.values() for name in bug.operators} >= set(SINCE)
