"""Types of the providers that session options choose, beside or in place of the session's argument `providers`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ort_lite.options.options import NamedNumber
from ort_lite.record import Record


class OrtExecutionProviderDevicePolicy(NamedNumber):
    """The kind of device that a session prefers if no provider is named."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class EpDevice(Protocol):
    """A device that `ort_lite.get_ep_devices` lists."""

    @property
    def ep_name(self) -> str: ...
    @property
    def ep_options(self) -> Mapping[str, str]: ...
    @property
    def instance_options(self) -> Mapping[str, Any]: ...


Delegate = Callable[[Sequence[Any], Mapping[str, str], Mapping[str, str], int], Sequence[Any]]
"""(devices, metadata of the model, metadata of the runtime, how many at most) -> the chosen devices."""


class Chosen(Record):
    """A provider that the options name, with its options."""

    name: str
    options: Mapping[str, Any]


class Choice(Protocol):
    """Options that choose providers."""

    @property
    def chosen_providers(self) -> tuple[Chosen, ...]: ...
    @property
    def provider_policy(self) -> OrtExecutionProviderDevicePolicy | Delegate | None: ...
