"""onnxruntime's execution providers as one of ort-lite: a partition becomes an onnxruntime session."""

from ort_lite_onnxruntime.provider import OnnxRuntimeExecutionProvider

__all__ = ["OnnxRuntimeExecutionProvider"]
