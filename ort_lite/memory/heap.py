"""Freed memory that the C library still holds."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Whole pages that nobody uses go back to the operating system, where the C library can do that: glibc's `malloc_trim`.

    Reading and packing weights leaves holes of many megabytes in the heap. Up to 2 ms, most often less than half of one.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
