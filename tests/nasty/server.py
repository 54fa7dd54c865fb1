"""Runs cases, each in a fork of a process that is warm: `python -m tests.nasty.server`, a case a line in, an outcome a line out.

A case that dies or hangs costs its own process alone.
"""

import gc
import importlib
import json
import os
import select
import signal
import sys
import threading
from typing import Any

from tests.nasty.cases import MODELS, Case, Outcome, ended, wanted

LIMIT = 20.0
"""Seconds that a case may take; most take milliseconds."""


def case_of(group: str, name: str) -> Case:
    found: Case = importlib.import_module(f"tests.nasty.{group}").CASES[name]
    return found


def forked(case: Case, limit: float = LIMIT) -> Outcome:
    """How the case ends in a child."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os.close(reader)
        os.write(writer, json.dumps(ended(case)).encode())
        os._exit(0)
    os.close(writer)
    return _awaited(child, reader, limit)


def _awaited(child: int, reader: int, limit: float) -> Outcome:
    try:
        ready, _, _ = select.select([reader], [], [], limit)
        data = os.read(reader, 65536) if ready else b""
    finally:
        os.close(reader)
        if not ready:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if not ready:
        return Outcome("hung", f"{limit:g} s")
    return Outcome(*json.loads(data)) if data else Outcome("died", f"status {status}")


def warm() -> None:
    """What every case needs is there before the first fork, and no thread is."""
    for model in MODELS:
        wanted(model)
    assert threading.active_count() == 1, "a fork would lose threads"
    gc.freeze()


def main(lines: Any = sys.stdin) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what cases print is no answer
    warm()
    for line in lines:
        group, name = json.loads(line)
        answers.write(json.dumps(forked(case_of(group, name))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
