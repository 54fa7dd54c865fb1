"""Audit: what a model reads, and what it can cost, before anything of it runs.

    ort_lite.tools.audit.audit("model.onnx", {"batch": 8}).findings

The model's file is read, but neither its external data nor any other file that it names is opened, and no node is run.
"""

from ort_lite.tools.audit.audit import Audit, audit
from ort_lite.tools.audit.contents import FileRead, LoopBound, RegularExpression

__all__ = ["Audit", "FileRead", "LoopBound", "RegularExpression", "audit"]
