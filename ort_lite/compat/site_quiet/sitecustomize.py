"""Turn progress lines off in Python processes under `ort-lite exec -q`, whose PYTHONPATH begins with this folder.

The `sitecustomize` of `../site`, which comes next, runs afterwards.
"""

import os
import sys
from runpy import run_path

try:
    from ort_lite.log.progress_line import set_default_progress

    set_default_progress(False)
except Exception:  # noqa: BLE001  an older Python, or another environment: the next sitecustomize reports it
    pass
finally:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    run_path(os.path.join(os.path.dirname(here), "site", "sitecustomize.py"), run_name=__name__)
