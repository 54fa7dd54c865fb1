"""`ort-lite exec`: a Python program as it is, whose onnxruntime is ort_lite."""

import os
import runpy
import shutil
import sys
from argparse import Namespace

from ort_lite.compat import switch
from ort_lite.errors import OrtLiteError

SITE = os.path.join(os.path.dirname(switch.__file__), "site")
"""Before everything else on the PYTHONPATH of what the program starts."""


def main(arguments: Namespace) -> int:
    """Runs it in this process, as `python program.py ...` or `python -m module ...` would: its errors and its exit are its own."""
    given = arguments.module or arguments.program
    if not given:
        return _refused("which program? `ort-lite exec program.py arguments...` or `ort-lite exec -m module arguments...`")
    try:
        switch.install_as_onnxruntime()
    except OrtLiteError as error:
        return _refused(str(error))
    _for_children()
    name, sys.argv = given[0], list(given)
    if arguments.module:
        _first_on_path(os.getcwd())
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return 0
    file = name if os.path.exists(name) else shutil.which(name)
    if file is None:
        return _refused(f"{name} is neither a file nor a command; expected a Python program")
    file = os.path.abspath(file)
    _first_on_path(file if os.path.isdir(file) else os.path.dirname(os.path.realpath(file)))
    runpy.run_path(file, run_name="__main__")
    return 0


def _refused(why: str) -> int:
    sys.stderr.write(f"ort-lite exec: {why}\n")
    return 2


def _for_children() -> None:
    """Processes that the program starts, such as those of multiprocessing, inherit the switch with the environment."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([SITE, *(entry for entry in entries if entry not in ("", SITE))])


def _first_on_path(folder: str) -> None:
    """Python puts the program's folder there, where ort-lite's command has its own; under -P and -I neither."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
