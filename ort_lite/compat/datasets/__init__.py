"""Example models with onnxruntime's names: `get_example("sigmoid.onnx")` returns the path of a file.

The module `ort_lite.compat.datasets.make` generates the files.
"""

import os

from ort_lite.errors import NoSuchFile


def get_example(name: str) -> str:
    """Return the absolute path of sigmoid.onnx, mul_1.onnx or logreg_iris.onnx. Raises NoSuchFile for another name."""
    folder = os.path.abspath(os.path.dirname(__file__))
    known = sorted(each for each in os.listdir(folder) if each.endswith(".onnx"))
    if name not in known:
        raise NoSuchFile(f"there is no example {name!r}; there are {', '.join(known)}")
    return os.path.join(folder, name)


__all__ = ["get_example"]
