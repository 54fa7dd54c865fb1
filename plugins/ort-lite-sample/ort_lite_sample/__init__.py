"""A sample execution provider: chains of float32 operators in a memory of its own."""

from ort_lite_sample.provider import SampleExecutionProvider

__all__ = ["SampleExecutionProvider"]
