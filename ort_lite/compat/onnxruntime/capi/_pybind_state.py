"""The module through which onnxruntime's Python code imports its native library."""

from typing import Any

from ort_lite.compat.onnxruntime.capi import onnxruntime_pybind11_state as _state

__all__ = _state.__all__


def __getattr__(name: str) -> Any:
    return getattr(_state, name)
