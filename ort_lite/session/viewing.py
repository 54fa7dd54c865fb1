"""What `InferenceSession.view()` puts together for a document of the session."""

from typing import TYPE_CHECKING

from ort_lite.errors import OrtLiteError
from ort_lite.graph.model import Model
from ort_lite.pipeline.preparation import load_again
from ort_lite.view.collect import Subject, collect
from ort_lite.view.view import View

if TYPE_CHECKING:
    from ort_lite.session.session import InferenceSession


def view_of(session: "InferenceSession") -> View:
    """Loads the model again where its source is still there, for the stages that a session keeps nothing of."""
    state = session._state
    loaded, notes = _loaded(session)
    fused = {} if state.prepared is None else state.prepared.compiled.fused
    title = session.get_modelmeta().graph_name or "model"
    providers = state.selection.providers
    return View(collect(Subject(session.explain(), title, providers, state.options, loaded, fused, notes)))


def _loaded(session: "InferenceSession") -> tuple[Model | None, tuple[str, ...]]:
    """The model before the transforms, or why it is not there."""
    if session._kept is None or session._own_params:
        why = (
            "its parameters were given apart"
            if session._own_params
            else "the session was made from a large buffer or a file object"
        )
        return None, (f"The stages before partitioning are not shown: {why}.",)
    try:
        return load_again(session._kept, session._state.options.copy(), session._arguments), ()
    except (OrtLiteError, OSError) as error:
        return None, (f"The stages before partitioning are not shown: the model cannot be loaded again ({error}).",)
