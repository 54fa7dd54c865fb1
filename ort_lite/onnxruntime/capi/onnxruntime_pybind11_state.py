"""onnxruntime's native library by its names: here they are ort_lite's own classes, functions and errors.

The classes that onnxruntime has twice, natively and around that in Python (InferenceSession, OrtValue, IOBinding, ...), are the
outer ones.
"""

from typing import Any

import ort_lite
from ort_lite import errors
from ort_lite.compat.release import SERVED

_ERRORS = (
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "RuntimeException",
)


def get_version_string() -> str:
    """The release that is followed, and ort-lite's own behind it."""
    return SERVED


def get_default_session_options() -> ort_lite.SessionOptions:
    """Options that nobody changed yet."""
    return ort_lite.SessionOptions()


def __getattr__(name: str) -> Any:
    if name not in _ERRORS and name not in ort_lite.__all__:
        raise AttributeError(
            f"module 'onnxruntime.capi.onnxruntime_pybind11_state', which is ort-lite's, has no attribute {name!r}"
        )
    found = globals()[name] = getattr(errors if name in _ERRORS else ort_lite, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ERRORS, *ort_lite.__all__})


__all__ = [name for name in __dir__() if not name.startswith("_")]
