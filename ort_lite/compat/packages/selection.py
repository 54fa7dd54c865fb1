"""Selection of the variant of a model package that suits the providers of a session."""

from collections.abc import Iterable, Mapping
from typing import Any

from ort_lite import log
from ort_lite.compat.devices import OrtCompiledModelCompatibility
from ort_lite.compat.ep_devices import (
    OrtEpDevice,
    devices_of,
    get_model_compatibility_for_ep_devices,
)
from ort_lite.compat.ort_options import SessionOptions as CompatibleOptions
from ort_lite.compat.packages.manifest import Variant
from ort_lite.errors import InvalidType, OrtLiteError
from ort_lite.options.options import SessionOptions
from ort_lite.plugins.selection import DEFAULT
from ort_lite.record import Record

_SCORES = {
    OrtCompiledModelCompatibility.EP_SUPPORTED_OPTIMAL: 100,
    OrtCompiledModelCompatibility.EP_SUPPORTED_PREFER_RECOMPILATION: 50,
    OrtCompiledModelCompatibility.EP_NOT_APPLICABLE: 0,
}


class VariantTarget(Record):
    """The provider that a variant is selected for: its devices, and the options of its instances in a session."""

    name: str
    devices: tuple[OrtEpDevice, ...]
    instances: tuple[Mapping[str, Any], ...]


class ModelPackageOptions:
    """The execution provider that variants are selected for: the first one of session options, the CPU provider by default."""

    def __init__(self, sess_options: SessionOptions) -> None:
        """Ask the options for their providers, also their policy. Raises the errors of a delegate, and InvalidType."""
        if not isinstance(sess_options, SessionOptions):
            raise InvalidType(f"ModelPackageOptions: got {type(sess_options).__name__}, expected SessionOptions")
        chosen = CompatibleOptions.of(sess_options).choose_providers({})
        name = chosen[0][0] if chosen else DEFAULT
        devices = devices_of(name)
        own = [options for provider, options in chosen if provider == name]
        placed = [device for device in devices if any(device.instance_options.items() <= each.items() for each in own)]
        instances = tuple(device.instance_options for device in placed) or ({},)
        self._target = VariantTarget(name, tuple(placed or devices), instances)


def select(variants: Iterable[Variant], target: VariantTarget) -> Variant | None:
    """Return the variant that the provider supports best, the first of equal ones; None if it supports none."""
    scores = [(score, variant) for variant in variants if (score := _score(variant, target)) is not None]
    return max(scores, key=lambda pair: pair[0], default=(0, None))[1]


def _score(variant: Variant, target: VariantTarget) -> int | None:
    """Return a higher number for a variant that suits the provider better; None for one that it does not support."""
    if variant.text("ep") != target.name:
        return None
    kind, devices = (variant.text("device") or "").lower(), target.devices
    if kind:
        devices = tuple(each for each in devices if each.device.type.name.lower() == kind)[:1]
        if not devices:
            return None
    info = variant.text("compatibility_string")
    if not info or not devices:
        return 0
    try:
        return _SCORES.get(get_model_compatibility_for_ep_devices(devices, info))
    except OrtLiteError as error:
        log.warn(log.WARNING, f"{target.name} cannot judge the variant {variant.name!r} of a model package: {error}")
        return None
