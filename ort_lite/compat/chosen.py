"""The providers that session options ask for themselves, beside or in place of the session's argument `providers`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ort_lite.errors import InvalidArgument
from ort_lite.options.enums import NamedNumber
from ort_lite.record import Record


class OrtExecutionProviderDevicePolicy(NamedNumber):
    """Which kind of device a session prefers where nobody names a provider."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class EpDevice(Protocol):
    """What `ort_lite.get_ep_devices` lists."""

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


class ChoosesProviders:
    """The part of SessionOptions that chooses providers. A session that is given `providers` does not look at it."""

    _chosen: tuple[Chosen, ...] = ()
    _policy: OrtExecutionProviderDevicePolicy | Delegate | None = None

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Adds a provider by its name, after those that are there. Whether it is installed is looked up when a session is made."""
        if not name:
            raise InvalidArgument("add_provider: got an empty name, expected that of an execution provider")
        self._chosen = (*self._chosen, Chosen(name, dict(options)))

    def add_provider_for_devices(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> None:
        """Adds the provider of these devices, an instance for each, after those that are there.

        Raises InvalidArgument for no device, for those of several providers, and for what `get_ep_devices` does not list.
        """
        listed = list(devices)
        for device in listed:
            if not hasattr(device, "ep_name"):
                raise InvalidArgument(
                    f"add_provider_for_devices: got {device!r}, expected what ort_lite.get_ep_devices() lists"
                )
        names = sorted({device.ep_name for device in listed})
        if len(names) != 1:
            what = f"devices of {' and '.join(names)}" if names else "no device"
            raise InvalidArgument(f"add_provider_for_devices: got {what}, expected one or more of one execution provider")
        made = (Chosen(device.ep_name, {**device.instance_options, **options}) for device in listed)
        self._chosen = (*self._chosen, *made)

    def has_providers(self) -> bool:
        """Whether these options say which providers run the model."""
        return bool(self._chosen) or self._policy is not None

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """The session takes a provider for the kind of device that is preferred, and the CPU's behind it."""
        self._policy = OrtExecutionProviderDevicePolicy(policy)

    def set_provider_selection_policy_delegate(self, delegate: Delegate) -> None:
        """As above; which devices, `delegate(ep_devices, model_metadata, runtime_metadata, max_selections)` says."""
        if not callable(delegate):
            raise InvalidArgument(f"set_provider_selection_policy_delegate: got {delegate!r}, expected a function")
        self._policy = delegate

    @property
    def chosen_providers(self) -> tuple[Chosen, ...]:
        """Those that were added, in order."""
        return self._chosen

    @property
    def provider_policy(self) -> OrtExecutionProviderDevicePolicy | Delegate | None:
        """What chooses a provider where none was added; None: nothing does."""
        return self._policy


__all__ = ["ChoosesProviders", "Chosen", "Delegate", "EpDevice", "OrtExecutionProviderDevicePolicy"]
