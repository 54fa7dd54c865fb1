"""Short examples: ort_lite's own."""

from ort_lite.datasets import get_example

__all__ = ["get_example"]
