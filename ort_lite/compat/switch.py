"""The import switch: make `import onnxruntime` import ort_lite.

The served modules are the files of the folder ort_lite/compat/onnxruntime. Packages of onnxruntime's own Python code
(quantization, transformers, tools, ...) come from an installed onnxruntime, whose native library is never loaded: when they
import `onnxruntime`, they get ort_lite.

The switch is process-wide: a finder in `sys.meta_path`, installed under a lock.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING

from ort_lite.errors import Fail, OrtLiteError

if TYPE_CHECKING:
    from importlib.metadata import Distribution, DistributionFinder

NAME = "onnxruntime"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME)
"""The folder of the served modules."""
_OWN_CODE = frozenset({"quantization", "transformers", "tools"})
"""Pure Python packages that every installation of onnxruntime contains."""
_LOCK = Lock()


def install_as_onnxruntime(replace: bool = False) -> None:
    """Make `import onnxruntime` import ort_lite in the whole process. Calling it again does nothing.

    Error messages then begin as onnxruntime's do: `[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : ...`. Raises Fail if another
    onnxruntime is already imported, because its importers would keep it. With `replace`, later imports get ort_lite anyway.
    Differences are listed in docs/migrating-from-onnxruntime.md.
    """
    with _LOCK:
        other = sys.modules.get(NAME)
        file = getattr(other, "__file__", None)
        if other is not None and file != os.path.join(FOLDER, "__init__.py"):
            if not replace:
                raise Fail(
                    f"onnxruntime is imported already, from {file}, and who imported it would keep it; call "
                    f"install_as_onnxruntime() before anything imports onnxruntime, run the program by `ort-lite exec`, or call "
                    f"install_as_onnxruntime(replace=True) so that later imports get ort_lite"
                )
            for name in [name for name in sys.modules if _of_onnxruntime(name)]:
                del sys.modules[name]
        if FINDER not in sys.meta_path:
            sys.meta_path.insert(0, FINDER)
        OrtLiteError.tells_status = True


def _of_onnxruntime(name: str) -> bool:
    """Return True if a module of this name is onnxruntime or part of it."""
    return name == NAME or name.startswith(f"{NAME}.")


class Finder:
    """An import finder for onnxruntime's modules and its distribution."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of onnxruntime in ort_lite."""
        if not _of_onnxruntime(fullname):
            return None
        return _own(fullname) or _hand_over(fullname)

    def find_distributions(self, context: "DistributionFinder.Context") -> "Iterable[Distribution]":
        """Return the stand-in distribution for searches of the whole `sys.path`."""
        from ort_lite.compat.distribution import StandIn, matches_name

        return [StandIn()] if "path" not in vars(context) and matches_name(context.name) else []

    def invalidate_caches(self) -> None:
        """Do nothing: there is no cache."""


def _own(fullname: str) -> ModuleSpec | None:
    """Return the spec of a file in the folder ort_lite/compat/onnxruntime."""
    base = os.path.join(FOLDER, *fullname.split(".")[1:])
    package = os.path.join(base, "__init__.py")
    if os.path.isfile(package):
        return spec_from_file_location(fullname, package, submodule_search_locations=[base])
    return spec_from_file_location(fullname, f"{base}.py") if os.path.isfile(f"{base}.py") else None


def _hand_over(fullname: str) -> ModuleSpec | None:
    """Return the spec of a Python module in an installed onnxruntime, or None.

    Raises ModuleNotFoundError if the module would come from onnxruntime and it is not installed.
    """
    parts = fullname.split(".")
    roots = _onnxruntime_folders()
    spec = PathFinder.find_spec(fullname, [os.path.join(root, *parts[1:-1]) for root in roots]) if roots else None
    if spec is not None and (spec.origin or "").endswith(tuple(SOURCE_SUFFIXES)):
        return spec
    if not roots and parts[1] in _OWN_CODE:
        raise ModuleNotFoundError(
            f"{fullname} is onnxruntime's own Python code, which runs on ort_lite's sessions and does not come with ort-lite; "
            f"install onnxruntime beside it (pip install onnxruntime)",
            name=NAME,
        )
    return None


def _onnxruntime_folders() -> list[str]:
    """Return the folders of an installed onnxruntime without importing it."""
    for finder in sys.meta_path:
        if finder is not FINDER and hasattr(finder, "find_spec"):
            spec = finder.find_spec(NAME, None)
            if spec is not None and spec.submodule_search_locations is not None:
                return list(spec.submodule_search_locations)
    return []


FINDER = Finder()
