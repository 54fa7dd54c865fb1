"""Tensors into a device's memory, out of it and over each other, by the DataTransfer of the device's provider."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.compile.moving import Mover
from ort_lite.dtypes import Array, DType, from_numpy, to_numpy
from ort_lite.errors import InvalidArgument, ProviderError, RuntimeException
from ort_lite.execute.results import read_only
from ort_lite.graph.graph import Value
from ort_lite.graph.types import TensorType
from ort_lite.partition.assignment import Hop
from ort_lite.partition.borders import can_copy
from ort_lite.provider.ask import ask, told_as, who
from ort_lite.provider.provider import CPU, Device, ExecutionProvider
from ort_lite.tensors.device_tensor import DeviceTensor


def put(array: Array, provider: ExecutionProvider) -> DeviceTensor:
    """A copy of the array in memory of the provider's device. Raises InvalidArgument for strings, and what the transfer raises."""
    dtype = from_numpy(array.dtype)
    if dtype == "string":
        raise InvalidArgument(f"strings are on the CPU alone; {provider.device} takes numbers")
    plain = np.array(array, to_numpy(dtype), order="C", copy=None)
    (made,) = _mover(provider, dtype, plain.shape, CPU, provider.device)([plain])
    return DeviceTensor(made, provider, dtype, plain.shape)


def fetch(tensor: DeviceTensor) -> Array:
    """A copy of the elements on the CPU."""
    (array,) = _mover(tensor.provider, tensor.dtype, tensor.shape, tensor.device, CPU)([tensor.value])
    found: Array = array
    return found


def fill(tensor: DeviceTensor, array: Array) -> None:
    """Writes an array of its type and shape over the tensor (see `Overwrites`)."""
    if can_overwrite(tensor.provider):
        _overwrite(tensor, read_only(np.array(array, order="C", copy=None)), CPU)
    else:
        tensor.value = put(array, tensor.provider).value


def take(tensor: DeviceTensor, made: DeviceTensor) -> None:
    """Writes what a run made on the same device, and nobody else has, over the tensor; or shows that in its place."""
    if not can_overwrite(tensor.provider):
        tensor.value, tensor.provider = made.value, made.provider
    elif can_copy(_transfer(tensor.provider), made.device, tensor.device):
        _overwrite(tensor, made.value, made.device)
    else:
        fill(tensor, fetch(made))


def at_address(provider: ExecutionProvider, dtype: DType, shape: tuple[int, ...], address: int) -> DeviceTensor:
    """A tensor over memory that the caller keeps where it is. Raises InvalidArgument where the transfer knows no addresses."""
    transfer = _transfer(provider)
    if not hasattr(transfer, "at_address"):
        raise InvalidArgument(
            f"{who(provider)}: {type(transfer).__name__} has no at_address, so that there is nothing at {address:#x} of "
            f"{provider.device}; bind an OrtValue"
        )
    with told_as(f"{who(provider)}: at_address of its data transfer"):
        made = transfer.at_address(address, to_numpy(dtype), shape, provider.device)
    if made is None:
        raise ProviderError(f"{who(provider)}: at_address of its data transfer returned None; expected a value").about(
            provider=who(provider)
        )
    return DeviceTensor(made, provider, dtype, shape)


def can_overwrite(provider: ExecutionProvider) -> bool:
    """Return True if the provider's transfer can write over a value."""
    return hasattr(_transfer(provider), "overwrite")


def synchronize(tensors: Sequence[DeviceTensor]) -> None:
    """Waits for work in flight on their devices."""
    for provider in {id(tensor.provider): tensor.provider for tensor in tensors}.values():
        ask(provider, "sync", error=RuntimeException)


def _overwrite(tensor: DeviceTensor, x: Any, source: Device) -> None:
    transfer = _transfer(tensor.provider)
    with told_as(f"{who(tensor.provider)}: overwrite of its data transfer"):
        transfer.overwrite(x, source, tensor.device, tensor.value)


def _transfer(provider: ExecutionProvider) -> Any:
    transfer = ask(provider, "data_transfer")
    if transfer is None:
        raise ProviderError(f"{who(provider)}: it has no data_transfer() to {provider.device}").about(provider=who(provider))
    return transfer


def _mover(provider: ExecutionProvider, dtype: DType, shape: tuple[int, ...], source: Device, destination: Device) -> Mover:
    hop = Hop(_transfer(provider), source, destination)
    return Mover(Value("an OrtValue", TensorType(dtype, shape)), hop, who(provider), provider)
