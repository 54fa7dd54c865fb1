"""An execution provider that turns partitions into XLA executables. JAX is imported when a provider is created."""

from ort_lite_xla.provider import XLAExecutionProvider

__all__ = ["XLAExecutionProvider"]
