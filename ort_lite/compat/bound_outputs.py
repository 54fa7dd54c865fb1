"""Stores the results of a run in the memory that outputs are bound to."""

from typing import Any

from ort_lite.dtypes import Array, from_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.tensors.conversion import array_of
from ort_lite.tensors.device_tensor import DeviceTensor


def fill(name: str, target: Array, result: Any) -> None:
    """Store a result in an array. Raises InvalidArgument if its type or shape differs, or the array is read-only."""
    array = array_of(result)
    _check_fits(name, (array.dtype, array.shape), (target.dtype, target.shape))
    if not target.flags.writeable:
        raise InvalidArgument(f"output {name!r} is bound to read-only memory")
    if array is not target:
        target[...] = array


def fill_device(name: str, target: DeviceTensor, result: Any, computed: bool) -> None:
    """Store a result, which is a tensor on the target's device or an array, in a device tensor, unless it was `computed` there."""
    from ort_lite.session import device_values

    came = result if isinstance(result, DeviceTensor) else array_of(result)
    dtype = came.dtype if isinstance(came, DeviceTensor) else from_numpy(came.dtype)
    _check_fits(name, (dtype, came.shape), (target.dtype, target.shape))
    if isinstance(came, DeviceTensor) and (computed or came.value is target.value):
        target.value, target.work = came.value, came.work
    elif isinstance(came, DeviceTensor):
        device_values.take(target, came)
    else:
        device_values.fill(target, came)


def _check_fits(name: str, came: tuple[Any, tuple[int, ...]], expected: tuple[Any, tuple[int, ...]]) -> None:
    if came != expected:
        said, wanted = (f"{dtype}{list(shape)}" for dtype, shape in (came, expected))
        raise InvalidArgument(f"output {name!r} is {said}; it is bound to memory for {wanted}")
