"""Memory for machine code: written first, executed afterwards, never both. It stays for the life of the process, since threads may
be in it. Linux.
"""

import ctypes
import os
from contextlib import suppress
from functools import cache
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
"""Bytes of memory that are protected together."""

_READ, _READ_WRITE, _READ_EXECUTE = 1, 3, 5
_PRIVATE_ANONYMOUS = 0x22
_FAILED = (1 << 64) - 1


def executable(code: bytes) -> int:
    """The address of a copy of machine code that reaches nothing outside of itself. Raises OSError."""
    image = bytearray(code)
    base = reserve(len(image))
    fill(base, image, len(image))
    return base


def reserve(size: int) -> int:
    """The address of new memory, which nothing else uses and which can be written to. Raises OSError."""
    found: int = _function("mmap", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)(
        None, size, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0
    )
    if found == _FAILED:
        raise _error(f"{size} bytes for code")
    return found


def fill(base: int, image: bytearray, split: int) -> None:
    """Gives memory from `reserve` its contents, of which the first `split` bytes are code; nobody writes to it any more."""
    size = len(image)
    ctypes.memmove(base, (ctypes.c_char * size).from_buffer(image), size)
    for start, nbytes, access in ((0, split, _READ_EXECUTE), (split, size - split, _READ)):
        if nbytes and _function("mprotect", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(
            base + start, nbytes, access
        ):
            raise _error("memory that may be executed")
    if os.uname().machine == "aarch64":
        _synchronise(base, split)


def _synchronise(base: int, size: int) -> None:
    """Caches of instructions do not see on AArch64 what is stored. Linux takes care of that when a page becomes executable; what
    other systems do that run its programs is not written down, so GCC's function does it where there is one.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libgcc_s.so.1").__clear_cache(ctypes.c_void_p(base), ctypes.c_void_p(base + size))


@cache
def _function(name: str, result: Any, *parameters: Any) -> Any:
    """Declare a function of the C library on a handle of its own."""
    found = getattr(ctypes.CDLL(None, use_errno=True), name)
    found.restype, found.argtypes = result, parameters
    return found


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
