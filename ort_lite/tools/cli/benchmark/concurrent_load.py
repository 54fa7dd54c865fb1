"""Throughput and latency under several concurrent callers."""

import threading
import time
from collections.abc import Sequence
from typing import Any

from ort_lite.record import Record
from ort_lite.tools.cli.benchmark.interleaved_runs import Run

MEDIAN = 50
PERCENTILES = (MEDIAN, 90, 95, 99)
ROUNDS = 4
"""Turns that each of two runtimes gets, one after the other, so that both meet the same machine."""


class Load(Record):
    """The duration of each run in seconds, sorted, for `callers` threads that call as fast as they can, and the total time."""

    callers: int
    times: tuple[float, ...]
    seconds: float

    @property
    def throughput(self) -> float:
        """Return the number of runs per second."""
        return len(self.times) / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """Return the duration of a run that this percentage of runs does not exceed. The value is never interpolated."""
        last = len(self.times) - 1
        return self.times[min(last, int(len(self.times) * share / 100))]

    def as_dict(self) -> dict[str, Any]:
        """Return the load as plain data; times in seconds."""
        found = {f"p{share}": self.percentile(share) for share in PERCENTILES}
        told = {"concurrency": self.callers, "runs": len(self.times), "seconds": self.seconds}
        return {**told, "throughput": self.throughput, **found, "longest": self.times[-1]}

    def __str__(self) -> str:
        named = ((f"p{share}" if share != MEDIAN else "median", share) for share in PERCENTILES)
        shown = ", ".join(f"{name} {self.percentile(share) * 1e3:.4g} ms" for name, share in named)
        return f"{len(self.times):,} runs, {self.throughput:,.1f} per second; {shown}, longest {self.times[-1] * 1e3:.4g} ms"


def load_of(times: Sequence[float]) -> Load:
    """Return the load of one caller from the seconds of its runs."""
    return Load(1, tuple(sorted(times)), sum(times))


def measure_load(runs: Sequence[Run], callers: int, seconds: float) -> list[Load]:
    """Measure each of `runs` with `callers` threads. The runs take turns, for `seconds` in total."""
    every: list[list[Load]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, found in zip(runs, every, strict=True):
            found.append(_round(run, callers, seconds / ROUNDS))
    return [
        Load(callers, tuple(sorted(t for part in parts for t in part.times)), sum(part.seconds for part in parts))
        for parts in every
    ]


def _round(run: Run, callers: int, seconds: float) -> Load:
    """Measure one turn. Raises what a run raises, after all callers have finished."""
    times: list[float] = []
    errors: list[BaseException] = []
    together = threading.Barrier(callers + 1)

    def call() -> None:
        together.wait()
        end = time.perf_counter() + seconds
        own: list[float] = []
        try:
            while not own or time.perf_counter() < end:
                begin = time.perf_counter()
                run()
                own.append(time.perf_counter() - begin)
        except BaseException as error:  # noqa: BLE001  is raised by the thread that asked
            errors.append(error)
        times.extend(own)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    together.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return Load(callers, tuple(sorted(times)), time.perf_counter() - begin)
