"""How late runs end: `python -m tests.hostile.cancel_everything [--domain D] [--operator NAME]... [--seconds S] [--cases N]`.

Takes every operator with a kernel, makes its cases large (`growth.py`) until a run takes so many seconds or the inputs are 600 MB, and
cancels runs at random moments: three times, or twenty where one of the three ended more than 50 ms late. Prints a table: operator,
how long the run takes alone, how late it ended at worst and second to worst, how many runs were cancelled, what grew, shapes. Each
operator has a process of its own, of at most 4 GB. All of them take an hour; a busy machine adds its own delays to every row.

Exits with status 1 where a row was later than LATE twice and not among those of REMAINING, which SECURITY.md lists.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import onnx

from ort_lite import InferenceSession, RunOptions, SessionOptions
from ort_lite.errors import RunTerminated
from tests.fuzz.drafts import Draft
from tests.fuzz.seeds import Seed
from tests.hostile.growth import Operator, Way, grown, operators, shapes, ways
from tests.workers import Limits, Worker

LATE = 0.25
"""Seconds after a cancellation or timeout within which runs end."""
SUSPICIOUS = 0.05
REMAINING: dict[str, tuple[float, str]] = {
    "com.microsoft.Sampling": (2.0, "NumPy sorts the scores of a token in one call: 0.3 s for a million of them")
}
"""By operator: seconds that it may be late, and why."""
MEGABYTES = 4096
PATIENCE = 240.0
"""Seconds for a row, after which the operator is given up."""
LONGEST = 6.0
"""Seconds after which a run that is timed is cancelled, too."""


class Row(NamedTuple):
    """One line of the table. `alone`: seconds of a run that nobody cancels. `late`: seconds after which a cancelled run ended at
    worst; `again`: the second worst. `cancelled`: how many were, of `tries`.
    """

    operator: str
    shapes: str = ""
    what: str = ""
    alone: float = 0.0
    late: float = 0.0
    again: float = 0.0
    cancelled: int = 0
    tries: int = 0
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.operator:34} {self.problem}"
        alone = f"{self.alone:7.2f} s" if self.alone < LONGEST else f"over {LONGEST:.0f} s"
        numbers = f"{alone:>9} {1000 * self.late:7.0f} ms {1000 * self.again:7.0f} ms {self.cancelled:3} of {self.tries:2}"
        return f"{self.operator:34} {numbers}  {self.what:28} {self.shapes[:90]}"

    @property
    def is_late(self) -> bool:
        """True where it was late twice: one run may have waited for a processor."""
        return self.again > max(LATE, REMAINING.get(self.operator, (0.0, ""))[0])


class Run:
    """A session, with feeds, of a case."""

    def __init__(self, draft: Draft) -> None:
        model: onnx.ModelProto = draft.model()
        options = SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = InferenceSession(model.SerializeToString(), options)
        self._feeds = draft.feeds()

    def seconds(self, limit: float) -> tuple[float, float | None]:
        """(how long a run takes, how late it ended where it was cancelled when the limit was reached).

        The moment is the one that was planned: who cancels may have to wait for the interpreter, too.
        """
        options = RunOptions()
        timer = threading.Timer(limit, setattr, (options, "terminate", True))
        begin = time.monotonic()
        timer.start()
        try:
            self._session.run(None, self._feeds, options)
        except RunTerminated:
            return time.monotonic() - begin, time.monotonic() - begin - limit
        finally:
            timer.cancel()
        return time.monotonic() - begin, None


def measured(seed: Seed, way: Way, wanted: float) -> Row | None:
    """None where the case does not grow that way. Raises what its first growth raises."""
    found = _largest(seed, way, wanted)
    if found is None:
        return None
    run, draft, ends = found
    alone, end = run.seconds(LONGEST)  # again, as the first run compiled and bound its kernels
    ends += [] if end is None else [end]
    ends += _cancelled(run, alone, 3)
    if max(_times(ends), default=0.0) > SUSPICIOUS:
        ends += _cancelled(run, alone, 17)
    late, again, *_ = [*sorted(_times(ends), reverse=True), 0.0, 0.0]
    name, count = name_of((seed.key[0], seed.key[1])), len(_times(ends))
    return Row(name, shapes(draft), str(way), alone, late, again, count, len(ends))


def _largest(seed: Seed, way: Way, wanted: float) -> tuple[Run, Draft, list[float | None]] | None:
    """The case so large that it takes as long as wanted, or nearly as large as it can be; and the ends of runs that took too long."""
    factor, best, alone = 1, None, 0.0
    ends: list[float | None] = []
    while alone < wanted:
        factor *= 4 if alone < wanted / 8 else 2
        if factor > 1 << 40 or (draft := grown(seed, way, factor)) is None:
            break
        try:
            run = Run(draft)
            alone, end = run.seconds(LONGEST)
        except Exception:
            if best is None and factor == 4:
                raise
            break  # as large as this it is not valid, or there is no memory
        best = run, draft, ends
        ends += [] if end is None else [end]
    return best


def _cancelled(run: Run, alone: float, tries: int) -> list[float | None]:
    """How late each run ended; None for one that was faster."""
    return [run.seconds(random.uniform(0.05, 0.9) * min(alone, 1.5))[1] for _ in range(tries)]


def _times(ends: Sequence[float | None]) -> list[float]:
    return [end for end in ends if end is not None]


def name_of(operator: Operator) -> str:
    domain, op_type = operator
    return f"{domain}.{op_type}" if domain else op_type


def rows(operator: Operator, wanted: float, cases: int) -> Iterator[Row]:
    """In this process: the ways that make runs longest differ by what grows, so that each is tried once."""
    count, problem = 0, "no case grows"
    for seed in operators()[operator][:3]:
        tried: set[Any] = set()
        for way in ways(seed):
            if (way.what, way.attributes) in tried or count >= cases:
                continue
            try:
                row = measured(seed, way, wanted)
            except Exception as error:  # noqa: BLE001  the case is none that way
                problem = f"no case grows: {type(error).__name__}: {str(error)[:150]}"
                continue
            if row is not None:
                tried.add((way.what, way.attributes))
                count += 1
                yield row
    if not count:
        yield Row(name_of(operator), problem=problem)


def in_child(operator: Operator, wanted: float, cases: int, patience: float = PATIENCE) -> Iterator[Row]:
    """The rows of an operator, from a fork with limits."""
    operators()  # before the fork: it takes a second
    worker = Worker(lambda one: rows(one, wanted, cases), Limits(patience, MEGABYTES, 1))
    ending = worker.judge(operator)
    worker.stop()
    yield from ending.answers
    if ending.death:
        yield Row(name_of(operator), problem=f"the process {ending.death}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", help='of the operators: "" for ONNX\'s own, "ai.onnx.ml", "com.microsoft"; all by default')
    parser.add_argument("--operator", action="append", default=[], help="an operator's type, again for more than one")
    parser.add_argument("--from", dest="first", default="", help="begin with this type, in the order of the alphabet")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a run shall take (default: 1)")
    parser.add_argument("--cases", type=int, default=4, help="rows of an operator (default: 4)")
    given = parser.parse_args(arguments)
    late = 0
    for operator in operators():
        domain, op_type = operator
        if (given.domain is not None and domain != given.domain) or (given.operator and op_type not in given.operator):
            continue
        if op_type < given.first:
            continue
        for row in in_child(operator, given.seconds, given.cases):
            late += row.is_late
            sys.stdout.write(f"{'LATE ' if row.is_late else '     '}{row}\n")
            sys.stdout.flush()
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
