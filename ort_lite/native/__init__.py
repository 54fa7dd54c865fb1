"""Compilation of Python functions to native code: `lang` (the kernel language), `spec` and `load`."""

from typing import TYPE_CHECKING, Any

from ort_lite.native.spec import Spec

if TYPE_CHECKING:
    from ort_lite.native.loader import load

__all__ = ["Spec", "load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from ort_lite.native.loader import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
