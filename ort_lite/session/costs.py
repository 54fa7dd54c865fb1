"""What each node of a session costs in a run, for a document of it: measured anew, or out of a trace that was written before."""

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.cost.operations import sizes_of
from ort_lite.pipeline.node_times import Profile, Span, dims_of, events_of, profile_of, recorded
from ort_lite.provider.provider import ProfileEvent
from ort_lite.record import Record
from ort_lite.view import document as page

SECONDS = 0.3
"""To measure a model, about; a long one runs three times all the same."""
_STEP = "_kernel_time"


def measured(session: Any, feeds: Mapping[str, Any]) -> dict[str, page.Cost]:
    """Of an InferenceSession that was made with `enable_profiling`, which ends. Raises what running it raises."""
    runs = recorded(partial(session.run, None, feeds), SECONDS)
    assignment = session.explain().assignment
    events = events_of(assignment)
    steps = read_trace(session.end_profiling(), session.get_profiling_start_time_ns()).steps
    size = sizes_of(dims_of(assignment.graph.inputs, feeds))
    return costs_of(profile_of(events, runs, assignment, size, steps))


def out_of_trace(path: str | os.PathLike[str], assignment: Assignment) -> dict[str, page.Cost]:
    """Of the runs in a trace that a session wrote, this package's or onnxruntime's. Raises InvalidArgument where there are none."""
    trace = read_trace(path)
    if not trace.runs:
        raise InvalidArgument(f"{os.fspath(path)}: no run is recorded in it (no event is called model_run)")
    return costs_of(profile_of(trace.kernels, trace.runs, assignment, sizes_of({}), trace.steps))


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


class Trace(Record):
    """Events of a trace: those of providers, of the steps of runs, and when runs began and ended, in nanoseconds."""

    kernels: list[ProfileEvent]
    steps: list[ProfileEvent]
    runs: list[Span]


def read_trace(path: str | os.PathLike[str], start: int = 0) -> Trace:
    """`start`: what its moments count from. Raises InvalidArgument for a file that is no trace of a session."""
    try:
        events = json.loads(Path(path).read_text(encoding="utf-8"))
        whole = [event for event in events if event.get("ph") == "X"]
        kernels = [_event(event, start) for event in whole if event["cat"] == "Kernel"]
        steps = [_event(event, start) for event in whole if event["cat"] == "Node" and event["name"].endswith(_STEP)]
        runs = [_event(event, start) for event in whole if event["name"] == "model_run"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            f"{os.fspath(path)}: it is no trace of a session, which is a JSON list of events ({error})"
        ) from error
    return Trace(kernels, steps, [(run.begin, run.end) for run in runs])


def _event(event: Mapping[str, Any], start: int) -> ProfileEvent:
    begin = start + round(event["ts"] * 1000)
    name = str(event["name"]).removesuffix(_STEP)
    return ProfileEvent(name, begin, begin + round(event["dur"] * 1000), event.get("args") or {})
