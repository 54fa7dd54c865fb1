"""The package that is imported as `onnxruntime`: every name of ort_lite, and onnxruntime's modules.

The files of this folder correspond to onnxruntime's modules; `ort_lite.compat.switch` serves them under its name.
"""

from importlib import import_module
from typing import Any

import ort_lite
from ort_lite.compat.release import RELEASE

__version__ = RELEASE
__author__ = "the authors of ort-lite"
package_name = "onnxruntime"
version = RELEASE
cuda_version = ""
import_capi_exception = None
"""The error of loading onnxruntime's native library: always None, as it is not loaded."""
_LATER = frozenset({"backend", "capi", "datasets"})
"""Attributes that are imported on first access."""


def get_version_string() -> str:
    """Return the followed release of onnxruntime."""
    return RELEASE


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    if name not in ort_lite.__all__:
        raise AttributeError(
            f"module 'onnxruntime', which is ort-lite's, has no attribute {name!r}; what is not there and why: "
            f"docs/migrating-from-onnxruntime.md"
        )
    found = globals()[name] = getattr(ort_lite, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *ort_lite.__all__})


__all__ = [name for name in (*ort_lite.__all__, "get_version_string") if not name.startswith("_")]
