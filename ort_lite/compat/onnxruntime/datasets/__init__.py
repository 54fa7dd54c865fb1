"""The example models of ort_lite under onnxruntime's name."""

from ort_lite.compat.datasets import get_example

__all__ = ["get_example"]
