"""ONNX's backend API under onnxruntime's name."""

from ort_lite.compat.backend import is_compatible, prepare, run, supports_device

__all__ = ["is_compatible", "prepare", "run", "supports_device"]
