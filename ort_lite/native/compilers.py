"""The installed compilers, Numba and llvmlite, and the switch for shortcuts through their private parts. Imports neither."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from types import ModuleType

from ort_lite import log

COMPILERS = ("llvmlite-0.50.0.dist-info", "numba-0.68.1.dist-info")
"""The versions whose objects a process without a compiler uses. With a compiler, its versions count."""
VERIFIED = {"llvmlite": "0.50", "numba": "0.68"}
"""The releases whose private parts `frontend.py`, `writing.py` and `llvm.py` rely on.

With any other release, kernels are compiled without these files, through the more stable parts that `translator.py`, `libraries.py`
and `binding.py` use.
"""


def compilers(folders: Sequence[str]) -> tuple[str, ...]:
    """Return the versions of COMPILERS that Python would import from these folders; COMPILERS unless it finds both.

    Reads the names of dist-info folders: importing numba or importlib.metadata would take longer than everything else.
    """
    found = []
    for name in COMPILERS:
        package = name.partition("-")[0]
        spec = PathFinder.find_spec(package, folders)
        if spec is None or spec.origin is None:
            return COMPILERS
        beside = os.listdir(os.path.dirname(os.path.dirname(spec.origin)))
        versions = [other for other in beside if other.startswith(package + "-") and other.endswith("-info")]
        found.append(max(versions, default=package))
    return tuple(found)


@cache
def unknown_release() -> str:
    """Return the compiler whose release is not VERIFIED, such as "numba 0.70.1"; "" if shortcuts can be used."""
    for name in compilers(tuple(sys.path)):
        package, _, version = name.removesuffix(".dist-info").partition("-")
        if not version.startswith(VERIFIED[package] + "."):
            return f"{package} {version}".rstrip()
    return ""


@cache
def warn_of_unknown_release() -> None:
    """Log a warning, once per process, if kernels have to be compiled without shortcuts."""
    if name := unknown_release():
        known = " and ".join(f"{package} {release}" for package, release in reversed(VERIFIED.items()))
        effect = "once compiled, they run as fast and stay in the cache"
        log.warn(-1, f"{name} is installed: kernels compile more slowly than with {known}; {effect}")


def llvm() -> ModuleType:
    """Return the module that calls LLVM: `llvm.py` for a verified llvmlite, else `binding.py`."""
    if unknown_release():
        from ort_lite.native import binding

        return binding
    from ort_lite.native import llvm

    return llvm
