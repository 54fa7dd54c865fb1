"""ONNX's backend API with onnxruntime's behavior: `prepare(model).run(inputs)`. Needs the onnx package."""

from ort_lite.compat.backend.backend import OrtLiteBackend
from ort_lite.compat.backend.backend_rep import OrtLiteBackendRep

is_compatible = OrtLiteBackend.is_compatible
prepare = OrtLiteBackend.prepare
run = OrtLiteBackend.run_model
supports_device = OrtLiteBackend.supports_device

__all__ = ["OrtLiteBackend", "OrtLiteBackendRep", "is_compatible", "prepare", "run", "supports_device"]
