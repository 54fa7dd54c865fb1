"""Types for providers that session options choose in addition to, or instead of, the argument `providers`."""

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
    def ep_name(self) -> str:
        """The name of the provider."""

    @property
    def ep_options(self) -> Mapping[str, str]:
        """The provider options that the device needs, as texts."""

    @property
    def instance_options(self) -> Mapping[str, Any]:
        """The provider options that the device needs, as Python values."""


Delegate = Callable[[Sequence[Any], Mapping[str, str], Mapping[str, str], int], Sequence[Any]]
"""A function (devices, model metadata, runtime metadata, maximum count) that returns the chosen devices."""


class Chosen(Record):
    """A provider that the session options name, with its options."""

    name: str
    options: Mapping[str, Any]


class ProviderChoice(Protocol):
    """The members of session options that choose providers."""

    @property
    def provider_choices(self) -> tuple[Chosen, ...]:
        """The providers that the program added, in order."""

    @property
    def provider_policy(self) -> OrtExecutionProviderDevicePolicy | Delegate | None:
        """The policy or delegate that chooses devices; None if there is none."""
