"""Checks of a provider's options, and of the device that they select."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from ort_lite.errors import OrtLiteError
from ort_lite.provider.provider import CPU
from ort_lite.testing.checks.tries import call_for, format_exception, new_result, problem
from ort_lite.testing.kit import Finding, Kit

IDS = ("device_id", "device", "id")
NOWHERE = 1 << 20
"""No machine has so many devices."""


def settings(kit: Kit) -> list[Finding]:
    """Check that impossible values and unknown options are rejected by an error of ort_lite's that names the option."""
    wrong: list[tuple[str, Any]] = [("an_option_that_nobody_knows", 1)]
    for name, value in _options(kit).items():
        wrong += [(name, other) for other in _other_types(value)]
        wrong += [(name, NOWHERE)] * (name in IDS and _is_number(value))
    return [Finding("settings", "", text) for name, value in wrong for text in _check_option(kit, name, value)]


def _options(kit: Kit) -> dict[str, Any]:
    found: Any = kit.make().get_options()
    return found if isinstance(found, dict) else {}  # a finding of `contract`


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _other_types(value: Any) -> Iterator[Any]:
    """Return values of the wrong type: no number for a number, and no bool for a switch."""
    if _is_number(value) or isinstance(value, bool):
        yield from ("neither a number nor yes or no", [value])


def _check_option(kit: Kit, name: str, value: Any) -> Iterator[str]:
    error = call_for(partial(kit.make, **{name: value}))
    if not isinstance(error, Exception):
        yield f"it took {name}={value!r}; expected ProviderError"
    elif not isinstance(error, OrtLiteError):
        yield f"{name}={value!r} raised {format_exception(error)}; expected ProviderError"
    elif name not in str(error) and str(value) not in str(error):
        yield f"{name}={value!r} raised {format_exception(error)}, which does not name the option"


def devices(kit: Kit) -> list[Finding]:
    """Check that the device option selects the device of values, memory and results, next to another instance's."""
    found = []
    for name in [name for name, value in _options(kit).items() if name in IDS and _is_number(value)]:
        others = [call_for(partial(kit.make, **{name: k})) for k in (0, 1)]
        on = [str(one.device) for one in others if not isinstance(one, Exception) and one.device.kind != CPU.kind]
        if len(set(on)) < len(on):
            found.append(Finding("devices", "", f"{name}=0 and {name}=1 are both {on[0]}"))
        for k, one in enumerate(others):
            found += (
                [] if isinstance(one, Exception) else [Finding("devices", f"{name}={k}", t) for t in _wrong(kit, one, name, k)]
            )
    return found


def _wrong(kit: Kit, provider: Any, name: str, k: int) -> Iterator[str]:
    if provider.device.kind != CPU.kind and provider.device.id != k:
        yield f"it is on {provider.device}"
    if str(provider.get_options().get(name)) != str(k):
        yield f"get_options() gives {name}={provider.get_options().get(name)!r}"
    for case in kit.some[:2]:
        got = new_result(kit, case.model, case.feed, provider)
        text = problem(kit, got, case.expected, case)
        if text is not None:
            yield f"{case.name}: {text}"
