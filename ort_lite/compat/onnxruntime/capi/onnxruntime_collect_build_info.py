"""Versions of CUDA's run time library."""


def find_cudart_versions(build_env: bool = False, build_cuda_version: str | None = None) -> list[str]:
    """Return nothing: ort_lite's own providers use no CUDA."""
    return []
