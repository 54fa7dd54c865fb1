"""The default execution provider: kernels in Python, compiled with Numba, run as one native program."""

from ort_lite_cpu.provider import CPUExecutionProvider

__all__ = ["CPUExecutionProvider"]
