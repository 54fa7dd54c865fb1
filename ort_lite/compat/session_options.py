"""SessionOptions as onnxruntime has them: those that sessions read, and the ways in which programs set them."""

import os
from collections.abc import Mapping, Sequence

from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.options import options as core
from ort_lite.options.chosen import Chosen, Delegate, EpDevice, OrtExecutionProviderDevicePolicy
from ort_lite.options.context_data import ReadContext


class SessionOptions(core.SessionOptions):
    """How a session is made, its providers included. See `ort_lite.options.options.SessionOptions` for the attributes."""

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

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """The session takes a provider for the kind of device that is preferred, and the CPU's behind it."""
        self._policy = OrtExecutionProviderDevicePolicy(policy)

    def set_provider_selection_policy_delegate(self, delegate: Delegate) -> None:
        """As above; which devices, `delegate(ep_devices, model_metadata, runtime_metadata, max_selections)` says."""
        if not callable(delegate):
            raise InvalidArgument(f"set_provider_selection_policy_delegate: got {delegate!r}, expected a function")
        self._policy = delegate

    def set_ep_context_data_read_func(self, read_func: ReadContext, max_data_size: int) -> None:
        """Contexts that a compiled model has outside of itself come from `read_func(name, buffer)`, not from files beside it; at most
        `max_data_size` bytes each.
        """
        if max_data_size <= 0:
            raise InvalidArgument(
                f"set_ep_context_data_read_func: max_data_size is {max_data_size!r}, expected a number above 0"
            )
        self._context_reader = (read_func, int(max_data_size))

    def clear_ep_context_data_read_func(self) -> None:
        """Contexts come from files again."""
        self._context_reader = None

    def register_custom_ops_library(self, path: str) -> None:
        """Raises NotImplemented: libraries of operators for onnxruntime's C interface are not loaded."""
        raise NotSupported(
            f"register_custom_ops_library({os.fspath(path)!r}): libraries for onnxruntime's C interface are not loaded; write the "
            f"operators as a provider (docs/writing-a-provider.md, `ort_lite.provider.kernels`), in a package or by register_provider()"
        )


__all__ = ["SessionOptions"]
