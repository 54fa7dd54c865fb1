"""Turn progress lines off in Python processes under `ort-lite exec -q`, whose PYTHONPATH begins with this folder.

The `sitecustomize` of `../site`, which comes next, runs afterwards.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

try:
    from ort_lite.log.progress_line import set_default_progress

    set_default_progress(False)
except Exception:  # noqa: BLE001  an older Python, or another environment: the next sitecustomize reports it
    pass
finally:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules[__name__] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
