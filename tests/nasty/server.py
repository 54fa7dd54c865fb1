"""Runs cases in forks of a process that is warm: `python -m tests.nasty.server`, a case a line in, an outcome a line out.

A case that dies or hangs takes no other along: those that would have come after it have a process of their own.
"""

import gc
import importlib
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from tests.nasty.cases import MODELS, Case, Outcome, Table, ended, wanted

LIMIT = 20.0
"""Seconds that a case may take; most take milliseconds."""


ALONE = ("forks", "plugged", "rules")
"""Groups whose cases leave something behind in their process."""
MOST = 16
"""Cases of other groups that share a process, one after the other, until one dies or hangs."""


def forked(cases: Sequence[Case], limit: float = LIMIT) -> list[Outcome]:
    """How the cases end in a child: of all, or up to the first that dies or hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        for case in cases:
            os.write(writer, json.dumps(ended(case)).encode() + b"\n")
        os._exit(0)
    os.close(writer)
    outcomes: list[Outcome] = []
    data, hung = b"", False
    while len(outcomes) < len(cases):
        ready, _, _ = select.select([reader], [], [], limit)
        more = os.read(reader, 65536) if ready else b""
        if not more:
            hung = not ready
            break
        *lines, data = (data + more).split(b"\n")
        outcomes += [Outcome(*json.loads(line)) for line in lines]
    os.close(reader)
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if len(outcomes) < len(cases):
        outcomes.append(Outcome("hung", f"{limit:g} s") if hung else Outcome("died", f"status {status}"))
    return outcomes


class Groups:
    """Outcomes by group and name. A case that was not asked for before runs with those that come after it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Outcome] = {}

    def outcome(self, group: str, name: str) -> Outcome:
        if (group, name) not in self._known:
            cases: Table = importlib.import_module(f"tests.nasty.{group}").CASES
            names = list(cases)
            first = names.index(name)
            chosen = names[first : first + (1 if group in ALONE else MOST)]
            found = forked([cases[each] for each in chosen])
            self._known.update(((group, each), outcome) for each, outcome in zip(chosen, found, strict=False))
        return self._known[group, name]


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
    groups = Groups()
    for line in lines:
        group, name = json.loads(line)
        answers.write(json.dumps(groups.outcome(group, name)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
