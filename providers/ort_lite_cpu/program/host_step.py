"""Steps between two segments: functions in Python, whose results are looked at before native code reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import OrtLiteError, RuntimeException
from ort_lite_cpu.lowering.lowered import HostStep
from ort_lite_cpu.lowering.tensor import Tensor


def run_host_step(step: HostStep, places: list[Any]) -> None:
    arrays = [None if tensor is None else _array(tensor, places) for tensor in step.inputs]
    try:
        results = step.function(*arrays)
    except OrtLiteError:
        raise
    except Exception as error:
        raise RuntimeException(f"{step.node} (CPUExecutionProvider): {error}") from error
    if len(results) < len(step.outputs):
        raise _broken(step, f"gave {len(results)} results, expected {len(step.outputs)}")
    for tensor, result in zip(step.outputs, results, strict=False):
        if tensor is not None and tensor.buffer is not None:
            places[tensor.buffer.place] = _taken(step, tensor, result)


def _taken(step: HostStep, tensor: Tensor, result: Any) -> Any:
    """A result as kernels read it: from its first byte on, of the element type, rank and known dims that lowering believes.

    Open dims are compared before the first kernel that reads it, see `Builder.step`. Sequences, maps and optionals are no kernel's.
    """
    if not tensor.dtype:
        return _contiguous(result)
    array = np.asarray(result, to_numpy(tensor.dtype)) if np.isscalar(result) else result
    if not isinstance(array, np.ndarray) or not _is_like(array, tensor):
        came = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        shape = f"({', '.join(map(str, tensor.shape))})" if tensor.ranked else "of any shape"
        raise _broken(step, f"gave {came} for {tensor.name!r}, expected {tensor.dtype} {shape}")
    return _contiguous(array)


def _is_like(array: Array, tensor: Tensor) -> bool:
    if array.dtype.kind not in "OUS" if tensor.dtype == "string" else array.dtype != to_numpy(tensor.dtype):
        return False
    if not tensor.ranked:
        return True
    dims = zip(tensor.shape, array.shape, strict=False)
    return array.ndim == len(tensor.shape) and all(type(dim) is not int or dim == n for dim, n in dims)


def _broken(step: HostStep, what: str) -> RuntimeException:
    return RuntimeException(f"{step.node} (CPUExecutionProvider): it {what}")


def _contiguous(result: Any) -> Any:
    """Kernels read arrays from their first byte on."""
    return result if not isinstance(result, np.ndarray) or result.flags.c_contiguous else np.array(result, order="C")


def _array(tensor: Tensor, places: Sequence[Any]) -> Any:
    buffer = tensor.buffer
    assert buffer is not None
    return places[buffer.place] if buffer.constant is None else buffer.constant
