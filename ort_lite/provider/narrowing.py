"""int64 values that are int32 in the memory of a device (`ExecutionProvider.narrows_int64`)."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.graph.types import OptionalType, SequenceType, TensorType, Type
from ort_lite.provider.provider import CPU, Device, ExecutionProvider

_LIMITS = np.iinfo(np.int32)


def narrows(provider: ExecutionProvider, type_: Type | DType | None = "int64") -> bool:
    """Return True if values of a type, a tensor's element type or a Value's type, are narrower on the provider's device."""
    return provider.device != CPU and provider.narrows_int64 and holds_int64(type_)


def holds_int64(type_: Type | DType | None) -> bool:
    """Return True for int64 tensors, and for sequences and optionals of them."""
    while isinstance(type_, SequenceType | OptionalType):
        type_ = type_.element
    return (type_.dtype if isinstance(type_, TensorType) else type_) == "int64"


def bytes_of(dtype: DType, provider: ExecutionProvider) -> int:
    """Return the bytes of an element in the memory of the provider's device."""
    return 4 if narrows(provider, dtype) else to_numpy(dtype).itemsize


def narrow(x: Any, name: str, device: Device) -> Any:
    """Return int64 arrays, also those in a list, as int32. Raises InvalidArgument for a number out of range."""
    if isinstance(x, list):
        return [narrow(item, name, device) for item in x]
    if not isinstance(x, np.ndarray) or x.dtype != np.int64:
        return x
    if (wrong := beyond_int32(x)) is not None:
        raise InvalidArgument(
            f"{name!r} has the element {wrong}; int64 values are int32 on {device}: expected {_LIMITS.min} to {_LIMITS.max}"
        )
    return x.astype(np.int32)


def beyond_int32(x: Array) -> int | None:
    """Return an element that does not fit 32 bits, the largest or the smallest; None if all fit."""
    ends = (int(x.max()), int(x.min())) if x.size else ()
    return next((end for end in ends if not _LIMITS.min <= end <= _LIMITS.max), None)


def widen(x: Any) -> Any:
    """Return int32 arrays, also those in a list, as int64."""
    if isinstance(x, list):
        return [widen(item) for item in x]
    return x.astype(np.int64) if isinstance(x, np.ndarray) and x.dtype == np.int32 else x
