"""Values on a JAX device, which are JAX arrays there, and their copies from and to the CPU."""

from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.sharding import SingleDeviceSharding
from jaxlib.xla_client import batched_device_put

from ort_lite.provider import CPU, Device

Array = np.ndarray[Any, np.dtype[Any]]


def share(array: Array, device: jax.Device) -> jax.Array:
    """Return an array that nobody changes on the device. JAX's CPU device shares its memory if it is aligned to 64 bytes."""
    with jax.enable_x64(True), jax.transfer_guard("allow"):
        return jax.device_put(array, device)


@lru_cache(256)
def _aval(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return ShapedArray(shape, dtype)


def put(array: Array, device: jax.Device) -> jax.Array:
    """Return a copy of an array, which may change as soon as this returns: 8 us; `jax.device_put` takes 100 us."""
    with jax.transfer_guard_host_to_device("allow"):
        made: jax.Array = batched_device_put(
            _aval(array.shape, array.dtype), SingleDeviceSharding(device), [array], [device], True, True
        )
    return made


class XlaTransfer:
    """Copies between the CPU and one JAX device, and within the device.

    Copies to the device return at once: JAX lets the programs that read the value wait.
    """

    def __init__(self, device: Device, jax_device: jax.Device) -> None:
        self._device, self._jax_device = device, jax_device
        self._sharding = SingleDeviceSharding(jax_device)

    def can_copy(self, source: Device, destination: Device) -> bool:
        """Return True if source and destination are the CPU and this device, or this device twice."""
        return self._device in (source, destination) and {source, destination} <= {CPU, self._device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        """Return a copy: a NumPy array on the CPU, a JAX array on the device."""
        with jax.enable_x64(True):
            if destination == CPU:
                with jax.transfer_guard_device_to_host("allow"):
                    return np.array(value, order="C")
            if source == CPU:
                return put(value, self._jax_device)
            with jax.transfer_guard_host_to_device("allow"):
                return jax.device_put(value, self._sharding, may_alias=False)


class AcceleratorTransfer(XlaTransfer):
    """A transfer whose copies to the CPU overlap, for devices with a memory of their own."""

    def copy_async(self, value: Any, source: Device, destination: Device, memory: Any | None) -> tuple[Any, "Arrival"]:
        """Start a copy. Return the future value and its arrival."""
        if destination != CPU:
            return self.copy(value, source, destination), Arrival(None, None)
        with jax.transfer_guard_device_to_host("allow"):
            value.copy_to_host_async()
        made = np.empty(value.shape, value.dtype)
        return made, Arrival(value, made)


class Arrival:
    """The completion of a copy to the CPU."""

    def __init__(self, value: Any, made: Array | None) -> None:
        self._value, self._made = value, made

    def wait_on_host(self) -> None:
        """Block until the array is filled."""
        value, made = self._value, self._made
        if value is not None and made is not None:
            with jax.transfer_guard_device_to_host("allow"):
                np.copyto(made, np.asarray(value))
            self._value = None
