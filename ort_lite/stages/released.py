"""Arrays that were given up: type and shape of a constant without its elements."""

from typing import Any

import numpy as np

from ort_lite.errors import RuntimeException
from ort_lite.graph import Value


class Released(np.ndarray[Any, np.dtype[Any]]):
    """Stands for a constant that compiled partitions hold in a form of their own. Its elements mean nothing."""


def released(array: Any) -> Released:
    """Of the array's type and shape, in the memory of one element."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape).view(Released)


def check_there(value: Value, why: str) -> None:
    """Raises RuntimeException for a constant that was given up."""
    if isinstance(value.constant, Released):
        raise RuntimeException(f"constant {value.name!r} was given up when the session was made; {why} needs it")
