"""Differential debugging: compare what providers compute with what the CPU provider computes from the same inputs.

    session.run(None, feed, verify="partition")           # raises VerificationError if a partition differs
    ort_lite.verify("model.onnx", feed, providers=["X"])  # returns the whole VerificationReport

Each partition of another provider, bodies of control flow included, also runs on the CPU provider. If one differs, its first bad
node is searched for.
"""

from ort_lite.tools.verify.compare import TensorReport, Tolerance
from ort_lite.tools.verify.settings import Verification
from ort_lite.tools.verify.verification_report import Culprit, PartitionReport, VerificationReport

__all__ = ["Culprit", "PartitionReport", "TensorReport", "Tolerance", "Verification", "VerificationReport"]
