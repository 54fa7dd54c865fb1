"""A prepared model of ONNX's backend API."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.ort_options import RunOptions, SessionOptions
from ort_lite.errors import RuntimeException

RUN_OPTIONS = frozenset({"log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"})
"""The run options that may be passed. Options that write files or end runs are excluded."""


class OrtLiteBackendRep:
    """A session with the `run` of ONNX's backend API."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        """Run the model on a list of inputs, or on one value if it has a single input. Return the outputs.

        Keywords are the RunOptions listed in `RUN_OPTIONS`; other options raise RuntimeException and other keywords are
        ignored.
        """
        options = apply_options(RunOptions(), kwargs, RUN_OPTIONS)
        wanted = self._session.get_inputs()
        if not isinstance(inputs, list):
            if len(wanted) != 1:
                raise RuntimeException(f"the model has {len(wanted)} inputs; got one value, expected a list")
            inputs = [inputs]
        if len(inputs) < len(wanted):
            raise RuntimeException(f"the model has {len(wanted)} inputs; got {len(inputs)} values")
        feed = {each.name: value for each, value in zip(wanted, inputs, strict=False)}
        return self._session.run(None, feed, options)


Options = TypeVar("Options", SessionOptions, RunOptions)


def apply_options(options: Options, given: Mapping[str, Any], allowed: frozenset[str]) -> Options:
    """Set the allowed options. Raises RuntimeException for other attributes of the options; ignores the rest."""
    for name, value in given.items():
        if name in allowed:
            setattr(options, name, value)
        elif hasattr(options, name):
            what = f"{type(options).__name__} attribute {name!r} is not permitted via the backend API"
            raise RuntimeException(f"{what}. Allowed attributes: {', '.join(sorted(allowed))}")
    return options
