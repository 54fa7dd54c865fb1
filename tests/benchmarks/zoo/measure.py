"""Compare a model with other runtimes: first the results, then times of processes that take turns, as `make compare` does."""

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import ceil
from pathlib import Path

from ort_lite.record import Record
from tests.benchmarks.compare.measure import BLOCK, take_turns
from tests.benchmarks.compare.processes import Failed, Program, Worker, workers
from tests.benchmarks.compare.sides import ROOT
from tests.benchmarks.zoo.agreement import Outputs, difference, load_outputs

OURS, REFERENCE, CONTROL = "ort_lite", "onnxruntime", "control"
FEWEST = 4
"""Turns at least: each of four processes comes first once."""


class Sizes(Record):
    """A model on disk, its feeds, and how far results may be apart, as a share of the largest element."""

    model: Path
    feeds: Path
    others: Path | None
    """Feeds of other sizes, where the model has free dimensions."""
    tolerance: float


class Measured(Record):
    """Times of a run in seconds by runtime, of those that run the model. `wrong` says how results differ from onnxruntime's."""

    times: Mapping[str, float]
    wrong: Mapping[str, str]
    failed: Mapping[str, str]
    roofline: float | None = None

    @property
    def noise(self) -> float | None:
        """Return the time of onnxruntime divided by that of its control."""
        control = self.times.get(CONTROL)
        return self.times[REFERENCE] / control if control else None


class Pool:
    """A process of each runtime, and a second one of onnxruntime as the control."""

    def __init__(self, rivals: Sequence[str], threads: int) -> None:
        self.threads, self._stack = threads, ExitStack()
        runtimes = {OURS: OURS, REFERENCE: REFERENCE, CONTROL: REFERENCE} | {name: name for name in rivals}
        found = self._stack.enter_context(workers([_program(name) for name in runtimes.values()], threads))
        self.by_name = dict(zip(runtimes, found, strict=True))

    def versions(self) -> dict[str, str]:
        """Return the version of each runtime. Raises Failed for one that is not installed."""
        return {name: worker.ask({"version": ""})["version"] for name, worker in self.by_name.items()}

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _program(runtime: str) -> Program:
    """Return the program of a runtime, in this environment. Libraries' own thread pools are as large as this process's."""
    paths = os.pathsep.join(path for path in [str(ROOT), os.environ.get("PYTHONPATH", "")] if path)
    return Program([sys.executable, "-m", "tests.benchmarks.zoo.worker", runtime], {**os.environ, "PYTHONPATH": paths})


def measure(pool: Pool, sizes: Sizes, seconds: float) -> Measured:
    """Measure one model. A runtime that cannot run it is left out. Raises Failed if ort-lite or onnxruntime cannot."""
    opened, failed = _open(pool, sizes)
    wrong = _differences(opened, sizes)
    longest = max(seconds for _, seconds in opened.values())
    count, end, turn = max(1, ceil(BLOCK / longest)), time.monotonic() + seconds, 0
    samples: list[list[float]] = [[] for _ in opened]
    while turn < FEWEST or time.monotonic() < end:
        take_turns([worker for worker, _ in opened.values()], turn, count, samples)
        turn += 1
    times = {name: min(found) for name, found in zip(opened, samples, strict=True)}
    bound = float(pool.by_name[OURS].ask({"work": pool.threads})["seconds"])
    return Measured(times, wrong, failed, bound)


def _open(pool: Pool, sizes: Sizes) -> tuple[dict[str, tuple[Worker, float]], dict[str, str]]:
    """Open a session in each process, and return the seconds of a run by runtime, and what failed."""
    opened, failed = {}, {}
    for name, worker in pool.by_name.items():
        try:
            opened[name] = worker, worker.open(sizes.model, sizes.feeds, pool.threads)
        except Failed as error:
            if name in (OURS, REFERENCE, CONTROL):
                raise Failed(f"{name}: {error}") from error
            failed[name] = str(error)
    return opened, failed


def _differences(opened: Mapping[str, tuple[Worker, float]], sizes: Sizes) -> dict[str, str]:
    """Say for each runtime how its results differ from onnxruntime's: for the feeds, for other sizes, and for the feeds again.

    The tolerance is at least four times what optimizations change in onnxruntime. A runtime that cannot run other sizes is wrong.
    """
    reference, distances, wrong = opened[REFERENCE][0], {}, {}
    feeds = [sizes.feeds, sizes.others, sizes.feeds] if sizes.others else [sizes.feeds]
    expected = [_outputs(reference, "outputs", path) for path in feeds]
    for name in opened.keys() - {REFERENCE, CONTROL}:
        try:
            found = [_outputs(opened[name][0], "outputs", path) for path in feeds]
        except Failed as error:
            wrong[name] = str(error)
            continue
        distances[name] = max(map(difference, found, expected))
    tolerance = sizes.tolerance
    if max(distances.values(), default=0.0) > tolerance:
        tolerance = max(tolerance, 4 * difference(_outputs(reference, "plain", sizes.feeds), expected[0]))
    far = {name: distance for name, distance in distances.items() if distance > tolerance}
    return wrong | {name: f"{found:.2g} of the largest element, more than {tolerance:.2g}" for name, found in far.items()}


def _outputs(worker: Worker, command: str, feeds: Path) -> Outputs:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "outputs.npz")
        worker.ask({command: str(feeds), "to": str(file)})
        return load_outputs(file)
