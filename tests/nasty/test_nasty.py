"""Nasty providers, devices, transforms and plugins: each case ends rightly, or in an error that names who and where."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_lite.errors import ProviderError
from tests.nasty.cases import Case, Outcome, ended, fault, raises
from tests.processes import child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
GROUPS = [
    "answers",
    "blame",
    "compiling",
    "computing",
    "devices",
    "forks",
    "graphs",
    "layouts",
    "plugged",
    "rules",
    "saved",
    "threads",
    "verifying",
]
CASES = {
    (group, name): case for group in GROUPS for name, case in importlib.import_module(f"tests.nasty.{group}").CASES.items()
}
ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """A process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Outcome]]:
    """Asks one warm process, which forks for each case. What cases write to temporary folders goes with pytest's own."""
    command = [sys.executable, "-m", "tests.nasty.server"]
    env = {**environment(), "TMPDIR": str(tmp_path_factory.mktemp("nasty"))}
    with child(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        questions, answers = server.stdin, server.stdout
        assert questions is not None and answers is not None

        def ask(group: str, name: str) -> Outcome:
            print(json.dumps([group, name]), file=questions, flush=True)
            return Outcome(*json.loads(answers.readline()))

        yield ask


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(*key, id="/".join(key), marks=pytest.mark.xfail(strict=True, reason=case.defect) if case.defect else ())
        for key, case in CASES.items()
    ],
)
def test_it_ends_as_it_must(outcome: Callable[[str, str], Outcome], group: str, name: str) -> None:
    wrong = fault(CASES[group, name], outcome(group, name))
    if wrong:
        pytest.fail(wrong, pytrace=False)


# The judge: each way to end is told from the others


@pytest.mark.slow
def test_a_case_that_hangs_or_dies_is_known_and_ends_its_process() -> None:
    code = """if True:
        import os, signal, time
        from tests.nasty.cases import Case
        from tests.nasty.server import forked

        right, hangs = Case(lambda: None), Case(lambda: time.sleep(60))
        dies = Case(lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert [one.kind for one in forked([right, hangs, right], 1)] == ["right", "hung"]
        assert [one.kind for one in forked([right, dies, right])] == ["right", "died"]
        assert [one.kind for one in forked([right, right])] == ["right", "right"]
    """
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=True, timeout=60)


@pytest.mark.parametrize(
    ("act", "names", "said"),
    [
        (lambda: None, (), ""),
        (lambda: [([np.ones(2)], [np.ones(2)])], (), ""),
        (lambda: [([np.ones(2)], [np.zeros(2)])], (), "wrong: result 0"),
        (lambda: [([np.ones(2)], [np.ones(2, np.float32)])], (), "wrong: result 0"),
        (lambda: [([None], [np.ones(2)])], (), "wrong: result 0"),
        (lambda: [([], [np.ones(2)])], (), "wrong: result 0"),
        (lambda: None, ("A",), "no error came"),
        (raises(ProviderError("A did B")), ("A", "B"), ""),
        (raises(ProviderError("A did B")), ("A", "C"), r"lacks \['C'\]"),
        (raises(ProviderError("A did B")), (), "error: "),
        (raises(OSError("A")), ("A",), "foreign: OSError"),
    ],
)
def test_how_a_case_ended_is_judged(act: Any, names: tuple[str, ...], said: str) -> None:
    case = Case(act, names)
    found = fault(case, ended(case))
    assert re.search(said, found) if said else found == ""


def test_a_warning_that_must_come_is_missed() -> None:
    case = Case(lambda: None, warned="without end")
    assert "no warning" in fault(case, ended(case))
