"""onnxruntime's native library by its names; here they are ort_lite's own classes, functions and errors.

Classes that onnxruntime has both natively and in Python (InferenceSession, OrtValue, IOBinding, ...) are the Python ones.
"""

from importlib import import_module
from typing import Any

import ort_lite
from ort_lite import errors
from ort_lite.compat.release import RELEASE
from ort_lite.options.options import NamedNumber

_ERRORS = (
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "RuntimeException",
)
_QUANTIZE = (
    "quantize_matmul_2bits",
    "quantize_matmul_4bits",
    "quantize_matmul_8bits",
    "quantize_matmul_bnb4",
    "quantize_qdq_matmul_4bits",
)
_SPARSE = ("SparseBlockSparseView", "SparseCooView", "SparseCsrView")


class ArenaExtendStrategy(NamedNumber):
    """The growth strategy of an arena."""

    kNextPowerOfTwo = 0  # noqa: N815  onnxruntime's name
    kSameAsRequested = 1  # noqa: N815  onnxruntime's name


kNextPowerOfTwo = ArenaExtendStrategy.kNextPowerOfTwo  # noqa: N816  the same
kSameAsRequested = ArenaExtendStrategy.kSameAsRequested  # noqa: N816  the same


def get_version_string() -> str:
    """Return the followed release of onnxruntime."""
    return RELEASE


def get_default_session_options() -> ort_lite.SessionOptions:
    """Return new session options with default values."""
    return ort_lite.SessionOptions()


def _home(name: str) -> Any:
    """Return the module that defines a name; None if there is none."""
    if name in _ERRORS:
        return errors
    if name == "is_dlpack_uint8_tensor":
        return import_module("ort_lite.tensors.dlpack")
    if name in _QUANTIZE:
        return import_module("ort_lite.compat.block_quantization")
    if name in _SPARSE:
        return import_module("ort_lite.compat.sparse")
    return ort_lite if name in ort_lite.__all__ else None


def __getattr__(name: str) -> Any:
    home = _home(name)
    if home is None:
        raise AttributeError(
            f"module 'onnxruntime.capi.onnxruntime_pybind11_state', which is ort-lite's, has no attribute {name!r}"
        )
    found = globals()[name] = getattr(home, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ERRORS, *_QUANTIZE, *_SPARSE, "is_dlpack_uint8_tensor", *ort_lite.__all__})


__all__ = [name for name in __dir__() if not name.startswith("_")]
