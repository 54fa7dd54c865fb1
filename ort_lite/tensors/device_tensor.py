"""A tensor in the memory of a provider's device, with what the framework has to know of it: there it cannot look inside."""

from math import prod
from typing import Any

from ort_lite.dtypes import DType, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.provider.provider import CPU, Device, ExecutionProvider


class DeviceTensor:
    """`value` is what the provider's DataTransfer or a partition made; the provider stays alive as long as the tensor.

    Whoever shows the tensor shows what `value` is now: what writes to the tensor may put another one there.
    """

    __slots__ = ("__weakref__", "dtype", "provider", "shape", "value")

    def __init__(self, value: Any, provider: ExecutionProvider, dtype: DType, shape: tuple[int, ...]) -> None:
        self.value, self.provider, self.dtype, self.shape = value, provider, dtype, shape

    @property
    def device(self) -> Device:
        """The device that holds the value."""
        return self.provider.device

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return prod(self.shape) * to_numpy(self.dtype).itemsize

    @property
    def device_tensor(self) -> "DeviceTensor":
        """Return itself, as an OrtValue returns its DeviceTensor."""
        return self


def device_named(device_type: Any, device_id: int = 0) -> Device:
    """onnxruntime's two words for a device, of the CPU's name case does not count; or what has both in one: a Device, or an
    OrtDevice. Raises InvalidArgument for another library's object, whose number names no provider.
    """
    if isinstance(device_type, Device):
        return device_type
    if isinstance(place := getattr(device_type, "place", None), Device):
        return place
    number = getattr(device_type, "device_type", None)
    if callable(number):
        if int(number()) == 0:
            return CPU
        raise InvalidArgument(
            f"{device_type!r} is a kind of device by number; expected its name, as bind_output(name, 'npu', 1)"
        )
    kind = str(device_type)
    return Device("cpu" if kind.lower() == "cpu" else kind, int(device_id))


def on_device(value: Any) -> DeviceTensor | None:
    """The tensor on a device that a value is or shows (an OrtValue); None: it is on the CPU, or no tensor."""
    found: DeviceTensor | None = getattr(value, "device_tensor", None)
    return found
