"""Nasty providers, devices, transforms and plugins: each case ends rightly, or in an error that names who and where."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nasty.cases import Case, Outcome, ended, fault, raises
from tests.nasty.server import forked

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
GROUPS = [
    "answers", "compiling", "computing", "devices", "forks", "graphs", "layouts", "plugged", "rules", "saved", "threads", "verifying",
]  # fmt: skip
CASES = {(group, name): case for group in GROUPS for name, case in importlib.import_module(f"tests.nasty.{group}").CASES.items()}
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcome() -> Iterator[Callable[[str, str], Outcome]]:
    """Asks one warm process, which forks for each case."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    command = [sys.executable, "-m", "tests.nasty.server"]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        questions, answers = server.stdin, server.stdout
        assert questions is not None and answers is not None

        def ask(group: str, name: str) -> Outcome:
            print(json.dumps([group, name]), file=questions, flush=True)
            return Outcome(*json.loads(answers.readline()))

        yield ask
        questions.close()


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
