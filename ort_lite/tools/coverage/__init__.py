"""Coverage: how much of a collection of models a provider runs, why it does not run the rest, and what to implement next."""

from ort_lite.tools.coverage.coverage import Coverage, ModelCoverage, NodeCoverage, Ranked
from ort_lite.tools.coverage.measure import coverage_of

__all__ = ["Coverage", "ModelCoverage", "NodeCoverage", "Ranked", "coverage_of"]
