"""Differential debugging: what providers compute beside what the CPU provider computes from the same inputs.

    session.run(None, feed, verify="partition")           # raises VerificationError where a partition is off
    ort_lite.verify("model.onnx", feed, providers=["X"])  # the whole VerificationReport

Each partition of another provider is run on the CPU provider as well, bodies of control flow included. Of one that is off the
first bad node is looked for.
"""

from ort_lite.tools.verify.compare import TensorReport, Tolerance
from ort_lite.tools.verify.settings import Verification
from ort_lite.tools.verify.verification_report import Culprit, PartitionReport, VerificationReport

__all__ = ["Culprit", "PartitionReport", "TensorReport", "Tolerance", "Verification", "VerificationReport"]
