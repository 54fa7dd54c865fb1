"""Session options in a model's metadata: the entry `ort_config`, which onnxruntime reads on request.

{"session_options": {"intra_op_num_threads": 2, "graph_optimization_level": 99, "enable_profiling": 1}}
"""

import json
from typing import Any

from ort_lite import log
from ort_lite.errors import InvalidArgument
from ort_lite.graph.model import Model
from ort_lite.load.load import load
from ort_lite.load.source import ModelSource
from ort_lite.options.options import ExecutionMode, GraphOptimizationLevel, SessionOptions

KEY = "ort_config"
_KINDS: dict[str, Any] = {
    "intra_op_num_threads": range(2**31),
    "inter_op_num_threads": range(2**31),
    "execution_mode": ExecutionMode,
    "graph_optimization_level": GraphOptimizationLevel,
    "enable_profiling": range(2),
}


def apply_model_config(options: SessionOptions, model: ModelSource | Model) -> None:
    """Set the options that the model states; they win over those of the program, as in onnxruntime. O(size of the file).

    Raises InvalidArgument for text that is no JSON, and for a value that an option cannot have.
    """
    read = model if isinstance(model, Model) else load(model, load_external_data=False)
    text = read.metadata_props.get(KEY)
    if text is None:
        return
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"metadata entry {KEY!r} of the model cannot be parsed: {error}; expected JSON") from error
    stated = found.get("session_options", {}) if isinstance(found, dict) else {}
    for name, value in stated.items():
        if name in _KINDS:
            setattr(options, name, _value(name, value))
        else:
            log.info(options, f"metadata entry {KEY!r} of the model: option {name!r} is ignored")


def _value(name: str, value: Any) -> Any:
    allowed = _KINDS[name]
    try:
        if type(value) is not int:
            raise ValueError
        if isinstance(allowed, range):
            if value not in allowed:
                raise ValueError
            return bool(value) if name == "enable_profiling" else value
        return allowed(value)
    except ValueError:
        text = f"metadata entry {KEY!r} of the model: {name} is {value!r}; expected a number that the option can have"
        raise InvalidArgument(text) from None
