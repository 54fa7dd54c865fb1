"""Make Python processes under `ort-lite exec` import ort_lite as onnxruntime. Their PYTHONPATH begins with this folder.

Any Python 3 may run this file, also of another environment. If it cannot import ort_lite, it keeps its own onnxruntime and
reports that in one line on import. The environment's own `sitecustomize` runs afterwards.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


class _Notice:
    """A finder that finds nothing but reports once why onnxruntime is not replaced by ort_lite."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "onnxruntime" and self.reason and sys.stderr:
            text = "ort-lite exec: {} uses its own onnxruntime, as it cannot import ort_lite: {}\n"
            sys.stderr.write(text.format(sys.executable, self.reason))
            self.reason = ""


def _switch() -> None:
    try:
        from ort_lite.compat.switch import install_as_onnxruntime
    except Exception as error:  # noqa: BLE001  an older Python may fail in any way, and has to start all the same
        sys.meta_path.insert(0, _Notice(str(error) or type(error).__name__))
    else:
        install_as_onnxruntime()


def _next() -> None:
    """Run the `sitecustomize` that this one hides, and remove this folder from `sys.path`."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules[__name__] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


try:
    _switch()
finally:
    _next()
