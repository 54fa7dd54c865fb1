"""Short examples: ort_lite's own."""

from ort_lite.compat.datasets import get_example

__all__ = ["get_example"]
