"""onnxruntime's list of provider devices, device policies, and provider libraries registered by path."""

import importlib.util
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

from ort_lite import log
from ort_lite.compat.chosen import Chosen, Delegate, OrtExecutionProviderDevicePolicy
from ort_lite.compat.devices import (
    OrtCompiledModelCompatibility,
    OrtDeviceEpIncompatibilityReason,
    OrtDeviceVendorId,
    OrtHardwareDevice,
    OrtHardwareDeviceType,
    hardware_type,
)
from ort_lite.compat.ort_memory import OrtDeviceMemoryType, OrtMemoryInfo
from ort_lite.errors import Fail, InvalidArgument, NoDevice, OrtLiteError, ProviderError, format_error
from ort_lite.memory import locks
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import DEFAULT, create
from ort_lite.provider.ask import ask
from ort_lite.provider.hardware import Hardware
from ort_lite.provider.provider import API_VERSION, CPU, Device, ExecutionProvider
from ort_lite.record import Record

MAX_SELECTIONS = 8
"""The maximum number of devices that a delegate may choose, as in onnxruntime."""
_VENDORS = {"GenuineIntel": ("Intel", OrtDeviceVendorId.INTEL), "AuthenticAMD": ("AMD", OrtDeviceVendorId.AMD)}
_PREFERRED = {
    OrtExecutionProviderDevicePolicy.DEFAULT: OrtHardwareDeviceType.CPU,
    OrtExecutionProviderDevicePolicy.PREFER_CPU: OrtHardwareDeviceType.CPU,
    OrtExecutionProviderDevicePolicy.PREFER_NPU: OrtHardwareDeviceType.NPU,
    OrtExecutionProviderDevicePolicy.PREFER_GPU: OrtHardwareDeviceType.GPU,
    OrtExecutionProviderDevicePolicy.MAX_PERFORMANCE: OrtHardwareDeviceType.GPU,
    OrtExecutionProviderDevicePolicy.MAX_EFFICIENCY: OrtHardwareDeviceType.NPU,
    OrtExecutionProviderDevicePolicy.MIN_OVERALL_POWER: OrtHardwareDeviceType.NPU,
}
_LIBRARIES = (".so", ".dll", ".dylib", ".pyd")
_HOST = "OnnxRuntimeExecutionProvider"
"""The provider whose class has `load_library`, which loads libraries of native code."""


class OrtSyncStream:
    """A stream, for programs that name the class. Providers order their own work and expose no stream."""

    def get_handle(self) -> int:
        """Raise ProviderError: providers of ort-lite expose no streams."""
        raise ProviderError("ort_lite's providers have no streams to hand out: copies that do not block are theirs alone")


class OrtEpDevice(Record):
    """A device together with a provider that can use it."""

    ep_name: str
    ep_vendor: str
    ep_metadata: Mapping[str, str]
    ep_options: Mapping[str, str]
    device: OrtHardwareDevice
    place: Device = CPU
    instance_options: Mapping[str, Any] = MappingProxyType({})
    """The options with which an instance for this device is created."""

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo | None:
        """Return the description of the device's memory; None if the device has no such memory."""
        if memory_type != OrtDeviceMemoryType.DEFAULT or self.place == CPU:
            return None
        return OrtMemoryInfo(self.place.kind, device_id=self.place.id)

    def create_sync_stream(self) -> OrtSyncStream:
        """Raise ProviderError: providers of ort-lite order their own work."""
        raise ProviderError(
            f"{self.ep_name} on {self.place} has no stream to hand out; session.run and IOBinding wait for what they start"
        )


def get_ep_devices() -> list[OrtEpDevice]:
    """Return the devices of this machine with the providers that can use them, the CPU provider's last.

    Imports every installed provider. A provider that fails to list its devices is skipped with a warning.
    """
    return [found for name in _names() for found in devices_of(name)]


def _names() -> list[str]:
    """Return the names of available and installed providers in order of preference, the default provider last."""
    names = dict.fromkeys((*plugins.available_providers(), *plugins.installed_providers()))
    return [*(name for name in names if name != DEFAULT), DEFAULT]


def devices_of(name: str) -> list[OrtEpDevice]:
    """Return the devices of a provider; none, with a warning, if it fails to list them."""
    try:
        cls = plugins.provider(name)
        if hasattr(cls, "hardware"):
            found: Sequence[Hardware] = ask(cls, "hardware", label=name)
        else:
            places = ask(cls, "supported_devices", label=name) or ({CPU: {}} if cls.device == CPU else {})
            found = [Hardware(place, options) for place, options in places.items()]
    except NoDevice:
        return []
    except OrtLiteError as error:
        log.warn(log.WARNING, f"{name} has not said its devices: {error}")
        return []
    origin = plugins.origin(name)
    about = {"version": origin.partition(" ")[2] or "0", "api_version": str(cls.api_version)}
    return [
        OrtEpDevice(
            name,
            origin.partition(" ")[0],
            MappingProxyType({**about, **each.metadata}),
            {key: str(value) for key, value in each.options.items()},
            _hardware(each.device, each.vendor, each.vendor_id),
            CPU if hasattr(cls, "hardware") else each.device,
            each.options,
        )
        for each in found
    ]


def _hardware(place: Device, vendor: str = "", vendor_id: int = 0) -> OrtHardwareDevice:
    """Describe a device: the vendor of the CPU; the kind of others, and their vendor if the provider knows it."""
    if place.kind == "cpu":
        name, number = _cpu_vendor()
        return OrtHardwareDevice(OrtHardwareDeviceType.CPU, int(number), name, place.id)
    return OrtHardwareDevice(hardware_type(place.kind), vendor_id, vendor, place.id, MappingProxyType({"kind": place.kind}))


def _cpu_vendor() -> tuple[str, OrtDeviceVendorId]:
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "ARM", OrtDeviceVendorId.ARM
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            words = file.read(4096)
    except OSError:  # not Linux
        words = platform.processor()
    return next((found for word, found in _VENDORS.items() if word in words), ("", OrtDeviceVendorId.NONE))


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """Return the distinct devices of `get_ep_devices`, the CPU first."""
    return list({_key(each.device): each.device for each in reversed(get_ep_devices())}.values())


def _key(device: OrtHardwareDevice) -> tuple[int, int, str]:
    return int(device.type), device.device_id, device.metadata.get("kind", "")


def get_hardware_device_ep_incompatibility_details(ep_name: str, hardware_device: OrtHardwareDevice) -> dict[str, Any]:
    """Return the reasons why a provider cannot use a device.

    The dict holds `reasons_bitmask` (0: it can), `notes` and `error_code`. Raises ProviderError for a provider that is not
    installed.
    """
    plugins.provider(ep_name)
    if any(_key(each.device) == _key(hardware_device) for each in devices_of(ep_name)):
        return {"reasons_bitmask": 0, "notes": None, "error_code": 0}
    note = f"{ep_name} lists no device of type {hardware_device.type.name} with number {hardware_device.device_id}"
    return {"reasons_bitmask": int(OrtDeviceEpIncompatibilityReason.DEVICE_INCOMPATIBLE), "notes": note, "error_code": 0}


def get_model_compatibility_for_ep_devices(
    ep_devices: Sequence[OrtEpDevice], compatibility_info: str
) -> OrtCompiledModelCompatibility:
    """Return the compatibility of a compiled model with the provider of these devices.

    `compatibility_info` comes from the model's metadata; the provider's `check_compatibility` judges it. Raises InvalidArgument
    unless all devices belong to one provider, and TypeError for another kind of information.
    """
    if not isinstance(compatibility_info, str):
        raise TypeError(f"compatibility_info is {compatibility_info!r}; expected a str")
    names = {device.ep_name for device in ep_devices}
    if len(names) != 1:
        raise InvalidArgument(f"got devices of {len(names)} execution providers, expected those of one")
    name = names.pop()
    if name == DEFAULT:
        return OrtCompiledModelCompatibility.EP_NOT_APPLICABLE
    provider = create(name, dict(ep_devices[0].instance_options))
    why = ask(provider, "check_compatibility", compatibility_info, label=name)
    return OrtCompiledModelCompatibility.EP_UNSUPPORTED if why else OrtCompiledModelCompatibility.EP_SUPPORTED_OPTIMAL


# The choice of providers by session options


def select_by_policy(policy: OrtExecutionProviderDevicePolicy | Delegate, model_metadata: Mapping[str, str]) -> list[Chosen]:
    """Return the providers that a policy or delegate of session options chooses now."""
    devices = get_ep_devices()
    if isinstance(policy, OrtExecutionProviderDevicePolicy):
        announced = set(plugins.available_providers())
        fitting = (d for d in devices if d.device.type == _PREFERRED[policy] and d.ep_name in announced)
        first = next(fitting, devices[-1]) if _PREFERRED[policy] != OrtHardwareDeviceType.CPU else devices[-1]
        return [Chosen(first.ep_name, dict(first.instance_options))]
    try:
        selected = list(policy(devices, dict(model_metadata), {}, MAX_SELECTIONS))
    except Exception as error:  # the delegate is the user's code
        raise Fail(f"the delegate of set_provider_selection_policy_delegate failed: {format_error(error)}") from error
    if not selected or len(selected) > MAX_SELECTIONS or not all(isinstance(each, OrtEpDevice) for each in selected):
        raise Fail(
            f"the delegate of set_provider_selection_policy_delegate chose {selected!r}; "
            f"expected 1 to {MAX_SELECTIONS} of the devices that it was given"
        )
    return [Chosen(each.ep_name, dict(each.instance_options)) for each in selected]


# Provider libraries registered by path


class _Registrations:
    """The registrations of `register_execution_provider_library`: provider names by library name."""

    def __init__(self) -> None:
        self.lock = locks.lock()
        self.names: dict[str, list[str]] = {}


_LIBRARY = _Registrations()


def register_execution_provider_library(registration_name: str, library_path: str | os.PathLike[str]) -> None:
    """Register the providers of a Python file, a package folder, an importable module, or a library for onnxruntime.

    Every class derived from ExecutionProvider that it defines is registered by its own name, appears in `get_ep_devices`, and
    can be named in `providers`. The plugin ort-lite-onnxruntime runs a library of native code, whose execution provider NAME is
    then called NAME@onnxruntime. Raises Fail for a name that is already registered, a missing path, a library that cannot be
    loaded, and a library of native code if the plugin is not installed.
    """
    path = os.fspath(library_path)
    with _LIBRARY.lock:
        if registration_name in _LIBRARY.names:
            raise Fail(f"execution provider library {registration_name!r} is already registered; unregister it first")
        classes = _hosted_classes(path) if _is_native(path) else _classes(registration_name, path)
        if taken := [cls.name for cls in classes if _is_taken(cls)]:
            raise Fail(f"{path}: {', '.join(sorted(taken))} is installed or registered already")
        for cls in classes:
            plugins.register_provider(cls.name, cls)
        _LIBRARY.names[registration_name] = [cls.name for cls in classes]


def unregister_execution_provider_library(registration_name: str) -> None:
    """Undo `register_execution_provider_library`. Sessions keep their providers. Raises Fail for an unknown name.

    A library of native code stays loaded until the process ends.
    """
    with _LIBRARY.lock:
        names = _LIBRARY.names.pop(registration_name, None)
        if names is None:
            raise Fail(f"execution provider library {registration_name!r} was not registered")
        for name in names:
            plugins.unregister_provider(name)


def _is_taken(cls: type[ExecutionProvider]) -> bool:
    """Return True if another provider has the name. A class that an installed package brings may be registered once."""
    if any(cls.name in names for names in _LIBRARY.names.values()):
        return True
    return cls.name in plugins.installed_providers() and plugins.provider(cls.name) is not cls


def _is_native(path: str) -> bool:
    return path.lower().endswith(_LIBRARIES) or ".so." in os.path.basename(path)


def _hosted_classes(path: str) -> list[type[ExecutionProvider]]:
    """Return the providers of a library that implements onnxruntime's C interface for execution providers."""
    if _HOST not in plugins.installed_providers():
        raise Fail(f"{path} is a library of native code for onnxruntime: to run it, install the plugin ort-lite-onnxruntime")
    classes: list[type[ExecutionProvider]] = ask(plugins.provider(_HOST), "load_library", path, label=_HOST, error=Fail)
    return classes


def _classes(name: str, path: str) -> list[type[ExecutionProvider]]:
    module = _module(name, path)
    classes = [
        found
        for found in vars(module).values()
        if isinstance(found, type)
        and issubclass(found, ExecutionProvider)
        and found.name
        and f"{found.__module__}.".startswith(f"{module.__name__}.")
    ]
    if not classes:
        raise Fail(
            f"{path} defines no execution provider; expected a class derived from ort_lite.provider.ExecutionProvider "
            f"with a name (provider API {API_VERSION}, docs/writing-a-provider.md)"
        )
    return classes


def _module(name: str, path: str) -> ModuleType:
    """Import the module at a path or with a name."""
    try:
        if not os.path.exists(path):
            return _import_module(path)
        file = os.path.join(path, "__init__.py") if os.path.isdir(path) else path
        own = f"ort_lite_library_{name}"
        folders = [path] if os.path.isdir(path) else None
        spec = importlib.util.spec_from_file_location(own, file, submodule_search_locations=folders)
        if spec is None or spec.loader is None:
            raise Fail(f"{path} is no Python file and no package's folder")
        module = sys.modules[own] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except OrtLiteError:
        raise
    except (Exception, SystemExit) as error:
        raise Fail(f"execution provider library {name!r}: {path} cannot be imported: {format_error(error)}") from error


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise Fail(f"{name} does not exist; expected a Python file, a package's folder or the name of a module")
    return importlib.import_module(name)
