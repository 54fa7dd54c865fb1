"""A sample execution provider, which runs chains of float32 operators in its own memory."""

from ort_lite_sample.provider import SampleExecutionProvider

__all__ = ["SampleExecutionProvider"]
