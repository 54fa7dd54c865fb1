"""python -m tests.fuzz.byte_mutants FIRST COUNT: models mutated as bytes, and feeds that are no feeds; --show N shows one.

Of an even number the model's bytes are mutated, of an odd one what is fed to it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np

from ort_lite import InferenceSession, RunOptions
from ort_lite.errors import RunTerminated
from tests.fuzz import report, trial
from tests.fuzz.byte_mutations import MUTATIONS
from tests.fuzz.drafts import Draft
from tests.fuzz.feeds import fed_wrongly
from tests.fuzz.mutants import fresh, seed_of
from tests.fuzz.runner import run
from tests.fuzz.trial import OK, Verdict
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


def verdicts(numbers: Sequence[int], jobs: int = 1) -> Iterator[Verdict]:
    return run(numbers, jobs, judge, label=lambda number: trial.label(byte_mutant(number)[0]))


def show(number: int) -> str:
    """The bytes and the feeds of a mutant."""
    draft, data, feeds, story = byte_mutant(number)
    return f"{trial.label(draft)}: {story}\n{data!r}\n{feeds!r:.2000}\n"


if __name__ == "__main__":
    sys.exit(report.main("tests.fuzz.byte_mutants", __doc__, verdicts, show))
