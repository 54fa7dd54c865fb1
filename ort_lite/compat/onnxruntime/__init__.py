"""The package that is imported as `onnxruntime` if ort_lite stands in for it: every name of ort_lite, and onnxruntime's modules.

Files of this folder are modules of the same place in onnxruntime; `ort_lite.compat.switch` serves them under its name.
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
"""What stopped onnxruntime's native library from being loaded: it is not there to be."""
_LATER = frozenset({"backend", "capi", "datasets"})
"""Attributes of onnxruntime once it is imported."""


def get_version_string() -> str:
    """The release that is followed."""
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
