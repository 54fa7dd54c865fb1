"""Move tensors to and from device memory with the DataTransfer of the device's provider."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.compile.moving import Mover
from ort_lite.dtypes import Array, DType, from_numpy, to_numpy
from ort_lite.errors import InvalidArgument, ProviderError, RuntimeException
from ort_lite.execute.results import read_only
from ort_lite.graph.graph import Value
from ort_lite.graph.types import TensorType
from ort_lite.options.options import RunOptions
from ort_lite.partition.assignment import Hop
from ort_lite.partition.borders import can_copy
from ort_lite.provider.ask import ask, name_errors, who
from ort_lite.provider.narrowing import narrow, narrows
from ort_lite.provider.provider import CPU, Device, ExecutionProvider
from ort_lite.tensors.device_tensor import DeviceTensor

NAME = "an OrtValue"


def put(array: Array, provider: ExecutionProvider) -> DeviceTensor:
    """Copy an array to the provider's device. Raises InvalidArgument for strings, and the errors of the transfer."""
    dtype = from_numpy(array.dtype)
    if dtype == "string":
        raise InvalidArgument(f"strings are on the CPU alone; {provider.device} takes numbers")
    plain = np.array(array, to_numpy(dtype), order="C", copy=None)
    (made,) = _mover(provider, dtype, plain.shape, CPU, provider.device)([plain])
    return DeviceTensor(made, provider, dtype, plain.shape)


def fetch(tensor: DeviceTensor) -> Array:
    """Return a copy of a device tensor's elements on the CPU, once its work is done. Raises the error of the work."""
    require(tensor)
    (array,) = _mover(tensor.provider, tensor.dtype, tensor.shape, tensor.device, CPU)([tensor.value])
    found: Array = array
    return found


def on_cpu(value: Any) -> Any:
    """Return a copy of a device tensor's elements on the CPU, and any other value as it is."""
    return fetch(value) if isinstance(value, DeviceTensor) else value


def require(tensor: DeviceTensor) -> None:
    """Wait for the work that makes a device tensor. Raises its error."""
    if tensor.work is not None:
        tensor.work.require()


def fill(tensor: DeviceTensor, array: Array) -> None:
    """Overwrite a device tensor with an array of the same type and shape (see `Overwrites`)."""
    wait_for_readers(tensor)
    tensor.work = None
    if can_overwrite(tensor.provider):
        plain = read_only(np.array(array, order="C", copy=None))
        _overwrite(tensor, narrow(plain, NAME, tensor.device) if narrows(tensor.provider) else plain, CPU)
    else:
        tensor.value = put(array, tensor.provider).value


def take(tensor: DeviceTensor, made: DeviceTensor) -> None:
    """Move the result of a run into a tensor on the same device.

    The value is copied over the tensor's memory if the transfer can overwrite; otherwise the tensor refers to the new value.
    `made` must have no other owner.
    """
    wait_for_readers(tensor)
    tensor.work = made.work
    if not can_overwrite(tensor.provider):
        tensor.value, tensor.provider = made.value, made.provider
    elif narrows(made.provider, made.dtype) == narrows(tensor.provider, tensor.dtype) and can_copy(
        _transfer(tensor.provider), made.device, tensor.device
    ):
        _overwrite(tensor, made.value, made.device)
    else:
        fill(tensor, fetch(made))


def at_address(provider: ExecutionProvider, dtype: DType, shape: tuple[int, ...], address: int) -> DeviceTensor:
    """Wrap memory that the caller owns in a device tensor. Raises InvalidArgument if the transfer has no `at_address`."""
    transfer = _transfer(provider)
    if not hasattr(transfer, "at_address"):
        raise InvalidArgument(
            f"{who(provider)}: {type(transfer).__name__} has no at_address, so that there is nothing at {address:#x} of "
            f"{provider.device}; bind an OrtValue"
        )
    if narrows(provider, dtype):
        raise InvalidArgument(
            f"int64 values are int32 on {provider.device}, and those at {address:#x} are not; bind an OrtValue"
        )
    with name_errors(f"{who(provider)}: at_address of its data transfer"):
        made = transfer.at_address(address, to_numpy(dtype), shape, provider.device)
    if made is None:
        raise ProviderError(f"{who(provider)}: at_address of its data transfer returned None; expected a value").about(
            provider=who(provider)
        )
    return DeviceTensor(made, provider, dtype, shape)


def can_overwrite(provider: ExecutionProvider) -> bool:
    """Return True if the provider's transfer can overwrite a value in place."""
    return hasattr(_transfer(provider), "overwrite")


def synchronize(tensors: Sequence[DeviceTensor]) -> None:
    """Wait until the devices of the tensors have finished their work. Raises the first error that nobody has been told."""
    for work in [tensor.work for tensor in tensors if tensor.work is not None]:
        work.wait()
    for provider in {id(tensor.provider): tensor.provider for tensor in tensors}.values():
        ask(provider, "sync", error=RuntimeException)


def wait_for_readers(tensor: DeviceTensor, options: RunOptions | None = None) -> None:
    """Wait for runs of other provider instances that read the tensor. Their errors are told elsewhere. Raises RunTerminated."""
    for work in tensor.readers:
        work.finish(options)
    tensor.readers = []


def _overwrite(tensor: DeviceTensor, x: Any, source: Device) -> None:
    transfer = _transfer(tensor.provider)
    with name_errors(f"{who(tensor.provider)}: overwrite of its data transfer"):
        transfer.overwrite(x, source, tensor.device, tensor.value)


def _transfer(provider: ExecutionProvider) -> Any:
    transfer = ask(provider, "data_transfer")
    if transfer is None:
        raise ProviderError(f"{who(provider)}: it has no data_transfer() to {provider.device}").about(provider=who(provider))
    return transfer


def _mover(provider: ExecutionProvider, dtype: DType, shape: tuple[int, ...], source: Device, destination: Device) -> Mover:
    hop = Hop(_transfer(provider), source, destination, narrows(provider, dtype))
    return Mover(Value(NAME, TensorType(dtype, shape)), hop, who(provider), provider)
