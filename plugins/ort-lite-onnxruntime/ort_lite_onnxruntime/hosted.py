"""Execution providers of libraries that onnxruntime loads, each a provider called NAME@onnxruntime."""

import os
from typing import Any, ClassVar

from ort_lite.errors import NoDevice, ProviderError
from ort_lite.memory import locks
from ort_lite.provider import Device
from ort_lite.provider.hardware import Hardware
from ort_lite_onnxruntime.libraries import devices_of, innermost
from ort_lite_onnxruntime.provider import TargetProvider
from ort_lite_onnxruntime.targets import Hosted
from ort_lite_onnxruntime.wheels import find_wheels


class HostedExecutionProvider(TargetProvider):
    """An execution provider of a library. Classes derived from it have the provider's name and the path of its library.

    Options:

    device: the device to use, as in "cpu:0" or "gpu:1"; "" (default): the first one that onnxruntime lists.
    All other options are those of the execution provider itself.
    """

    ep_name: ClassVar[str]
    """The name of the execution provider in onnxruntime."""
    library: ClassVar[str]
    """The path of the library."""

    def __init__(self, device: str = "", **options: Any) -> None:
        from ort_lite_onnxruntime.claims import check_creation

        self._device = device
        texts = {key: str(value) for key, value in options.items()}
        super().__init__(Hosted(self.ep_name, texts, self._find(device)))
        try:
            check_creation(self._target)
        except Exception as error:  # onnxruntime's classes have no base of their own
            raise ProviderError(
                f"{self.name}: onnxruntime cannot create it with options {texts}: {innermost(error)}"
            ) from error

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return {**({"device": self._device} if self._device else {}), **self._target.options}

    @classmethod
    def hardware(cls) -> list[Hardware]:
        """Return the devices that onnxruntime lists for the execution provider. Loads the library."""
        return [
            Hardware(place, {"device": str(place)}, found.device.vendor, found.device.vendor_id, dict(found.ep_metadata))
            for place, found in cls._devices().items()
        ]

    @classmethod
    def _devices(cls) -> dict[Device, Any]:
        """Return onnxruntime's devices, numbered by kind."""
        found: dict[Device, Any] = {}
        for device in devices_of(cls.library):
            if device.ep_name == cls.ep_name:
                kind = device.device.type.name.lower()
                found[Device(kind, sum(other.kind == kind for other in found))] = device
        return found

    @classmethod
    def _find(cls, wanted: str) -> Any:
        devices = {str(place): device for place, device in cls._devices().items()}
        if not devices:
            raise NoDevice(f"{cls.name}: {cls.library} lists no device of this machine")
        if wanted and wanted not in devices:
            raise NoDevice(f"{cls.name}: device is {wanted!r}; available: {', '.join(devices)}")
        return devices[wanted or next(iter(devices))]


class _Process:
    """The classes of this process: one for each execution provider of each library."""

    def __init__(self) -> None:
        self.lock = locks.lock()
        self.classes: dict[tuple[str, str], type[HostedExecutionProvider]] = {}


_PROCESS = _Process()


def ort_lite_providers() -> list[type[HostedExecutionProvider]]:
    """Return the execution providers of installed packages. Loads no library."""
    return [_provider(name, wheel.library) for wheel in find_wheels() for name in wheel.names]


def load_library(path: str) -> list[type[HostedExecutionProvider]]:
    """Return the execution providers of the library at a path, which is loaded.

    Raises ProviderError if it cannot be loaded, and NoDevice if it lists no device of this machine.
    """
    names = dict.fromkeys(device.ep_name for device in devices_of(path))
    if not names:
        raise NoDevice(f"{path} lists no device of this machine")
    return [_provider(name, path) for name in names]


def _provider(name: str, library: str) -> type[HostedExecutionProvider]:
    with _PROCESS.lock:
        key = name, os.path.realpath(library)
        if key not in _PROCESS.classes:
            members = {"name": f"{name}@onnxruntime", "ep_name": name, "library": library, "__module__": __name__}
            _PROCESS.classes[key] = type(members["name"], (HostedExecutionProvider,), members)
        return _PROCESS.classes[key]
