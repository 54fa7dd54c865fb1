"""The backend class under onnxruntime's name."""

from ort_lite.compat.backend import is_compatible, prepare, run, supports_device
from ort_lite.compat.backend.backend import OrtLiteBackend as OnnxRuntimeBackend

__all__ = ["OnnxRuntimeBackend", "is_compatible", "prepare", "run", "supports_device"]
