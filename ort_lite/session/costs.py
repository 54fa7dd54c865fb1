"""What each node of a session costs in a run, for a document of it: measured anew, or out of a trace that was written before."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ort_lite.compile import lifecycle
from ort_lite.execute.trace import STEP, Event, Trace
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.cost.work import sizes_of
from ort_lite.pipeline.node_times import Profile, profile_of, recorded
from ort_lite.provider.provider import ProfileEvent
from ort_lite.view import document as page

SECONDS = 0.3
"""To measure a model, about; a long one runs three times all the same."""


def measured(session: Any, feeds: Mapping[str, Any]) -> Trace:
    """Of an InferenceSession that was made with `enable_profiling`, whose providers end theirs. Raises what running it raises."""
    recorded(partial(session.run, None, feeds), SECONDS)
    lifecycle.collect_events(session._state.selection.providers, session._profiler)
    trace: Trace = session._profiler.trace()
    session._profiler.discard()
    return trace


def costs_of_trace(trace: Trace, assignment: Assignment, dims: Mapping[str, int]) -> dict[str, page.Cost]:
    """Of its runs. `dims` are sizes of free dimensions, as far as they are known."""
    runs = [(run.begin, run.end) for run in trace.runs]
    if not runs:
        return {}
    kernels = [_event(event) for event in trace.events if event.category == "Kernel"]
    steps = [_event(event) for event in trace.events if event.category in ("Step", "Node")]
    return costs_of(profile_of(kernels, runs, assignment, sizes_of(dims), steps))


def _event(event: Event) -> ProfileEvent:
    return ProfileEvent(event.name.removesuffix(STEP), event.begin, event.end, event.args)


def costs_of(profile: Profile) -> dict[str, page.Cost]:
    """By node. Nodes that were run as one have equal parts."""
    costs: dict[str, page.Cost] = {}
    for line in profile.lines:
        count = len(line.nodes)
        for name in line.nodes:
            cost: page.Cost = {
                "microseconds": round(line.seconds * 1e6 / count, 3),
                "share": round(line.share / count, 6),
                "shared": count,
                "bytes": round(line.nbytes / count),
            }
            if line.operations is not None:
                cost["flops"] = round(line.operations / count)
            costs[name] = cost
    return costs
