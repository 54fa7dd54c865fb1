"""python -m tests.fuzz.byte_mutants FIRST COUNT: models mutated as bytes, and feeds that are no feeds; --show N shows one.

Of an even number the model's bytes are mutated, of an odd one what is fed to it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np

from ort_lite import InferenceSession, RunOptions
from ort_lite.errors import RunTerminated
from tests.fuzz import trial
from tests.fuzz.byte_mutations import MUTATIONS
from tests.fuzz.checking import ALLOWED
from tests.fuzz.drafts import Draft
from tests.fuzz.feeds import fed_wrongly
from tests.fuzz.mutants import fresh, seed_of
from tests.fuzz.runner import run
from tests.fuzz.trial import OK, REFUSED, Verdict
from tests.generated.oracles import within

PARTS = ("the model", "protobuf", "<bytes>", "domain", "opset", "input", "output", "initializer", "attribute", "function")
"""What a refusal may name where a mutation took the names away."""


def byte_mutant(number: int) -> tuple[Draft, bytes, Any, str]:
    """The draft that it began with, the model's bytes, what is fed, and what was done."""
    rng = Random(~number)
    for _ in range(8):
        draft = fresh(seed_of(rng.randrange(10_000), rng), rng)
        data = draft.model().SerializeToString()
        if len(data) < 1 << 16:
            break
    feeds: Any = draft.feeds()
    if number % 2:
        feeds, story = fed_wrongly(rng, feeds)
        return draft, data, feeds, story
    chosen = rng.choices(list(MUTATIONS), list(MUTATIONS.values()), k=rng.choice((1, 1, 2, 3)))
    for mutation in chosen:
        data = mutation(rng, data) or data
    return draft, data, feeds, ", ".join(mutation.__name__ for mutation in chosen)


def judge(number: int) -> Iterator[Verdict]:
    draft, data, feeds, _ = byte_mutant(number)
    who, options = trial.label(draft), RunOptions()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            session = InferenceSession(data, providers=["CPUExecutionProvider"])
            with session, within(trial.ENDLESS_S, partial(setattr, options, "terminate", True)):
                session.run(None, feeds, options)
    except Exception as error:  # noqa: BLE001  which kind it is, is the verdict
        yield trial.refusal(number, who, error, isinstance(error, RunTerminated) or names_something(str(error)))
    else:
        yield Verdict(number, who, OK, "")


def names_something(message: str) -> bool:
    """Whether a refusal says what of the model it is about: a name in quotes, or a part of models."""
    return "'" in message or any(part in message for part in PARTS)


def verdicts(first: int, count: int, jobs: int = 1) -> Iterator[Verdict]:
    return run(range(first, first + count), jobs, judge, label=lambda number: trial.label(byte_mutant(number)[0]))


def bad(verdict: Verdict) -> bool:
    """Whether that is what no mutant may do."""
    return verdict.status not in ALLOWED or (verdict.status == REFUSED and not verdict.named)


def table(found: list[Verdict], seconds: float) -> str:
    """How many of each status, and a line for each mutant that did what none may."""
    counts = Counter(verdict.status for verdict in found)
    lines = [f"{len(found)} mutants in {seconds:.0f} s, {1000 * seconds / max(len(found), 1):.1f} ms each"]
    lines += [f"{counts[status]:8}  {status}" for status in trial.STATUSES]
    lines += [f"{v.number:8}  {v.status:8} {v.operator:28} {v.error} {v.detail:.300}" for v in found if bad(v)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """1 where a mutant did what none may."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.byte_mutants", description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", type=int, metavar="N", help="one mutant: its bytes, its feeds, its verdict")
    chosen = parser.parse_args()
    began = time.monotonic()
    if chosen.show is not None:
        draft, data, feeds, story = byte_mutant(chosen.show)
        [verdict] = verdicts(chosen.show, 1)
        sys.stdout.write(f"{trial.label(draft)}: {story}\n{data!r}\n{feeds!r:.2000}\n{verdict}\n")
        return int(bad(verdict))
    found = list(verdicts(chosen.first, chosen.count, chosen.jobs))
    sys.stdout.write(table(found, time.monotonic() - began))
    return int(any(map(bad, found)))


if __name__ == "__main__":
    sys.exit(main())
