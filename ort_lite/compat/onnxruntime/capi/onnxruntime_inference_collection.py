"""onnxruntime's module of Python classes; here they are ort_lite's own."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import ort_lite
from ort_lite.compat.onnxruntime.capi import _pybind_state as C  # noqa: N812  onnxruntime's name for it
from ort_lite.errors import InvalidArgument

Session = ort_lite.InferenceSession
"""The base class of onnxruntime's InferenceSession."""


def check_and_normalize_provider_args(
    providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None,
    provider_options: Sequence[Mapping[Any, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """Return each provider name once, in order, and its options as strings.

    Warns about unavailable and repeated names. Raises InvalidArgument, a ValueError, for malformed arguments.
    """
    chosen: dict[str, dict[str, str]] = {}
    for name, options in _pairs(providers, provider_options):
        if name not in available_provider_names:
            warnings.warn(
                f"Specified provider {name!r} is not in available provider names: {', '.join(available_provider_names)}",
                stacklevel=2,
            )
        if name in chosen:
            warnings.warn(f"Duplicate provider {name!r} encountered, ignoring.", stacklevel=2)
            continue
        chosen[name] = {str(key): str(value) for key, value in options.items()}
    return list(chosen), list(chosen.values())


def _pairs(providers: Any, options: Any) -> list[tuple[str, Mapping[Any, Any]]]:
    """Return (name, options) for each provider."""
    if providers is None:
        return []
    if not isinstance(providers, Sequence) or not (options is None or isinstance(options, Sequence)):
        raise InvalidArgument("'providers' and 'provider_options' should be sequences")
    if options is not None:
        if len(providers) != len(options):
            raise InvalidArgument(f"{len(providers)} 'providers' and {len(options)} 'provider_options': expected one for each")
        pairs = list(zip(providers, options, strict=True))
    else:
        pairs = [entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, {}) for entry in providers]
    for name, chosen in pairs:
        if not isinstance(name, str) or not isinstance(chosen, Mapping):
            raise InvalidArgument(f"'providers' has {name!r} with options {chosen!r}; expected a name, or a name and a dict")
    return pairs


def __getattr__(name: str) -> Any:
    return getattr(C, name)
