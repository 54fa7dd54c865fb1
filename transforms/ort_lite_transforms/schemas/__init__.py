"""Schemas of ONNX's and onnxruntime's operators, as text: all versions of each, read when a model needs it.

`onnx.txt` is written by `generate.py`; `onnxruntime.txt` by hand. `ort_lite.inference.schema_text` says what a line means.
"""

import os

from ort_lite.inference.schema import Schemas
from ort_lite.inference.schema_text import SchemaFile

FILES = [SchemaFile(os.path.join(os.path.dirname(__file__), name)) for name in ("onnxruntime.txt", "onnx.txt")]
"""Of two lines for one version of an operator, that of the earlier file counts."""

traits = Schemas(FILES).traits
"""(node) -> the traits of its operator."""

_VALUES = "exporters wrote the attributes of Constant-12 in models of older opsets; what they mean is plain"

TOLERATED = {
    "attributes called __...": "tools leave marks of their own on nodes; onnx takes such names for internal",
    "GroupNormalization-18": "deprecated, since its scale is one a group, but exporters wrote it, and it says what to compute",
    "Constant-1": _VALUES,
    "Constant-9": _VALUES,
    "Constant-11": _VALUES,
    "declared type of a Constant": "the tensor itself has a type; the same holds for initialisers that are no inputs",
    "declared type in a function": "a function is called with several types; what its file says is that of one call",
}
"""What onnxruntime accepts although ONNX rules it out, and so do we: lines of onnxruntime.txt in the place of ONNX's, and rules of
`ort_lite.inference.schema` and `ort_lite.graph.inline`.
"""


def operators_with(trait: str, domain: str = "") -> list[str]:
    """The operators of a domain of which a version states the trait, sorted."""
    return sorted({op_type for file in FILES for op_type in file.operators_with(trait, domain)})
