"""onnxruntime's descriptions of devices: types, vendors, memories, OrtDevice and OrtHardwareDevice."""

from collections.abc import Mapping
from types import MappingProxyType

from ort_lite.compat.ort_memory import OrtDeviceMemoryType
from ort_lite.errors import InvalidArgument
from ort_lite.options.options import NamedNumber
from ort_lite.provider.provider import Device
from ort_lite.record import Record


class OrtHardwareDeviceType(NamedNumber):
    """The type of a device."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtDeviceVendorId(NamedNumber):
    """The PCI vendor number of a device; 0 if it has no particular vendor."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtCompiledModelCompatibility(NamedNumber):
    """The compatibility of a compiled model with the installed provider."""

    EP_NOT_APPLICABLE = 0
    EP_SUPPORTED_OPTIMAL = 1
    EP_SUPPORTED_PREFER_RECOMPILATION = 2
    EP_UNSUPPORTED = 3


class OrtDeviceEpIncompatibilityReason(NamedNumber):
    """Reasons why a provider cannot use a device; a bit mask."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = -(2**31)


GPU_KINDS = frozenset({"gpu", "cuda", "rocm", "hip", "dml", "webgpu", "metal", "vulkan", "opencl", "sycl"})
"""Kinds of provider devices that are GPUs. Any other kind except "cpu" is an NPU."""


def hardware_type(kind: str) -> OrtHardwareDeviceType:
    """Return the hardware type for the `kind` of a provider's Device."""
    if kind == "cpu":
        return OrtHardwareDeviceType.CPU
    return OrtHardwareDeviceType.GPU if kind in GPU_KINDS else OrtHardwareDeviceType.NPU


class OrtHardwareDevice(Record):
    """A device of this machine."""

    type: OrtHardwareDeviceType
    vendor_id: int
    vendor: str
    device_id: int
    metadata: Mapping[str, str] = MappingProxyType({})


# onnxruntime's numbers of device kinds, and the vendors of kinds that a single vendor makes.
_KINDS = {"cpu": 0, "gpu": 1, "cuda": 1, "webgpu": 1, "rocm": 1, "fpga": 2, "npu": 3, "cann": 3, "dml": 4}
_VENDORS = {"cuda": OrtDeviceVendorId.NVIDIA, "cann": OrtDeviceVendorId.HUAWEI, "dml": OrtDeviceVendorId.MICROSOFT}


class OrtDevice:
    """The device of a value, described by onnxruntime's numbers."""

    def __init__(self, kind: str | int, device_id: int = 0, vendor_id: int = 0, *more: int) -> None:
        """Create a device; programs usually call `make`. Raises InvalidArgument for a kind that onnxruntime lacks.

        Numbers are those of onnxruntime's native class: `OrtDevice(OrtDevice.cuda(), OrtDevice.default_memory(), 1)`, or with the
        number of a vendor before that of the device.
        """
        if isinstance(kind, int):
            kind = next((name for name, number in _KINDS.items() if number == kind), str(kind))
            device_id, vendor_id = (more[0], vendor_id) if more else (vendor_id, 0)
        name = str(kind).lower()
        if name not in _KINDS:
            raise InvalidArgument(f"OrtDevice: unsupported device type {kind!r}; expected {', '.join(_KINDS)}")
        self._kind, self._id, self._vendor = name, int(device_id), int(vendor_id)

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        """Return the device of a kind and number. A negative `vendor_id` means the kind's only vendor, if it has one."""
        own = int(_VENDORS.get(str(ort_device_name).lower(), OrtDeviceVendorId.NONE))
        return OrtDevice(ort_device_name, device_id, own if vendor_id < 0 else vendor_id)

    # The numbers of device types and of memory, as onnxruntime's native class has them

    @staticmethod
    def cpu() -> int:
        """Return the type of the CPU."""
        return _KINDS["cpu"]

    @staticmethod
    def gpu() -> int:
        """Return the type of GPUs."""
        return _KINDS["gpu"]

    cuda = webgpu = gpu

    @staticmethod
    def fpga() -> int:
        """Return the type of FPGAs."""
        return _KINDS["fpga"]

    @staticmethod
    def npu() -> int:
        """Return the type of NPUs."""
        return _KINDS["npu"]

    cann = npu

    @staticmethod
    def dml() -> int:
        """Return the type of DirectML's devices."""
        return _KINDS["dml"]

    @staticmethod
    def default_memory() -> int:
        """Return the memory type of a device's own memory."""
        return int(OrtDeviceMemoryType.DEFAULT)

    @property
    def place(self) -> Device:
        """The device as providers describe it."""
        return Device(self._kind, self._id)

    def device_id(self) -> int:
        """Return the number of the device."""
        return self._id

    def device_type(self) -> int:
        """Return the type: 0 CPU, 1 GPU, 2 FPGA, 3 NPU, 4 DirectML."""
        return _KINDS[self._kind]

    def device_vendor_id(self) -> int:
        """Return the number of the device's vendor."""
        return self._vendor

    def device_mem_type(self) -> int:
        """Return the memory type, which is always the device's own."""
        return int(OrtDeviceMemoryType.DEFAULT)
