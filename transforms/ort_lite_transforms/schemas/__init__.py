"""What ONNX and onnxruntime say of their operators, as text: all versions of each, read when a model needs it.

`onnx.txt` is written by `generate.py`; `onnxruntime.txt` by hand. `ort_lite.schema_text` says what a line means.
"""

import os

from ort_lite.schema import SchemaFile

FILES = [SchemaFile(os.path.join(os.path.dirname(__file__), name)) for name in ("onnxruntime.txt", "onnx.txt")]
"""Of two lines for one version of an operator, that of the earlier file counts."""
