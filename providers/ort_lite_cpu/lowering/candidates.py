"""Candidates: kernels that can compute a node, as a list, of which the first that fits is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ort_lite.record import Record
from ort_lite_cpu.lowering.op import NodeLowering

C = TypeVar("C")
"""The description of a node that an operator gives its candidates, such as the sizes of a convolution."""


class Candidate(Record, Generic[C]):
    """One way to compute a node."""

    name: str
    fits: Callable[[C], str]
    """A function that returns why the candidate does not fit, "" if it does."""
    emit: Callable[[C], Any]
    """A function that emits the instructions."""


def choose(op: NodeLowering, candidates: Sequence[Candidate[C]], case: C) -> Candidate[C]:
    """Return the first candidate that fits, and note for `explain(kernels=True)` why those before it do not.

    The last one must fit everything.
    """
    for candidate in candidates[:-1]:
        if not (reason := candidate.fits(case)):
            return candidate
        op.note_candidate(candidate.name, reason)
    return candidates[-1]
