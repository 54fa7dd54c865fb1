"""An ONNX runtime in which an accelerator is a Python package, with onnxruntime's Python interface.

Names are imported when they are first used: `import ort_lite` alone loads nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ort_lite._version import __version__

if TYPE_CHECKING:
    from ort_lite.api import (
        disable_telemetry_events,
        enable_telemetry_events,
        get_device,
        get_version_string,
    )
    from ort_lite.explanation import Explanation
    from ort_lite.log import set_default_logger_severity, set_default_logger_verbosity
    from ort_lite.metadata import ModelMetadata, NodeArg
    from ort_lite.options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
    from ort_lite.plugins import available_providers as get_available_providers
    from ort_lite.plugins import register_plugin, register_provider
    from ort_lite.selection import get_all_providers
    from ort_lite.session import InferenceSession

_HOME = {
    "ExecutionMode": "options",
    "ExecutionOrder": "options",
    "Explanation": "explanation",
    "GraphOptimizationLevel": "options",
    "InferenceSession": "session",
    "ModelMetadata": "metadata",
    "NodeArg": "metadata",
    "RunOptions": "options",
    "SessionOptions": "options",
    "disable_telemetry_events": "api",
    "enable_telemetry_events": "api",
    "get_all_providers": "selection",
    "get_available_providers": "plugins:available_providers",
    "get_device": "api",
    "get_version_string": "api",
    "register_plugin": "plugins",
    "register_provider": "plugins",
    "set_default_logger_severity": "log",
    "set_default_logger_verbosity": "log",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'ort_lite' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    found = globals()[name] = getattr(import_module(f"ort_lite.{module}"), attribute or name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


__all__ = [
    "ExecutionMode", "ExecutionOrder", "Explanation", "GraphOptimizationLevel", "InferenceSession", "ModelMetadata",
    "NodeArg", "RunOptions", "SessionOptions", "__version__", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_device", "get_version_string", "register_plugin",
    "register_provider", "set_default_logger_severity", "set_default_logger_verbosity",
]  # fmt: skip
