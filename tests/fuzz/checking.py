"""What must hold for mutants, whatever they are: asserted of ranges of them, which a process of its own runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import trial
from tests.fuzz.known import known_difference
from tests.fuzz.mutants import mutant
from tests.fuzz.trial import Verdict

linux = pytest.mark.skipif(sys.platform != "linux", reason="walls and the report of signals are made of Linux's system calls")
ROOT = Path(__file__).parents[2]
ALLOWED = (trial.OK, trial.REFUSED, trial.MEMORY, trial.UNSAYABLE)
"""An output larger than the machine's memory is a MemoryError."""
NAMELESS = {
    "OutOfMemory": "scratch memory is that of all nodes of a run",
    "Cancelled": "`trial` ends runs that take long, and who asks for that need not be told why",
}
"""Refusals that may name neither node nor value."""
SHOWN = 20
"""Mutants that a failing test lists."""


def verdicts(first: int, count: int, folder: Path) -> list[Verdict]:
    """Of the mutants first, first + 1, ...; a process of its own forks for each batch of them, as this one has threads."""
    file = folder / "verdicts.jsonl"
    command = [sys.executable, "-m", "tests.fuzz", str(first), str(count), "--jobs", "1", "--out", str(file)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [Verdict(**json.loads(line)) for line in file.read_text().splitlines()]
    assert sorted(verdict.number for verdict in found) == list(range(first, first + count))
    return found


def problems(found: list[Verdict]) -> list[str]:
    """One line for each mutant that did what none may do."""
    return [told for verdict in found if (told := problem(verdict))]


def problem(verdict: Verdict) -> str:
    """Nothing where the verdict is one of those that a mutant may have."""
    what = f"{verdict.number} {verdict.operator} {verdict.status} {verdict.error}: {verdict.detail:.400}"
    if verdict.status == trial.WRONG:
        return "" if known_difference(mutant(verdict.number)) else what
    if verdict.status not in ALLOWED:
        return what
    nameless = verdict.status == trial.REFUSED and not verdict.named and verdict.error not in NAMELESS
    return f"names neither node nor value: {what}" if nameless else ""


def check(first: int, count: int, folder: Path) -> None:
    found = problems(verdicts(first, count, folder))
    listed = "\n".join(found[:SHOWN])
    assert not found, f"{len(found)} of {count} mutants (python -m tests.fuzz --show N shows one):\n{listed}"
