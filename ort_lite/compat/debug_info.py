"""The facts for a bug report."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from ort_lite._version import __version__
from ort_lite.compat.ep_devices import get_ep_devices
from ort_lite.plugins import plugins


def print_debug_info() -> None:
    """Print versions, the platform, providers and their devices. Imports every installed provider."""
    lines = [
        f"ort-lite version: {__version__}",
        f"platform: {platform.platform()}",
        f"Python: {sys.version.split()[0]} at {sys.executable}",
        *(f"{name}: {_version_of(name)}" for name in ("numpy", "numba", "llvmlite")),
        "",
        "Execution providers and their devices:",
        *(f"{each.ep_name} ({plugins.origin(each.ep_name)}): {each.place}" for each in get_ep_devices()),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
