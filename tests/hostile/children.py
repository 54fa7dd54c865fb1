"""Cases that might hang, crash or use up the process that runs them: several to a child, each with limits on time and memory.

A module of cases has `CASES`, functions by name that raise where something is not as it should be. Its test module asks `outcome` for
each: the child runs them in order, and another goes on behind one that did not end.
"""

import functools
import importlib
import json
import os
import resource
import select
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from tests.processes import child

ROOT = Path(__file__).parents[2]
START = 60.0
"""Seconds until the first case begins, on a busy machine."""


def outcome(module: str, name: str, seconds: float = 20.0, megabytes: int = 2048) -> str:
    """Return "" if the case of the module passed, else what went wrong.

    Each case may take so many seconds, and as much address space beyond what the imports of its module took.
    """
    return _outcomes(module, seconds, megabytes)[name]


@functools.cache
def _outcomes(module: str, seconds: float, megabytes: int) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    left = list(importlib.import_module(module).CASES)
    while left:
        outcomes.update(_answers(module, left, seconds, megabytes))
        left = [name for name in left if name not in outcomes]
    return outcomes


def _answers(module: str, names: list[str], seconds: float, megabytes: int) -> dict[str, str]:
    """The outcomes of one child: those of all names, or of those up to the one that it did not survive."""
    answers: dict[str, str] = {}
    command = [sys.executable, "-m", __name__, module, str(megabytes), json.dumps(names)]
    with child(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        lines = _Lines(process.stdout)
        assert lines.read(START) == "ready\n", f"{module} cannot be imported"
        for name in names:
            begin = monotonic()
            line = lines.read(seconds)
            if line:
                answers[name] = json.loads(line)
                continue
            ended = line is not None and process.wait(30)
            took = f"{monotonic() - begin:.1f} s"
            answers[name] = (
                f"no answer within {took}" if line is None else f"the process ended with status {ended} after {took}"
            )
            break
    return answers


class _Lines:
    """Lines from a pipe. Text streams read ahead, and `select` does not see what they hold."""

    def __init__(self, stream: Any) -> None:
        self._file, self._rest = stream.fileno(), b""

    def read(self, seconds: float) -> str | None:
        """The next line, "" at the end of the stream, None if none comes in time."""
        end = monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._file], [], [], max(end - monotonic(), 0))
            if not ready:
                return None
            found = os.read(self._file, 1 << 16)
            if not found:
                return ""
            self._rest += found
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode() + "\n"


def _run(case: Callable[[], None]) -> str:
    try:
        case()
    except BaseException:  # noqa: BLE001  what comes is the answer
        return traceback.format_exc()
    return ""


def main(module: str, megabytes: str, names: str) -> None:
    """Answer with one line a case, of JSON."""
    answers, sys.stdout = sys.stdout, sys.stderr
    cases: Mapping[str, Callable[[], None]] = importlib.import_module(module).CASES
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + (int(megabytes) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print("ready", file=answers, flush=True)
    for name in json.loads(names):
        print(json.dumps(_run(cases[name])), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
