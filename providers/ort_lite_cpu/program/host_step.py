"""Steps between two segments: functions in Python, whose results are looked at before native code reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import OrtLiteError, RuntimeException
from ort_lite_cpu.lowering.lowered import HostStep, Wiring
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.copying import contiguous
from ort_lite_cpu.run.pace import step_error


def run_host_step(step: HostStep, places: list[Any]) -> None:
    """Half a microsecond beside the step's own time: what is known before the run is looked up in the first."""
    numbers, constants, takers = step.wiring or _wire(step)
    try:
        if constants is None:
            results = step.function(places[numbers[0]]) if len(numbers) == 1 else step.function(*[places[k] for k in numbers])
        else:
            results = step.function(*[c if k < 0 else places[k] for k, c in zip(numbers, constants, strict=True)])
    except OrtLiteError:
        raise
    except Exception as error:
        raise step_error(step.node, error) from error
    if len(results) < len(step.outputs):
        raise _failure(step, f"gave {len(results)} results, expected {len(step.outputs)}")
    for number, place, take in takers:
        places[place] = take(results[number])


def _wire(step: HostStep) -> Wiring:
    buffers = [None if tensor is None else tensor.buffer for tensor in step.inputs]
    numbers = [-1 if b is None or b.constant is not None else b.place for b in buffers]
    constants = [None if b is None else b.constant for b in buffers] if -1 in numbers else None
    outputs = [(k, tensor) for k, tensor in enumerate(step.outputs) if tensor is not None]
    takers = [(k, tensor.buffer.place, _taker(step, tensor)) for k, tensor in outputs if tensor.buffer is not None]
    step.wiring = numbers, constants, takers
    return step.wiring


def _taker(step: HostStep, tensor: Tensor) -> Callable[[Any], Any]:
    """`_check_result` with a short way for an array that is as it should be."""
    if not tensor.dtype:
        return partial(_contiguous, step)
    expected, rank = to_numpy(tensor.dtype), len(tensor.shape) if tensor.ranked else -1
    fixed = [(axis, dim) for axis, dim in enumerate(tensor.shape) if isinstance(dim, int)] if tensor.ranked else []

    def take(result: Any) -> Any:
        if result.__class__ is np.ndarray and result.dtype is expected and result.flags.c_contiguous:
            shape = result.shape
            if rank < 0 or (len(shape) == rank and (not fixed or all(shape[axis] == dim for axis, dim in fixed))):
                return result
        return _check_result(step, tensor, result)

    return take


def _check_result(step: HostStep, tensor: Tensor, result: Any) -> Any:
    """A result as kernels read it: from its first byte on, of the element type, rank and known dims that lowering believes.

    Open dims are compared before the first kernel that reads it, see `Builder.step`. Sequences, maps and optionals are no kernel's.
    """
    if not tensor.dtype:
        return _contiguous(step, result)
    array = np.asarray(result, to_numpy(tensor.dtype)) if np.isscalar(result) else result
    if not isinstance(array, np.ndarray) or not _is_like(array, tensor):
        came = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        shape = f"({', '.join(map(str, tensor.shape))})" if tensor.ranked else "of any shape"
        raise _failure(step, f"gave {came} for {tensor.name!r}, expected {tensor.dtype} {shape}")
    return _contiguous(step, array)


def _is_like(array: Array, tensor: Tensor) -> bool:
    if array.dtype.kind not in "OUS" if tensor.dtype == "string" else array.dtype != to_numpy(tensor.dtype):
        return False
    if not tensor.ranked:
        return True
    dims = zip(tensor.shape, array.shape, strict=False)
    return array.ndim == len(tensor.shape) and all(type(dim) is not int or dim == n for dim, n in dims)


def _failure(step: HostStep, what: str) -> RuntimeException:
    return RuntimeException(f"{step.node} (CPUExecutionProvider): it {what}").about(step.node)


def _contiguous(step: HostStep, result: Any) -> Any:
    """Return an array as kernels read it, from its first byte on, and any other result as it is."""
    return contiguous(step.node, result) if isinstance(result, np.ndarray) else result
