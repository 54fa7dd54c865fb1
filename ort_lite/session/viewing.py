"""What `InferenceSession.view()` puts together for a document of the session."""

import os
from collections.abc import Mapping
from typing import Any

from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.execute.trace import RUN, Trace, read
from ort_lite.graph.model import Model
from ort_lite.pipeline.node_times import dims_of
from ort_lite.pipeline.preparation import Arguments, load_again
from ort_lite.record import Record
from ort_lite.serialization.source import ModelSource
from ort_lite.session.costs import costs_of_trace, measured
from ort_lite.session.pickling import made_again, parts
from ort_lite.session.session_state import SessionState
from ort_lite.view.collect import Subject, collect
from ort_lite.view.view import View


class Origin(Record):
    """What a session was made from, as far as it has kept that."""

    kind: type[Any]
    source: ModelSource | Model | None
    given: Arguments
    own_params: bool

    @property
    def missing(self) -> str:
        """Why the session cannot be made from it again; "" where it can."""
        if self.own_params:
            return "it has parameters that are not the model's file's"
        return "it was made from a large buffer or a file object, which it has not kept" if self.source is None else ""


def view_of(
    state: SessionState, origin: Origin, feeds: Mapping[str, Any] | None, profile: "str | os.PathLike[str] | None"
) -> View:
    """Loads the model again where it is still there, for the stages that a session keeps nothing of. See `InferenceSession.view`."""
    explanation, graph = state.explain(), state.explain().assignment.graph
    loaded, note = _loaded(state, origin)
    dims = dims_of(graph.inputs, feeds or {})
    trace, plans = _recorded(state, origin, feeds, profile)
    subject = Subject(
        explanation=explanation,
        title=_title(origin, state),
        providers=state.selection.providers,
        options=state.options,
        loaded=loaded,
        fused={} if state.prepared is None else state.prepared.compiled.fused,
        notes=(note,) if note else (),
        dims=dims,
        costs={} if trace is None else costs_of_trace(trace, explanation.assignment, dims),
        plans=plans,
        trace=trace,
    )
    return View(collect(subject))


def _title(origin: Origin, state: SessionState) -> str:
    if isinstance(origin.source, (str, os.PathLike)):
        return os.path.basename(os.fsdecode(origin.source))
    return state.metadata.graph_name or "model"


def _loaded(state: SessionState, origin: Origin) -> tuple[Model | None, str]:
    """The model before the transforms, or why it is not there."""
    why = origin.missing
    if not why and origin.source is not None:
        try:
            return load_again(origin.source, state.options.copy(), origin.given), ""
        except (OrtLiteError, OSError) as error:
            why = f"its model cannot be loaded again ({error})"
    return None, f"The stages before partitioning are not known of this session: {why}."


def _recorded(
    state: SessionState, origin: Origin, feeds: Mapping[str, Any] | None, profile: "str | os.PathLike[str] | None"
) -> tuple[Trace | None, Mapping[str, Any]]:
    """What runs did, and the memory plans that there are then."""
    trace = None if profile is None else _read(profile)
    if feeds is None:
        return trace, state.memory_plans()
    with _second(state, origin) as session:
        again = measured(session, feeds)
        return trace or again, session.memory_plans()


def _read(profile: "str | os.PathLike[str]") -> Trace:
    trace = read(profile)
    if not trace.runs:
        raise InvalidArgument(f"{os.fspath(profile)}: no run is recorded in it (no event is called {RUN})")
    return trace


def _second(state: SessionState, origin: Origin) -> Any:
    """A session made as this one is, which records what nodes take."""
    if origin.missing:
        raise InvalidArgument(f"view(feeds=...) needs a second session made as this one: {origin.missing}; make it from a path")
    kind, source, options, given = parts(origin.kind, origin.source, state.options, origin.given, origin.own_params)
    options.enable_profiling, options.optimized_model_filepath = True, ""
    return made_again(kind, source, options, given)
