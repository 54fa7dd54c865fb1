"""A complete execution provider for an accelerator, to copy from. NumPy stands in for the card's kernels; the rest is real."""

from ort_lite_accelerator.provider import AcceleratorExecutionProvider

__all__ = ["AcceleratorExecutionProvider"]
