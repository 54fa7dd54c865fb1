"""A rough comparison of a provider's time with the CPU provider's, per operator. It is not a benchmark."""

from collections.abc import Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

from ort_lite.record import Record
from ort_lite.testing.checks.tries import call_for, run_copy
from ort_lite.testing.generated import GeneratedCase
from ort_lite.testing.kit import Kit, copy_feed, reference

RUNS = 5


class Speed(Record):
    """The median seconds per run of a few runs."""

    subject: str
    seconds: float
    cpu: float

    @property
    def ratio(self) -> float:
        """Return the provider's time divided by the CPU provider's: below 1, the provider is faster."""
        return self.seconds / self.cpu


def speeds(kit: Kit) -> tuple[Speed, ...]:
    """Time the largest generated model of each operator that the provider claims alone. "all" sums them up."""
    found = [speed for name, case in _largest(kit).items() for speed in _time(kit, name, case)]
    if not found:
        return ()
    return (*found, Speed("all", sum(one.seconds for one in found), sum(one.cpu for one in found)))


def _largest(kit: Kit) -> dict[str, GeneratedCase]:
    found: dict[str, GeneratedCase] = {}
    for case in sorted(kit.generator_cases, key=lambda one: one.size[2], reverse=True):
        if len(case.nodes) == 1 and len(case.feeds) == 1 and kit.takes(case) == case.operators:
            found.setdefault(case.operators[0], case)
    return dict(sorted(found.items()))


def _time(kit: Kit, name: str, case: GeneratedCase) -> Iterator[Speed]:
    sessions = [call_for(partial(kit.session, case.model)), call_for(partial(reference, case.model))]
    if not any(isinstance(one, Exception) or isinstance(run_copy(one, case.feeds[0]), Exception) for one in sessions):
        yield Speed(name, *(median(_seconds(session, case) for _ in range(RUNS)) for session in sessions))


def _seconds(session: Any, case: GeneratedCase) -> float:
    feed = copy_feed(case.feeds[0])  # kits may share their models
    begin = perf_counter()
    session.run(None, feed)
    return perf_counter() - begin


def table(found: tuple[Speed, ...]) -> list[str]:
    """Return lines with the operator, the microseconds of both providers, and their ratio."""
    rows = [(one.subject, f"{one.seconds * 1e6:.0f}", f"{one.cpu * 1e6:.0f}", f"{one.ratio:.2f}") for one in found]
    rows.insert(0, ("speed", "µs", "CPU µs", "ratio"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        row[0].ljust(widths[0]) + "".join(f"  {cell:>{n}}" for cell, n in zip(row[1:], widths[1:], strict=True)) for row in rows
    ]
