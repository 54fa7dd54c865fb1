"""A registered name in onnxruntime, which offers an OrtEpDevice for each device of the provider."""

from collections.abc import Mapping, Sequence
from ctypes import c_void_p, sizeof
from typing import Any

from ort_lite.errors import NoDevice, ProviderError
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import create
from ort_lite.provider import CPU, Device, ExecutionProvider
from ort_lite.provider.ask import ask
from ort_lite_ep.c_api import CApi
from ort_lite_ep.devices import Devices
from ort_lite_ep.provider import own_name

_CPU = 0  # OrtHardwareDeviceType
_DEVICE = "device"  # the key in the metadata of an OrtEpDevice
_FITS, _FITS_NOT = 1, 3  # OrtCompiledModelCompatibility


class Factory:
    """A registered name: its OrtEpFactory, and the provider's devices with the options of an instance for each."""

    def __init__(self, name: str) -> None:
        self.name, self.address = name, 0
        self.devices = _devices_of(name)
        self._copiers: dict[Device, ExecutionProvider] = {}

    @property
    def away(self) -> bool:
        """Return True if a device has memory of its own."""
        return any(device != CPU for device in self.devices)

    def offer(self, api: CApi, devices: Devices, hardware: Sequence[int], found: int, room: int) -> int:
        """Write an OrtEpDevice for each device to `found`, and return how many there are.

        The hardware is the CPU for each of them: onnxruntime itself finds no other.
        """
        host = next((each for each in hardware if api.other("HardwareDevice_Type", each) == _CPU), None)
        if host is None:
            return 0
        offers = list(self.devices.items())[:room]
        for k, (device, options) in enumerate(offers):
            self._create_ep_device(api, host, {_DEVICE: device}, options, found + k * sizeof(c_void_p))
            if device != CPU:
                info = devices.register(api, device, self.copier)
                api.call("EpDevice_AddAllocatorInfo", c_void_p.from_address(found + k * sizeof(c_void_p)), info)
        if not offers:
            self._create_ep_device(api, host, {}, {}, found)
        return len(offers) or 1

    def _create_ep_device(
        self, api: CApi, host: int, metadata: Mapping[str, Any], options: Mapping[str, Any], found: int
    ) -> None:
        pairs = [api.new_pairs(entries) for entries in (metadata, options)]
        try:
            api.call("CreateEpDevice", self.address, host, *pairs, found)
        finally:
            for each in pairs:
                api.other("ReleaseKeyValuePairs", each)

    def copier(self, device: Device) -> ExecutionProvider:
        """Return a provider whose transfer copies to a device outside of sessions. It lives as long as the factory."""
        found = self._copiers.get(device)
        return found or self._copiers.setdefault(device, create(own_name(self.name), dict(self.devices[device])))

    def device(self, metadata: Mapping[str, str]) -> Device | None:
        """Return the device of an OrtEpDevice with this metadata; None if the provider names no devices."""
        return next((device for device in self.devices if str(device) == metadata.get(_DEVICE)), None)

    def options(self, device: Device | None, given: Mapping[str, str], alone: bool) -> dict[str, Any]:
        """Return the options of an instance for a device.

        Unless the device was chosen alone, the `given` options have those of the last OrtEpDevice, and the first one counts.
        """
        own = {} if device is None else self.devices[device]
        return {**own, **given} if alone else {**given, **own}

    def check_device(self, provider: ExecutionProvider, device: Device | None) -> None:
        """Raise ProviderError for a provider whose options select another device than the OrtEpDevice that was chosen."""
        if device is not None and provider.device != device:
            raise ProviderError(
                f"{self.name} was chosen for {device}, and its options are of {provider.device}; "
                "choose one of onnxruntime.get_ep_devices() by SessionOptions.add_provider_for_devices"
            )

    def fits(self, saved: str) -> int:
        """Return whether a compiled model can be loaded, as a number of onnxruntime. Creating its session tells the reason."""
        provider = create(own_name(self.name), dict(next(iter(self.devices.values()), {})))
        why = ask(provider, "check_compatibility", saved, label=self.name)
        return _FITS if why is None else _FITS_NOT


def _devices_of(name: str) -> dict[Device, dict[str, Any]]:
    try:
        return dict(ask(plugins.provider(own_name(name)), "supported_devices", label=name))
    except NoDevice:
        return {}  # creating an instance says why
