"""Reduction of a failing model to a small one that still fails.

`reduce` drops outputs, cuts the graph, inlines bodies and functions, and shrinks inputs, as long as the model still fails.
"""

from ort_lite.testing.generator.reduction.reduce import Fails, reduce

__all__ = ["Fails", "reduce"]
