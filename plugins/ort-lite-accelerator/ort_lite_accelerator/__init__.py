"""A complete accelerator, to copy from: NumPy stands for the card's kernels, everything else is as a real one has it."""

from ort_lite_accelerator.provider import AcceleratorExecutionProvider

__all__ = ["AcceleratorExecutionProvider"]
