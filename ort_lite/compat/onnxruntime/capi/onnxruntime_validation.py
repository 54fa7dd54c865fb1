"""The system checks that onnxruntime runs on import."""

from ort_lite.compat.release import RELEASE


def check_distro_info() -> None:
    """Do nothing. Accepted for compatibility: ort_lite reports an unsupported system when it is imported."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """Return the name, the version and an empty CUDA version."""
    return "onnxruntime", RELEASE, ""


def check_training_module() -> tuple[bool, str, str, str]:
    """Return False, for the missing ORTModule, and the package information."""
    return False, *get_package_name_and_version_info()
