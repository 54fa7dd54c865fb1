"""Hardware that a provider uses although its values are in the CPU's memory, as `ort_lite.get_ep_devices` lists it.

A class has the ability if it has the classmethod `hardware`; its `supported_devices` are those with memory of their own.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from ort_lite.provider.provider import Device
from ort_lite.record import Record


class Hardware(Record):
    """A device of this machine with the options of a provider instance that computes on it."""

    device: Device
    options: Mapping[str, Any]
    vendor: str = ""
    vendor_id: int = 0
    metadata: Mapping[str, str] = MappingProxyType({})
    """Facts about the provider on this device, such as the name of the processor."""


class ListsHardware(Protocol):
    """A provider class that lists the hardware it can compute on."""

    def hardware(self) -> Sequence[Hardware]:
        """Return the hardware, that which it uses by default first. Raises NoDevice or ProviderError."""
