"""Find installed packages that bring execution providers for onnxruntime.

Such a package has no entry point. Its top-level module has `get_library_path()`, and `get_ep_names()` or `get_ep_name()`. The
metadata and the source of a module are read first, so that only modules with these functions are imported.
"""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ort_lite.errors import format_error
from ort_lite.record import Record

_MANY, _ONE = "get_ep_names", "get_ep_name"


class Wheel(Record):
    """An installed package: the names of its execution providers, and the path of its shared library."""

    names: tuple[str, ...]
    library: str


def find_wheels(folders: Iterable[str] | None = None) -> list[Wheel]:
    """Return the packages of the folders, those of `sys.path` by default. O(distributions).

    A package that cannot be imported costs a warning.
    """
    found: dict[str, Wheel] = {}
    for folder in dict.fromkeys(sys.path if folders is None else folders):
        for module in _modules(Path(folder or os.curdir)):
            if module not in found and _has_the_functions(module):
                wheel = _wheel(module)
                if wheel is not None:
                    found[module] = wheel
    return list(found.values())


def _modules(folder: Path) -> Iterator[str]:
    """Yield the top-level modules of distributions whose metadata name onnxruntime.

    Those that require ort-lite bring its providers to onnxruntime, and are left out: hosted here, a provider would run itself.
    """
    try:
        directories = sorted(folder.glob("*.dist-info"))
    except OSError:  # a file that Python cannot list, such as a zip
        return
    for directory in directories:
        metadata = _read(directory / "METADATA").lower()
        if "onnxruntime" in metadata.replace(" ", "") and "\nrequires-dist: ort-lite" not in metadata:
            listed = _read(directory / "top_level.txt").split()
            yield from dict.fromkeys(listed or _packages(_read(directory / "RECORD")))


def _packages(record: str) -> Iterator[str]:
    """Yield the packages whose `__init__.py` is among the files of a RECORD."""
    for line in record.splitlines():
        package, separator, file = line.partition("/")
        if separator and file.startswith("__init__.py,"):
            yield package


def _has_the_functions(module: str) -> bool:
    """Read the source of a module, without importing it."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return False
    source = _read(Path(spec.origin)) if spec is not None and spec.origin is not None else ""
    return "get_library_path" in source and _ONE in source


def _wheel(module: str) -> Wheel | None:
    try:
        found = import_module(module)
        names = tuple(getattr(found, _MANY)() if hasattr(found, _MANY) else [getattr(found, _ONE)()])
        if not names or not all(isinstance(name, str) and name for name in names):
            raise TypeError(f"its execution providers are {names!r}; expected names")
        return Wheel(names, os.fspath(found.get_library_path()))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # another's code
        text = f"the execution providers of {module} are left out: {format_error(error)}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
