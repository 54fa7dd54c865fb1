"""Where the time of a session's runs goes, by node."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.partition.cost.work import sizes_of
from ort_lite.pipeline.node_times import Profile, dims_of, events_of, profile_of, recorded
from ort_lite.session.session import InferenceSession


def profile(session: InferenceSession, feeds: Mapping[str, Any], seconds: float) -> Profile:
    """Of a session that was made with `enable_profiling`. Raises InvalidArgument where none of its providers records nodes."""
    assignment = session.explain().assignment
    spans = recorded(partial(session.run, None, feeds), seconds)
    events = events_of(assignment)
    session.discard_profile()
    if not events:
        raise InvalidArgument(
            f"none of {', '.join(assignment.providers)} records what its nodes take; --providers chooses who runs the model"
        )
    return profile_of(events, spans, assignment, sizes_of(dims_of(assignment.graph.inputs, feeds)))
