"""The modules of onnxruntime's native library and of its Python classes, which are the same classes here."""

from importlib import import_module
from typing import Any

_LATER = frozenset(
    {"_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state", "onnxruntime_validation"}
)
"""Attributes that are imported on first access."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'onnxruntime.capi' has no attribute {name!r}")
