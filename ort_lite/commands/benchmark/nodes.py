"""Where the time of a session's runs goes, by node."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ort_lite.compile.lifecycle import recording
from ort_lite.errors import InvalidArgument
from ort_lite.partition.cost.work import sizes_of
from ort_lite.pipeline.node_times import Profile, dims_of, profile_of, recorded
from ort_lite.session.session import InferenceSession


def profile(session: InferenceSession, feeds: Mapping[str, Any], seconds: float) -> Profile:
    """Run a session for so long, and add up its Kernel events. Raises InvalidArgument where none of its providers emits any."""
    assignment = session.explain().assignment
    with recording(session._state.selection.providers, session._events) as found:
        spans = recorded(partial(session.run, None, feeds), seconds)
    events = [event for event in found.events if event.kind == "Kernel"]
    if not events:
        raise InvalidArgument(
            f"none of {', '.join(assignment.providers)} records what its nodes take; --providers chooses who runs the model"
        )
    return profile_of(events, spans, assignment, sizes_of(dims_of(assignment.graph.inputs, feeds)))
