"""A tensor in the memory of a provider's device, with the facts that the framework cannot read from there."""

from math import prod
from typing import Any

from ort_lite.dtypes import DType
from ort_lite.errors import InvalidArgument
from ort_lite.provider.narrowing import bytes_of
from ort_lite.provider.provider import CPU, Device, ExecutionProvider


class DeviceTensor:
    """A tensor on a device. `value` was created by the provider's DataTransfer or a partition.

    It keeps the provider alive. Writing to the tensor may replace `value`, so always read the current one. `work` is what the
    device had not finished when the run that made the value returned (`ort_lite.execute.waiting.DeviceWork`), or None. `readers` is
    the work of runs of other provider instances that read the value.
    """

    __slots__ = ("__weakref__", "dtype", "provider", "readers", "shape", "value", "work")

    def __init__(self, value: Any, provider: ExecutionProvider, dtype: DType, shape: tuple[int, ...]) -> None:
        self.value, self.provider, self.dtype, self.shape = value, provider, dtype, shape
        self.work: Any = None
        self.readers: list[Any] = []

    @property
    def device(self) -> Device:
        """The device that holds the value."""
        return self.provider.device

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return prod(self.shape) * bytes_of(self.dtype, self.provider)

    @property
    def device_tensor(self) -> "DeviceTensor":
        """The tensor itself; an OrtValue has its DeviceTensor by the same name."""
        return self


def parse_device(device_type: Any, device_id: int = 0) -> Device:
    """Return the device for onnxruntime's two arguments, or for a single Device or OrtDevice.

    The case of "cpu" is ignored. Raises InvalidArgument for another library's object, whose number does not name a provider.
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
    """Return the device tensor that a value is or has (an OrtValue); None if it is on the CPU or not a tensor."""
    found: DeviceTensor | None = getattr(value, "device_tensor", None)
    return found
