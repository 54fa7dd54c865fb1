"""The command line of mutants: it judges a range of them, counts the verdicts, and lists the mutants that did what none may."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence

from tests.fuzz import trial
from tests.fuzz.known import known_difference
from tests.fuzz.mutants import mutant
from tests.fuzz.trial import Verdict

ALLOWED = (trial.OK, trial.REFUSED, trial.MEMORY, trial.UNSAYABLE)
"""An output larger than the machine's memory is a MemoryError."""


def main(
    program: str,
    description: str | None,
    judge: Callable[[range, int], Iterator[Verdict]],
    show: Callable[[int], str],
    nameless: Container[str] = (),
) -> int:
    """Judge the mutants that the command line names, and print a report. Returns 1 if one of them did what none may."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", type=int, metavar="N", help="one mutant: its model, its feeds, its verdict")
    chosen = parser.parse_args()
    numbers = range(chosen.first, chosen.first + chosen.count)
    if chosen.show is not None:
        numbers = range(chosen.show, chosen.show + 1)
        sys.stdout.write(show(chosen.show))
    began = time.monotonic()
    found = list(judge(numbers, chosen.jobs))
    assert sorted(verdict.number for verdict in found) == list(numbers)
    problems = sorted(filter(None, (problem(verdict, nameless) for verdict in found)))
    sys.stdout.write("\n".join([*table(found, time.monotonic() - began), *problems, ""]))
    if chosen.show is not None:
        sys.stdout.write("".join(f"{name}: {field}\n" for name, field in found[0]._asdict().items()))
    return int(bool(problems))


def table(found: Sequence[Verdict], seconds: float) -> list[str]:
    """How many of each status."""
    counts = Counter(verdict.status for verdict in found)
    lines = [f"{len(found)} mutants in {seconds:.0f} s, {1000 * seconds / max(len(found), 1):.1f} ms each"]
    lines += [f"{counts[status]:8}  {status:9} {meaning}" for status, meaning in trial.STATUSES.items()]
    stricter = sum(verdict.status == trial.REFUSED and verdict.reference == "ran" for verdict in found)
    compared = sum(verdict.status == trial.OK and verdict.reference == "ran" for verdict in found)
    lines.append(f"{compared:8}  of those that ran agree with onnx.reference")
    lines.append(f"{stricter:8}  were refused although onnx.reference runs them")
    return lines


def problem(verdict: Verdict, nameless: Container[str]) -> str:
    """Say what a mutant did that none may do, "" for nothing. Errors in `nameless` may name neither node nor value."""
    detail = " / ".join(verdict.detail.splitlines()[:3])
    what = f"{verdict.status:8} {verdict.number:8} {verdict.operator:32} {verdict.error} {detail:.300}"
    if verdict.status == trial.WRONG:
        return "" if known_difference(mutant(verdict.number)) else what
    if verdict.status not in ALLOWED:
        return what
    silent = verdict.status == trial.REFUSED and not verdict.named and verdict.error not in nameless
    return f"names neither node nor value: {what}" if silent else ""
