"""The session and the stages that create it."""

from typing import Any

from ort_lite.session.session import Session

__all__ = ["Session"]


def __getattr__(name: str) -> Any:
    """Resolve a name that has moved to another module."""
    from ort_lite.plugins.moved import resolve_name

    return resolve_name(__name__, name)
