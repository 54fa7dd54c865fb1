"""Types for providers that session options choose in addition to, or instead of, the argument `providers`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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


Delegate = Callable[[Sequence[Any], Mapping[str, str], Mapping[str, str], int], Sequence[Any]]
"""A function (devices, model metadata, runtime metadata, maximum count) that returns the chosen devices."""


class Chosen(Record):
    """A provider that the session options name, with its options."""

    name: str
    options: Mapping[str, Any]
