"""The run that the calling thread is in: how RunOptions reach compiled partitions and bodies.

They are thread-local, not an argument, so that a CompiledPartition stays a function of its inputs, even when it is wrapped. An
executor sets them during a run that has options; other runs pay nothing.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ort_lite.memory import locks
from ort_lite.native.checkpoint import use_check
from ort_lite.options.options import RunOptions


class StepEvents:
    """A collector of events in one step of a provider. They are emitted after the run, which keeps times accurate."""

    __slots__ = ("_kernels", "_provider")

    def __init__(self, kernels: list[tuple[Any, ...]], provider: str) -> None:
        self._kernels, self._provider = kernels, provider

    def kernel(self, name: str, begin: int, end: int, args: Mapping[str, Any], thread: int = 0) -> None:
        """Add a Kernel event before the run ends.

        `name` is the node's name if the kernel computes one node. See `Event` for the other arguments.
        """
        self._kernels.append((name, begin, end, args, self._provider, thread))  # a single append is thread-safe


class _RunContext(threading.local):
    options: RunOptions | None = None
    watch: Callable[[Any], Any] | None = None
    """In a verified run: a function that wraps the Executable of a body so that its steps are watched."""
    events: StepEvents | None = None
    """The collector of the current step, if the run is recorded."""
    work: Any = None
    """The work on devices that the run has started (`ort_lite.execute.waiting.DeviceWork`), if it waits for it at its end."""
    early: Any = None
    """The same of the run that is about to begin on this thread, if it returns before the devices have finished."""


CURRENT = _RunContext()


class _Recorded:
    """A counter of the recorded runs in the process. While it is 0, CURRENT.events need not be checked."""

    __slots__ = ("_lock", "runs")

    def __init__(self) -> None:
        self.runs, self._lock = 0, locks.lock()

    def count(self, more: int) -> None:
        with self._lock:
            self.runs += more


RECORDED = _Recorded()


@contextmanager
def as_in(options: RunOptions | None, watch: Callable[[Any], Any] | None, work: Any = None) -> Iterator[None]:
    """Let this thread continue a run: sets its options, its watch and its work on devices inside the block."""
    outer = CURRENT.options, CURRENT.watch, CURRENT.work
    CURRENT.options, CURRENT.watch, CURRENT.work = options, watch, work
    try:
        yield
    finally:
        CURRENT.options, CURRENT.watch, CURRENT.work = outer


@contextmanager
def stop_with_run(options: RunOptions | None) -> Iterator[None]:
    """Let checkpoints inside the block raise when a run with these options must end.

    Used around work that a run does as session creation does.
    """
    if options is None:
        yield
        return

    def check(stage: str) -> None:
        if options.terminate:
            raise options.termination(f"while more of the session was prepared (stage: {stage or 'compile'})")

    with use_check(check):
        yield


def run_options() -> RunOptions | None:
    """Return the RunOptions of the run in this thread; None if it has none. 50 ns.

    A long computation should check `.terminate` now and then and raise `.termination(where)` or RunTerminated, or register a switch
    with `RunOptions.on_terminate`. A timeout sets `terminate` as well.
    """
    return CURRENT.options


def run_events() -> StepEvents | None:
    """Return the event collector of the current step; None if the run is not recorded. 50 ns.

    if (events := run_events()) is not None:
        events.kernel(node.name, begin, perf_counter_ns(), {"op_name": node.op_type}, get_native_id())
    """
    return CURRENT.events
