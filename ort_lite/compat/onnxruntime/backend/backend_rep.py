"""The class of prepared models under onnxruntime's name."""

from ort_lite.compat.backend.backend_rep import OrtLiteBackendRep as OnnxRuntimeBackendRep

__all__ = ["OnnxRuntimeBackendRep"]
