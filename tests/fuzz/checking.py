"""What must hold for mutants, whatever they are: asserted of ranges of them, which a process of its own runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import trial
from tests.fuzz.drafts import Draft
from tests.fuzz.mutants import mutant
from tests.fuzz.trial import Verdict

ROOT = Path(__file__).parents[2]
ALLOWED = (trial.OK, trial.REFUSED, trial.MEMORY, trial.UNSAYABLE)
"""An output larger than the machine's memory is a MemoryError."""
NAMELESS = {
    "OutOfMemory": "scratch memory is that of all nodes of a run",
    "RunTerminated": "`trial` ends runs that take long, and who asks for that need not be told why",
}
"""Refusals that may name neither node nor value."""
SHOWN = 20
"""Mutants that a failing test lists."""


class Known(NamedTuple):
    """A difference between onnx.reference and what is right: operators ("" for all), which of their mutants, and why."""

    operators: str
    applies: Callable[[Draft], bool]
    reason: str


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


def known_difference(draft: Draft) -> str:
    """Why onnx.reference is not to be believed about a mutant; nothing where it is."""
    found = (one for one in KNOWN if not one.operators or draft.key[1] in one.operators.split())
    return next((one.reason for one in found if one.applies(draft)), "")


def check(first: int, count: int, folder: Path) -> None:
    found = problems(verdicts(first, count, folder))
    listed = "\n".join(found[:SHOWN])
    assert not found, f"{len(found)} of {count} mutants (python -m tests.fuzz --show N shows one):\n{listed}"


# --- Where onnx.reference is wrong
def _has_infinite_attribute(draft: Draft) -> bool:
    return any(isinstance(value, float) and abs(value) * 0 != 0 for value in draft.attributes.values())


def _leaves_the_integers(draft: Draft) -> bool:
    floats = [array for _, array in draft.arrays() if array.dtype.kind == "f"]
    return any(abs(float(x)) > 2**31 or x != x for array in floats for x in array.reshape(-1))


KNOWN = (
    Known(
        "Celu Elu HardSigmoid LeakyRelu PRelu Selu Shrink ThresholdedRelu", _has_infinite_attribute,
        "computes both sides of a condition and multiplies by its truth: infinity and NaN spoil the side that does not apply",
    ),
    Known(
        "Cast CastLike QuantizeLinear QLinearConv QLinearMatMul DynamicQuantizeLinear", _leaves_the_integers,
        "casts floats that no integer can hold as the C compiler of NumPy does; here they have a defined result",
    ),
    Known(
        "Ceil Floor Round Sign Equal Cast Hardmax ArgMax ArgMin TopK Unique", lambda draft: draft.before in ("Tanh", "Sigmoid"),
        "rounds the operator before in another way, and a step is all it takes to come out elsewhere",
    ),
    Known(
        "Attention", lambda draft: draft.attributes.get("scale", 1.0) < 0,
        "takes the square root of a negative scale; here it is multiplied",
    ),
    Known(
        "StringNormalizer", lambda draft: not draft.attributes.get("is_case_sensitive", 0),
        "compares stop words by case although is_case_sensitive is 0",
    ),
    Known(
        "Unsqueeze", lambda draft: draft.attributes.get("axes", [0]) != sorted(draft.attributes.get("axes", [0])),
        "inserts axes one after the other as they are listed; Unsqueeze-11: their order does not matter",
    ),
)  # fmt: skip
