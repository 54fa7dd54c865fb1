"""Module-level functions that programs written for onnxruntime call."""

from ort_lite._version import __version__


def get_device() -> str:
    """Where the default provider runs."""
    return "CPU"


def get_version_string() -> str:
    return __version__


def enable_telemetry_events() -> None:
    """Accepted for compatibility: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Accepted for compatibility: there is no telemetry."""
