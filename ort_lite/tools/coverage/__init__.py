"""Coverage: how much of a collection of models a provider runs, why it does not run the rest, and what to implement next."""

from ort_lite.tools.coverage.coverage_report import CoverageGap, CoverageReport, ModelCoverage, NodeCoverage
from ort_lite.tools.coverage.coverage_runs import coverage_of

__all__ = ["CoverageGap", "CoverageReport", "ModelCoverage", "NodeCoverage", "coverage_of"]
