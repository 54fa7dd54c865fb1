"""The session, and the stages in a row that make one."""

from typing import Any

from ort_lite.session.session import Session

__all__ = ["Session"]


def __getattr__(name: str) -> Any:
    """Names that were here before they moved."""
    from ort_lite.plugins.moved import moved_name

    return moved_name(__name__, name)
