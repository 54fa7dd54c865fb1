"""Run times of several sessions that take turns in one process.

Runs come in blocks, so that each session finds its own data in the caches. A pause before each block lets the threads of the
previous one stop spinning. The time of a block is its median, and the time of a session is its fastest block, because other work on
the machine can only add time.
"""

import math
import time
from collections.abc import Callable, Mapping
from itertools import chain
from statistics import median
from typing import Any, NamedTuple

Run = Callable[[], Any]
Clock = Callable[[], float]

BLOCK = 0.02
"""Seconds that the timed runs of a block take at least."""
PAUSE = 0.04
"""Seconds before a block: threads of onnxruntime that have nothing to do spin for about 0.03."""
FEWEST = 3
"""Runs of a block, and of the warm-up, at least."""


class RunTimes(NamedTuple):
    """The seconds of a session's timed runs, and the smallest median of a block."""

    quietest: float
    seconds: tuple[float, ...]


def time_blocks(
    runs: Mapping[str, Run], seconds: float, clock: Clock = time.perf_counter, sleep: Callable[[float], Any] = time.sleep
) -> dict[str, RunTimes]:
    """Return the times of each session, of at least one block. Each round reverses the order."""
    counts = {name: _count(run, clock) for name, run in runs.items()}
    blocks: dict[str, list[list[float]]] = {name: [] for name in runs}
    order, end = list(runs), clock() + seconds
    while True:
        for name in order:
            sleep(PAUSE)
            blocks[name].append(_block(runs[name], counts[name], clock))
        order.reverse()
        if clock() >= end:
            return {name: RunTimes(min(map(median, found)), tuple(chain(*found))) for name, found in blocks.items()}


def _count(run: Run, clock: Clock) -> int:
    """Return the number of runs in a block. The first run is not counted, because it compiles, binds and touches memory."""
    run()
    shortest = min(_time(run, clock) for _ in range(FEWEST))
    return max(FEWEST, math.ceil(BLOCK / shortest)) if shortest > 0 else FEWEST


def _block(run: Run, count: int, clock: Clock) -> list[float]:
    run()  # wakes threads and fills caches
    return [_time(run, clock) for _ in range(count)]


def _time(run: Run, clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start
