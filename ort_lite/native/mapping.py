"""Memory for machine code on Linux: first writable, then executable, never both. Never freed, since threads may be executing it."""

import ctypes
import os
from contextlib import suppress
from functools import cache
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
"""The size in bytes of a page, the unit of memory protection."""

_READ, _READ_WRITE, _READ_EXECUTE = 1, 3, 5
_PRIVATE_ANONYMOUS = 0x22
_FAILED = (1 << 64) - 1


def executable(code: bytes) -> int:
    """Return the address of a copy of position-independent machine code. Raises OSError."""
    image = bytearray(code)
    base = reserve(len(image))
    fill(base, image, len(image))
    return base


def reserve(size: int) -> int:
    """Return the address of new writable memory. Raises OSError."""
    found: int = _function("mmap", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)(
        None, size, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0
    )
    if found == _FAILED:
        raise _error(f"{size} bytes for code")
    return found


def fill(base: int, image: bytearray, split: int) -> None:
    """Write the contents of memory from `reserve` and protect it. The first `split` bytes are code."""
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
    """Make stored instructions visible to execution on AArch64, whose instruction caches do not see stores.

    Linux does this when a page becomes executable. Other systems that run Linux programs do not document it, so GCC's function is
    called if it exists.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libgcc_s.so.1").__clear_cache(ctypes.c_void_p(base), ctypes.c_void_p(base + size))


@cache
def _function(name: str, result: Any, *parameters: Any) -> Any:
    """Declare a function of the C library on a separate handle."""
    found = getattr(ctypes.CDLL(None, use_errno=True), name)
    found.restype, found.argtypes = result, parameters
    return found


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
