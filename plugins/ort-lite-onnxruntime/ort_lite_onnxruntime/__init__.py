"""onnxruntime's execution providers as an execution provider for ort-lite. Each partition becomes an onnxruntime session."""

from ort_lite_onnxruntime.provider import OnnxRuntimeExecutionProvider

__all__ = ["OnnxRuntimeExecutionProvider"]
