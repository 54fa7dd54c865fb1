"""Versions of the CUDA runtime library."""


def find_cudart_versions(build_env: bool = False, build_cuda_version: str | None = None) -> list[str]:
    """Return an empty list: ort_lite's own providers do not use CUDA."""
    return []
