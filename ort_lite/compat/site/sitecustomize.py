"""Turns the switch in every Python that a program under `ort-lite exec` starts: its PYTHONPATH begins with this folder.

What another `sitecustomize` of that Python would have done is done after it. A Python that has no ort_lite keeps its onnxruntime.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec


def _next() -> None:
    """Runs the `sitecustomize` that this one hides; its folder leaves the path, as nothing else is in it."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules[__name__] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


if find_spec("ort_lite") is not None:
    from ort_lite.compat.switch import install_as_onnxruntime

    install_as_onnxruntime()
_next()
