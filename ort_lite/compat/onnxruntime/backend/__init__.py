"""ONNX's backend API as onnxruntime has it: ort_lite's own."""

from ort_lite.compat.backend import is_compatible, prepare, run, supports_device

__all__ = ["is_compatible", "prepare", "run", "supports_device"]
