"""A model that is ready, as ONNX's backend API has it."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.options import RunOptions, SessionOptions
from ort_lite.errors import RuntimeException

RUN_OPTIONS = frozenset({"log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"})
"""Those that may be given; what writes files or ends runs may not."""


class OrtLiteBackendRep:
    """A session behind `run`."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        """The outputs for a list of inputs, or for the one input of a model that has no more.

        Keywords are RunOptions of `RUN_OPTIONS`; other options raise RuntimeException, a RuntimeError, other keywords are passed over.
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
    """Sets what is allowed. Raises RuntimeException for other attributes of the options; passes over what is none."""
    for name, value in given.items():
        if name in allowed:
            setattr(options, name, value)
        elif hasattr(options, name):
            what = f"{type(options).__name__} attribute {name!r} is not permitted via the backend API"
            raise RuntimeException(f"{what}. Allowed attributes: {', '.join(sorted(allowed))}")
    return options
