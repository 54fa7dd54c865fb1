"""A session made anew with other parameters."""

from typing import TYPE_CHECKING

from ort_lite.errors import InvalidArgument

if TYPE_CHECKING:
    from ort_lite.opening import Params
    from ort_lite.session import InferenceSession


def reloaded(session: "InferenceSession", params: "Params") -> "InferenceSession":
    """A second session as `session` was made, with `params`. Raises InvalidArgument where its source is not at hand."""
    source, arguments = session._given
    if session._explained is not None:
        raise InvalidArgument("load_params: the session is closed")
    if source is None:
        raise InvalidArgument(
            "load_params: the session was made from a buffer or file object that it has not kept; "
            "make it from a path or a Model (`ort_lite.load`), or pass params= when making it"
        )
    return type(session)(source, **arguments, params=params)
