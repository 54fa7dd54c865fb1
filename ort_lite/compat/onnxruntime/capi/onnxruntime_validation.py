"""Checks of the system that onnxruntime makes when it is imported."""

from ort_lite.compat.release import RELEASE


def check_distro_info() -> None:
    """Accepted for compatibility: what ort_lite cannot run on it says when it is imported."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """(name, version, version of CUDA, which is empty)."""
    return "onnxruntime", RELEASE, ""


def check_training_module() -> tuple[bool, str, str, str]:
    """Report that there is no ORTModule, with what `get_package_name_and_version_info` says."""
    return False, *get_package_name_and_version_info()
