"""Ranges of mutants, judged by a process of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="walls and the report of signals are made of Linux's system calls")
ROOT = Path(__file__).parents[2]


def check(program: str, first: int, count: int) -> None:
    """No mutant does what none may do. A process of its own forks to judge them, as this one has threads."""
    command = [sys.executable, "-m", program, str(first), str(count)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, f"python -m {program} --show N shows one:\n{done.stdout[-8000:]}{done.stderr[-2000:]}"
