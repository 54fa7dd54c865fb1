"""What a process that dies of a signal can still say: a page that its parent sees too, and a handler that writes on it."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
import tempfile
from collections.abc import Callable
from typing import Any

FATAL = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
SIZE = 16 * mmap.PAGESIZE
_HEAD = 8
"""Bytes of the text's length."""
_SA_SIGINFO, _SA_NODEFER, _SA_RESETHAND = 0x4, 0x40000000, 0x80000000
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Note:
    """Shared with the processes that are forked from this one."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE)

    def write(self, text: str) -> None:
        data = text.encode()[: SIZE - _HEAD]
        self._memory[_HEAD : _HEAD + len(data)] = data
        self._memory[:_HEAD] = len(data).to_bytes(8, "little")

    @property
    def text(self) -> str:
        size = int.from_bytes(self._memory[:_HEAD], "little")
        return self._memory[_HEAD : _HEAD + size].decode(errors="replace")


class _SigAction(ctypes.Structure):
    """Of Linux's C libraries on 64 bits."""

    _fields_ = (
        ("handler", _Handler),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_kept: list[Any] = []


def watch(note: Note, tell: Callable[[int | None], str]) -> None:
    """From now on, a fatal signal of this process leaves `tell(address of the fault)` and Python's traceback in the note.

    The address is None where there is none: another signal, an address that is not canonical, an access that is not aligned.

    The handler is Python: it works where native code that was called without the GIL faults, which is what kernels are.
    The signal then kills the process as if there were no handler.
    """

    def handle(signum: int, info: int, context: int) -> None:
        address = ctypes.c_uint64.from_address(info + 16).value if signum in (signal.SIGSEGV, signal.SIGBUS) else 0
        lines = [signal.Signals(signum).name, tell(address or None)]
        note.write("\n".join(lines))
        with tempfile.TemporaryFile() as file:
            faulthandler.dump_traceback(file, all_threads=False)
            file.seek(0)
            note.write("\n".join([*lines, file.read().decode(errors="replace")]))
        os.kill(os.getpid(), signum)

    action = _SigAction(_Handler(handle), flags=_SA_SIGINFO | _SA_NODEFER | _SA_RESETHAND)
    _kept.append(action)
    for signum in FATAL:
        if ctypes.CDLL(None).sigaction(int(signum), ctypes.byref(action), None):
            raise OSError(f"no handler could be installed for signal {signum}")
