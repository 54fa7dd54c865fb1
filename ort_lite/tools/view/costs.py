"""The cost of each node in a run, measured now or read from an earlier trace."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import get_native_id
from typing import Any

from ort_lite.compile import lifecycle
from ort_lite.execute.profiling import Recording
from ort_lite.execute.trace import STEP, Trace
from ort_lite.log.events import RUN, Stream
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.cost.work import sizes_of
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.tools.cli.benchmark.machine_peaks import Peaks
from ort_lite.tools.view import document as page
from ort_lite.tools.view.node_times import Profile, profile_of, repeat

SECONDS = 0.3
"""To measure a model, about; a long one runs three times all the same."""


@contextmanager
def recording(providers: Sequence[ExecutionProvider], stream: Stream) -> Iterator[Recording]:
    """Record the events of a session inside the block. The record is complete after the block."""
    found = Recording()
    with stream.lock:
        if not stream.subscribers:
            lifecycle.start_profiling(providers)
        stream.subscribe(found)
    try:
        yield found
    finally:
        with stream.lock:
            try:
                lifecycle.collect_events(providers, stream)
            finally:
                stream.unsubscribe(found)
            if stream.subscribers:
                lifecycle.start_profiling(providers)


def measure_runs(session: Any, feeds: Mapping[str, Any], seconds: float = SECONDS) -> Trace:
    """Run an InferenceSession for `seconds` and return the trace of those runs. Raises what running it raises."""
    with recording(session._state.selection.providers, session._events) as found:
        repeat(partial(session.run, None, feeds), seconds)
    trace, thread = found.trace(), get_native_id()
    return trace.replace(events=tuple(event for event in trace.events if event.name != RUN or event.thread == thread))


def profile_of_trace(trace: Trace, assignment: Assignment, dims: Mapping[str, int]) -> Profile:
    """Return the profile of the runs of a trace. `dims` are the known sizes of free dimensions."""
    runs = [(run.begin, run.end) for run in trace.runs]
    if not runs:
        return Profile((), 0.0, 0)
    kernels = [event for event in trace.events if event.kind == "Kernel"]
    steps = [e.replace(name=e.name.removesuffix(STEP)) for e in trace.events if e.kind in ("Step", "Node")]
    return profile_of(kernels, runs, assignment, sizes_of(dims), steps)


def costs_of(profile: Profile, limits: Peaks | None, threads: int) -> dict[str, page.CostData]:
    """Return the cost by node. Nodes that ran as one have equal shares. `limits` are the peaks of the machine that ran them."""
    costs: dict[str, page.CostData] = {}
    for line in profile.lines:
        count = len(line.nodes)
        for name in line.nodes:
            cost: page.CostData = {
                "microseconds": round(line.seconds * 1e6 / count, 3),
                "share": round(line.share / count, 6),
                "shared": count,
                "bytes": round(line.nbytes / count),
            }
            if line.operations is not None:
                cost["flops"] = round(line.operations / count)
            if limits is not None:
                reached, cost["limit"] = limits.share(line, threads)
                cost["of_peak"] = round(reached, 4)
            costs[name] = cost
    return costs
