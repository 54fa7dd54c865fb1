"""Measurement of one registration: workloads that run for long, cancelled at several moments; the largest delay counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ort_lite import InferenceSession, RunOptions, SessionOptions
from ort_lite.errors import OrtLiteError, RunTerminated
from tests.cancellation.growth import Way, cases, grown, shapes, ways
from tests.cancellation.registrations import Registration
from tests.cancellation.step_workloads import STEPS
from tests.cancellation.workloads import NUMBERS, Workload
from tests.fuzz.seeds import Seed
from tests.workers import Limits, Worker

LATE = 0.25
"""Seconds after a cancellation or timeout within which runs end."""
SUSPICIOUS = 0.05
"""Seconds from which on a delay is measured again, and at more moments."""
KNOWN: dict[str, tuple[float, str]] = {}
"""By registration: seconds that it may be late, and why."""
WORKLOADS = {name: [*NUMBERS.get(name, ()), *STEPS.get(name, ())] for name in [*NUMBERS, *STEPS]}
THREADS = 2
MOMENTS = (0.1, 0.5, 0.9)
"""Shares of the time of a run after which it is cancelled."""
MORE_MOMENTS = (0.03, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.97)
MEGABYTES = 6144
PATIENCE = 240.0
"""Seconds for a row, after which the registration is given up."""
LONGEST = 3.0
"""Seconds after which a run that is timed is cancelled, too."""
MOST_FACTOR = 1 << 40


class Row(NamedTuple):
    """A line of the table. `alone`: seconds of a run that nobody cancels. `late`: the longest delay of a cancelled run.

    `seen`: how many runs were still in flight when they were cancelled.
    """

    name: str
    what: str = ""
    shapes: str = ""
    alone: float = 0.0
    late: float = 0.0
    seen: int = 0
    problem: str = ""

    @property
    def is_late(self) -> bool:
        """Return True if the delay exceeds LATE, or the bound of KNOWN."""
        return self.late > max(LATE, KNOWN.get(self.name, (0.0, ""))[0])


class Runs:
    """A session of a workload, with its feeds."""

    def __init__(self, workload: Workload) -> None:
        options = SessionOptions()
        options.intra_op_num_threads = THREADS
        options.log_severity_level = 3
        self._session = InferenceSession(workload.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self._feeds = workload.feeds

    def time(self, limit: float) -> tuple[float, float]:
        """Return how long a run takes that is cancelled at the limit, and how long it went on after that moment.

        The moment is the one that was planned: the thread that cancels may have to wait for the interpreter. A run that ends
        with results although it was cancelled counts as well.
        """
        options = RunOptions()
        timer = threading.Timer(limit, setattr, (options, "terminate", True))
        begin = time.monotonic()
        timer.start()
        try:
            results = self._session.run(None, self._feeds, options)
            end = time.monotonic()
            del results
        except RunTerminated:
            end = time.monotonic()
        finally:
            timer.cancel()
        return end - begin, max(end - begin - limit, 0.0)


def measure(name: str, workload: Workload, runs: Runs | None = None) -> Row:
    """Return the row of a workload. The first run compiles and binds kernels, and does not count."""
    if runs is None:
        runs = Runs(workload)
        runs.time(LONGEST)
    alone, first = runs.time(LONGEST)
    span = min(alone, LONGEST)
    found = [first, *_delays(runs, span, MOMENTS)]
    if max(found) > SUSPICIOUS:
        found += _delays(runs, span, MORE_MOMENTS)
    return Row(name, workload.what, workload.shapes, alone, max(found), sum(delay > 0 for delay in found))


def _delays(runs: Runs, span: float, moments: Sequence[float]) -> list[float]:
    """Return the delay at each moment. One that is long counts only if it comes again: a busy machine adds its own."""
    found = []
    for moment in moments:
        delay = runs.time(moment * span)[1]
        if delay > SUSPICIOUS:
            delay = min(delay, runs.time(moment * span)[1])
        found.append(delay)
    return found


def _grown(seed: Seed, way: Way, wanted: float) -> tuple[Workload, Runs] | None:
    """Return the case so large that it takes as long as wanted, or nearly as large as it can be; None if it does not grow.

    Raises what its first growth raises.
    """
    factor, step, best = 1, 4, None
    while step > 1 and factor < MOST_FACTOR:
        draft = grown(seed, way, factor * step)
        if draft is None:
            step //= 2
            continue
        try:
            workload = Workload(str(way), draft.model(), draft.feeds(), shapes(draft))
            runs = Runs(workload)
            alone, _ = runs.time(LONGEST)
        except (OrtLiteError, MemoryError, ValueError):
            if best is None:
                raise
            step //= 2  # as large as this it is not valid, or there is no memory
            continue
        factor, best = factor * step, (workload, runs)
        if alone >= wanted:
            break
        step = 4 if alone < wanted / 8 else 2
    return best


def rows(one: Registration, wanted: float, count: int) -> Iterator[Row]:
    """Measure the workloads of a registration that are written down, and cases that grow, until there are so many rows."""
    name, problem = str(one), "no case grows"
    made = WORKLOADS.get(name, [])
    for make in made:
        try:
            yield measure(name, make())
        except Exception as error:  # noqa: BLE001  the others are measured all the same
            yield Row(name, problem=f"{type(error).__name__}: {str(error)[:300]}")
    found = len(made)
    tried: set[tuple[Any, bool]] = set()
    for seed, way in ((each, way) for each in cases().get(one, [])[:3] for way in ways(each)):
        if found >= count or (way.what, way.attributes) in tried:
            continue
        try:
            best = _grown(seed, way, wanted)
        except Exception as error:  # noqa: BLE001  the case is none that way
            problem = f"no case grows: {type(error).__name__}: {str(error)[:150]}"
            continue
        if best is not None:
            found += 1
            tried.add((way.what, way.attributes))
            yield measure(name, *best)
    if not found:
        yield Row(name, problem=problem)


def rows_in_child(one: Registration, wanted: float, count: int, patience: float = PATIENCE) -> list[Row]:
    """Return the rows of a registration, from a fork with limits."""
    cases()  # before the fork: it takes seconds
    worker = Worker(lambda task: rows(task, wanted, count), Limits(patience, MEGABYTES, 1))
    ending = worker.judge(one)
    worker.stop()
    return [*ending.answers, *([Row(str(one), problem=f"the process {ending.death}")] if ending.death else [])]
