"""The modules of onnxruntime's native library, and of the Python classes around it, which here are one and the same classes."""

from importlib import import_module
from typing import Any

_LATER = frozenset(
    {"_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state", "onnxruntime_validation"}
)
"""Attributes of `onnxruntime.capi` once onnxruntime is imported."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'onnxruntime.capi' has no attribute {name!r}")
