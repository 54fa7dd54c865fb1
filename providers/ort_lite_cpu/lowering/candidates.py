"""Candidates: kernels that can compute a node, as a list. The cheapest that fits is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ort_lite.errors import InvalidArgument, hint
from ort_lite.provider.compiled import CandidateCost
from ort_lite.record import Record
from ort_lite_cpu.lowering.lowered import Choice
from ort_lite_cpu.lowering.op import NodeLowering

C = TypeVar("C")
"""The description of a node that an operator gives its candidates, such as the sizes of a convolution."""


class Candidate(Record, Generic[C]):
    """One way to compute a node."""

    name: str
    """The name of the kernel, with the form behind a hyphen if the kernel has several: `winograd-4`."""
    fits: Callable[[C], str]
    """A function that returns why the candidate cannot compute the node, "" if it can."""
    cost: Callable[[C], float]
    """A function that returns the work of the kernel, in nanoseconds of one thread of the reference CPU."""
    emit: Callable[[C], Any]
    """A function that emits the instructions."""
    moves: Callable[[C], float] = lambda case: 0.0
    """A function that returns the nanoseconds of the changes of layout before and behind the kernel."""


def choose(op: NodeLowering, candidates: Sequence[Candidate[C]], case: C, calls: int = 1) -> Candidate[C]:
    """Return the candidate that `compare` takes, and note it for `explain(kernels=True)` as the one of the node, with `calls` of it."""
    choice = compare(op, candidates, case)
    costs = {name: cost.times(calls) for name, cost in choice.costs.items()}
    op.note_choice(choice.replace(costs=costs))
    return next(candidate for candidate in candidates if candidate.name == choice.taken)


def compare(op: NodeLowering, candidates: Sequence[Candidate[C]], case: C) -> Choice:
    """Return the cheapest candidate that fits, or the one that config entry `ort_lite.kernels` pins; of equal ones the first.

    Raises InvalidArgument if the pinned one does not fit, and NotImplemented if none does.
    """
    costs, rejected = dict[str, CandidateCost](), dict[str, str]()
    for candidate in candidates:
        if reason := candidate.fits(case):
            rejected[candidate.name] = reason
        else:
            kernel = op.costs.predict(candidate.name, candidate.cost(case))
            costs[candidate.name] = CandidateCost(kernel / 1000, candidate.moves(case) / 1000)
    if not costs:
        raise op.reject("; ".join(f"{name}: {reason}" for name, reason in rejected.items()))
    taken = _pinned_candidate(op, costs, rejected) or min(costs, key=lambda name: costs[name].total)
    return Choice(taken, costs, rejected)


def _pinned_candidate(op: NodeLowering, costs: Mapping[str, CandidateCost], rejected: Mapping[str, str]) -> str:
    """Return the candidate that the option pins, "" if it pins none."""
    name = dict(op.options.pins).get(op.node.name, "")
    if not name or name in costs:
        return name
    known = [*costs, *rejected]
    reason = rejected.get(name) or f"it has no such candidate, but {', '.join(known)}{hint(name, known)}"
    raise InvalidArgument(f"{op.node} (CPUExecutionProvider): ort_lite.kernels asks for {name!r}: {reason}").about(op.node)
