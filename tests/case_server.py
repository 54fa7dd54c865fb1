"""Cases that might hang, crash or use up the process that runs them: `python -m tests.case_server`, a request a line, a line back.

A module of cases has `CASES`, functions by name that raise where something is not as it should be, and may have `warm`, which does
what many of them need. The server imports the module and forks processes that run its cases one after the other. The fixture
`outcome` asks it.
"""

import functools
import gc
import importlib
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.processes import child

ROOT = Path(__file__).parents[1]


class Outcome(Protocol):
    """Asks for the outcome of a case: "" if it passed, else what went wrong."""

    def __call__(self, module: str, name: str, seconds: float = 20.0, megabytes: int = 2048, tasks: int = 1000) -> str:
        """A case may take so many seconds and megabytes. So many cases share a process, until one ends it."""


@contextmanager
def serving(temporary: Path) -> Iterator[Outcome]:
    """Start a server. What cases write to temporary files is in the folder."""
    paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", __name__]
    with child(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        requests, answers = server.stdin, server.stdout
        assert requests is not None and answers is not None

        def outcome(module: str, name: str, seconds: float = 20.0, megabytes: int = 2048, tasks: int = 1000) -> str:
            print(json.dumps([module, name, seconds, megabytes, tasks]), file=requests, flush=True)
            answer: str = json.loads(answers.readline() or '"the server died"')
            return answer

        yield outcome


@functools.cache
def _worker(module: str, seconds: float, megabytes: int, tasks: int) -> Any:
    from tests.workers import Limits, Worker  # not on Windows, where test modules import this one

    found = importlib.import_module(module)
    if hasattr(found, "warm"):
        found.warm()
    assert threading.active_count() == 1, "a fork would lose threads"
    gc.freeze()
    return Worker(functools.partial(_run, found.CASES), Limits(seconds, megabytes, tasks))


def _run(cases: dict[str, Callable[[], Any]], name: str) -> Iterator[str]:
    try:
        cases[name]()
    except BaseException:  # noqa: BLE001  what comes is the answer
        yield traceback.format_exc()
    else:
        yield ""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what cases print is no answer
    for line in sys.stdin:
        _, name, *_ = request = json.loads(line)
        ending = _worker(request[0], *request[2:]).judge(name)
        text = f"the process {ending.death} after {ending.seconds:.1f} s\n{ending.note}" if ending.death else ending.answers[-1]
        print(json.dumps(text), file=answers, flush=True)


if __name__ == "__main__":
    main()
