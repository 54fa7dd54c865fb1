"""Module-level functions that programs written for onnxruntime call."""

from ort_lite._version import __version__

package_name = "ort-lite"
version = __version__
cuda_version = ""
"""The CUDA version that the package was built with: none."""


def get_device() -> str:
    """Return the device of the default provider."""
    return "CPU"


def get_available_providers() -> list[str]:
    """Return the names of available providers by falling `priority`, then name, with the built-in ones last.

    A class with `default = False` (a sample, a reference) is left out. Sessions use the providers that they name
    (`providers=[...]`) or those of `set_default_providers`.
    """
    from ort_lite.plugins import plugins

    return plugins.available_providers()


def get_version_string() -> str:
    """Return the version of ort-lite."""
    return __version__


def enable_telemetry_events() -> None:
    """Accepted for compatibility: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Accepted for compatibility: there is no telemetry."""


def get_build_info() -> str:
    """Describe this package in one line."""
    return f"ORT Build Info: ort-lite {__version__}, build type=Python"


def has_collective_ops() -> bool:
    """Return False: collective operators are left to providers."""
    return False


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Accepted for compatibility: providers load the libraries that they need themselves."""
