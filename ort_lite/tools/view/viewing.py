"""The assembly of the document for `InferenceSession.view()`."""

import os
from collections.abc import Mapping
from typing import Any

from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.execute.trace import Trace
from ort_lite.graph.model import Model
from ort_lite.load.source import ModelSource
from ort_lite.log.events import RUN
from ort_lite.log.progress_line import ProgressLine
from ort_lite.options.options import SessionOptions
from ort_lite.record import Record
from ort_lite.session.explanation import Explanation
from ort_lite.session.preparation import Arguments, load_again
from ort_lite.session.session import Session
from ort_lite.session.session_state import SessionState
from ort_lite.tools.cli.benchmark.machine_peaks import Peaks, cores, peaks
from ort_lite.tools.view.collect import Subject, collect
from ort_lite.tools.view.costs import costs_of, measure_runs, profile_of_trace
from ort_lite.tools.view.document import CostData
from ort_lite.tools.view.node_times import dims_of
from ort_lite.tools.view.trace_file import read
from ort_lite.tools.view.view_result import View

_STEPS = 3
"""Steps of a view, for the progress line."""


class Origin(Record):
    """The source that a session was created from, as far as the session kept it."""

    source: ModelSource | Model | None
    given: Arguments
    own_params: bool

    @property
    def missing(self) -> str:
        """Explain why the model cannot be loaded again, or return "" if it can."""
        if self.own_params:
            return "it has parameters that are not the model's file's"
        return "it was made from a large buffer or a file object, which it has not kept" if self.source is None else ""


def view_of(session: Session, feeds: Mapping[str, Any] | None, profile: "str | os.PathLike[str] | None") -> View:
    """Return the view of a session. It loads the model again, if possible, for stages that a session does not keep. See
    `Session.view`.
    """
    with ProgressLine("view") as line:
        return _view(session, feeds, profile, line)


def _view(
    session: Session, feeds: Mapping[str, Any] | None, profile: "str | os.PathLike[str] | None", line: ProgressLine
) -> View:
    state: SessionState = session._state
    origin = Origin(session._kept, session._arguments, session._own_params)
    line.update("loading the model", 0, _STEPS)
    explanation = state.explain(kernels=True)
    loaded, note = _reload(state, origin)
    line.update("running the model", 1, _STEPS)
    dims = dims_of(explanation.assignment.graph.inputs, feeds or {})
    trace = None if profile is None else _read(profile)
    limits = None
    if feeds is not None:
        recorded = measure_runs(session, feeds)
        if trace is None:
            trace, limits = recorded, peaks(target=state.options.config("ort_lite.target", "host"))
    line.update("collecting the stages", 2, _STEPS)
    subject = Subject(
        explanation=explanation,
        title=_title(origin, state),
        providers=state.selection.providers,
        options=state.options,
        loaded=loaded,
        fused={} if state.prepared is None else state.prepared.compiled.fused,
        notes=(note,) if note else (),
        dims=dims,
        costs={} if trace is None else _costs(trace, limits, explanation, dims, state.options),
        plans=state.memory_plans(),
        trace=trace,
    )
    return View(collect(subject))


def _costs(
    trace: Trace, limits: Peaks | None, explanation: Explanation, dims: Mapping[str, int], options: SessionOptions
) -> dict[str, CostData]:
    found = profile_of_trace(trace, explanation.assignment, dims).with_choices(explanation.kernels)
    return costs_of(found, limits, max(options.intra_op_num_threads, 0) or cores())


def _title(origin: Origin, state: SessionState) -> str:
    if isinstance(origin.source, (str, os.PathLike)):
        return os.path.basename(os.fsdecode(origin.source))
    return state.described.metadata.graph_name or "model"


def _reload(state: SessionState, origin: Origin) -> tuple[Model | None, str]:
    """Return the model before the transforms, or the reason why it is not available."""
    why = origin.missing
    if not why and origin.source is not None:
        try:
            return load_again(origin.source, state.options.copy(), origin.given), ""
        except (OrtLiteError, OSError) as error:
            why = f"its model cannot be loaded again ({error})"
    return None, f"The stages before partitioning are not known of this session: {why}."


def _read(profile: "str | os.PathLike[str]") -> Trace:
    trace = read(profile)
    if not trace.runs:
        raise InvalidArgument(f"{os.fspath(profile)}: no run is recorded in it (no event is called {RUN})")
    return trace
