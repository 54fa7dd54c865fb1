"""Freed memory that the C library still holds."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Return unused pages to the operating system, if the C library can: `malloc_trim` of glibc.

    Reading and packing weights leaves holes of many megabytes in the heap. Takes up to 2 ms, usually less than 0.5 ms.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
