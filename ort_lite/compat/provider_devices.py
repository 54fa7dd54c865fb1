"""Find the provider of a device, for values that are placed in device memory before a session reads them."""

import weakref

from ort_lite.errors import InvalidArgument, NoDevice, OrtLiteError, describe
from ort_lite.memory import locks
from ort_lite.plugins import plugins
from ort_lite.plugins.instances import INSTANCES
from ort_lite.plugins.selection import create
from ort_lite.provider.ask import ask
from ort_lite.provider.forks import is_lost
from ort_lite.provider.provider import Device, ExecutionProvider


class ProviderCache:
    """A cache of one provider per device, which lasts as long as the provider is referenced."""

    def __init__(self) -> None:
        self._made: weakref.WeakValueDictionary[tuple[type[ExecutionProvider], Device], ExecutionProvider]
        self._made = weakref.WeakValueDictionary()
        self._lock = locks.lock()

    def provider(self, wanted: Device) -> ExecutionProvider:
        """Return the provider of a device: that of a session, if one is alive, or an instance for values.

        Raises InvalidArgument with the list of known devices, and of providers that failed to list theirs.
        """
        if (used := INSTANCES.of_session(wanted)) is not None:
            return used
        known: list[str] = ["cpu:0"]
        for name in plugins.installed_providers():
            try:
                cls = plugins.provider(name)
                for device, options in ask(cls, "supported_devices", label=name).items():
                    if device == wanted:
                        return self._one(cls, device, options)
                    known.append(f"{device} ({name})")
            except NoDevice:
                continue
            except OrtLiteError as error:
                known.append(f"perhaps those of {name}, but: {describe(error)}")
        raise InvalidArgument(f"no installed or registered provider has a device {wanted}; there are {', '.join(known)}")

    def _one(self, cls: type[ExecutionProvider], device: Device, options: dict[str, object]) -> ExecutionProvider:
        with self._lock:
            found = self._made.get((cls, device))
            if found is None or is_lost(found):
                found = self._made[cls, device] = create(cls, options)
            return found


provider_on = ProviderCache().provider  # process-wide, like registrations
