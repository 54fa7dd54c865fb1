"""The options of the run that the calling thread is in: how RunOptions reach compiled partitions and bodies.

They travel beside the calls, not as an argument, so that a CompiledPartition stays a function of its inputs, also inside whatever
wraps it. An executor sets them for the time of a run that has options; other runs pay nothing.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ort_lite.memory import locks
from ort_lite.native.checkpoint import use_check
from ort_lite.options.options import RunOptions


class StepEvents:
    """Collects what a partition of `provider` does in one step. It becomes events when the run is over, which keeps times true."""

    __slots__ = ("_kernels", "_provider")

    def __init__(self, kernels: list[tuple[Any, ...]], provider: str) -> None:
        self._kernels, self._provider = kernels, provider

    def kernel(self, name: str, begin: int, end: int, args: Mapping[str, Any], thread: int = 0) -> None:
        """Add an event of kind Kernel, before the run ends. `name` is a node's, if it is the work of one. The rest: see `Event`."""
        self._kernels.append((name, begin, end, args, self._provider, thread))  # one append, which is safe from many threads


class _Current(threading.local):
    options: RunOptions | None = None
    watch: Callable[[Any], Any] | None = None
    """In a verified run: makes, of the Executable of a body, one whose steps are watched."""
    events: StepEvents | None = None
    """In a step of a run that somebody records."""


CURRENT = _Current()


class _Recorded:
    """Counts the runs of the process that are recorded now. Where there are none, nobody need look at CURRENT.events."""

    __slots__ = ("_lock", "runs")

    def __init__(self) -> None:
        self.runs, self._lock = 0, locks.lock()

    def count(self, more: int) -> None:
        with self._lock:
            self.runs += more


RECORDED = _Recorded()


@contextmanager
def as_in(options: RunOptions | None, watch: Callable[[Any], Any] | None) -> Iterator[None]:
    """Inside, this thread is in a run with these options and this watch: how a run goes on in another thread."""
    outer = CURRENT.options, CURRENT.watch
    CURRENT.options, CURRENT.watch = options, watch
    try:
        yield
    finally:
        CURRENT.options, CURRENT.watch = outer


@contextmanager
def checked_by_run(options: RunOptions | None) -> Iterator[None]:
    """Inside, checkpoints raise once a run with these options is to end: around what a run prepares as a creation does."""
    if options is None:
        yield
        return

    def check(stage: str) -> None:
        if options.terminate:
            raise options.ended(f"while more of the session was prepared (stage: {stage or 'compile'})")

    with use_check(check):
        yield


def run_options() -> RunOptions | None:
    """The RunOptions of the run that called this thread's partition; None: it has none. 50 ns.

    A partition that computes for long looks at `.terminate` now and then and raises `.ended(where)`, or RunTerminated, or
    has its own switch set by `RunOptions.on_terminate`. A run whose time is over is told in the same way.
    """
    return CURRENT.options


def run_events() -> StepEvents | None:
    """Return where this thread's partition may report its kernels; None: nobody records the run. 50 ns.

    if (events := run_events()) is not None:
        events.kernel(node.name, begin, perf_counter_ns(), {"op_name": node.op_type}, get_native_id())
    """
    return CURRENT.events
