"""The run time of a session, node by node."""

from collections.abc import Mapping
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.errors import InvalidArgument
from ort_lite.partition.cost.work import sizes_of
from ort_lite.tools.view.costs import measure_runs
from ort_lite.tools.view.node_times import Profile, dims_of, profile_of


def profile(session: InferenceSession, feeds: Mapping[str, Any], seconds: float) -> Profile:
    """Run a session for `seconds` and add up its Kernel events. Raises InvalidArgument if no provider emits any."""
    assignment = session.explain().assignment
    trace = measure_runs(session, feeds, seconds)
    events = [event for event in trace.events if event.kind == "Kernel"]
    runs = [(run.begin, run.end) for run in trace.runs[1:]]  # the first one plans
    if not events:
        raise InvalidArgument(
            f"none of {', '.join(assignment.providers)} records what its nodes take; --providers chooses who runs the model"
        )
    sizes = sizes_of(dims_of(assignment.graph.inputs, feeds))
    return profile_of(events, runs, assignment, sizes).with_choices(session.explain(kernels=True).kernels)
