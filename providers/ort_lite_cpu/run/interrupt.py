"""Leaving a kernel in its middle: a signal makes a thread look at the halt word of its run, and jump out of the kernel if it is set.

A kernel computes on the memory of its run. It holds no lock, allocates nothing and calls nothing but the C library's mathematics, so
that it may be left between any two instructions, and costs nothing for it. `guard_call` notes where to return to; the signal carries
the address of the frame in which that stands, and means nothing to a thread that is in no kernel.

Linux on x86-64 and AArch64 only. Elsewhere runs end between two kernels.
"""

import ctypes
import os
import platform
import sys
import threading
from functools import cache
from typing import Any

from ort_lite.memory import locks
from ort_lite.native.lang import emitter, load64, native, pointer_i32, store64
from ort_lite.native.loader import load
from ort_lite.native.spec import Spec
from ort_lite_cpu.run.atomics import call, call_by_name, get, put
from ort_lite_cpu.run.float_mode import float_mode, set_float_mode

HALTED = -1  # the status of a kernel that was left, and of a run that a Halt stopped

# A frame: byte offsets of its words. REGISTERS is a jmp_buf of the C library: 200 bytes on x86-64, 312 on AArch64.
THREAD, ARMED, HALT, FLOATS, REGISTERS = 0, 8, 16, 24, 64
FRAME_NBYTES = REGISTERS + 512

_CODE, _VALUE = 8, 24  # of a siginfo_t: who sent the signal, and what the sender added
_QUEUED = -1  # sent by rt_tgsigqueueinfo(2)
_SYSCALLS = {"x86_64": 297, "aarch64": 240}  # its number
_DEFAULT, _IGNORED = 0, 1  # handlers
_FLAGS = 4 | 1 << 28 | 1 << 30  # SA_SIGINFO, SA_RESTART, SA_NODEFER


# --- Native
@emitter("i64(i64)")
def _set_jump(builder: Any, registers: Any) -> Any:
    """0, and another number where `_long_jump` returns here. In a function that neither changes a variable after it nor is inlined."""
    from llvmlite import ir

    result = call_by_name(builder, "_setjmp", ir.IntType(32), registers)
    result.callee.attributes.add("returns_twice")
    return builder.sext(result, ir.IntType(64))


@emitter("void(i64)")
def _long_jump(builder: Any, registers: Any) -> None:
    from llvmlite import ir

    call_by_name(builder, "_longjmp", ir.VoidType(), registers, ir.Constant(ir.IntType(32), 1))


@emitter("i64()")
def this_thread(builder: Any) -> Any:
    """Return the C library's handle of this thread."""
    from llvmlite import ir

    return call_by_name(builder, "pthread_self", ir.IntType(64))


def begin(frame: int, halt: int) -> None:
    """Makes a frame that of the calling thread, for kernels of the run that has this halt word."""
    store64(frame + HALT, halt)
    store64(frame + THREAD, this_thread())


def enter(frame: int, entry: int, descriptor: int, memory: int, part: int, parts: int) -> int:
    """Calls a kernel, which can be left if there is a frame. Returns its status."""
    if frame == 0:
        status: int = call(entry, descriptor, memory, part, parts)
        return status
    return guard_call(frame, entry, descriptor, memory, part, parts)


@native(inline=False)
def guard_call(frame: int, entry: int, descriptor: int, memory: int, part: int, parts: int) -> int:
    """Calls a kernel. Returns its status, or HALTED if it was left or the halt word is set."""
    store64(frame + FLOATS, float_mode())
    if _set_jump(frame + REGISTERS) != 0:
        set_float_mode(load64(frame + FLOATS))  # the C library's mathematics may round in another mode for a while
        return HALTED
    put(frame + ARMED, 1)
    status = HALTED
    if get(load64(frame + HALT)) == 0:  # behind the line above: whoever sets it later finds the frame armed
        status = call(entry, descriptor, memory, part, parts)
    put(frame + ARMED, 0)
    return status


def interrupt(number: int, info: int, context: int) -> None:
    """The signal's handler. Leaves the kernel that the calling thread is in, if its run is to end."""
    frame = load64(info + _VALUE)
    if pointer_i32(info + _CODE)[0] != _QUEUED or frame == 0 or get(frame + ARMED) == 0:
        return
    if load64(frame + THREAD) != this_thread() or get(load64(frame + HALT)) == 0:
        return
    put(frame + ARMED, 0)
    _long_jump(frame + REGISTERS)


INTERRUPT = Spec.plain(interrupt, "void(i64,i64,i64)")


# --- Python
class _Action(ctypes.Structure):
    """A struct sigaction of glibc."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Info(ctypes.Structure):
    """A siginfo_t with a value."""

    _fields_ = (
        ("number", ctypes.c_int),
        ("error", ctypes.c_int),
        ("code", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("process", ctypes.c_int),
        ("user", ctypes.c_uint),
        ("value", ctypes.c_uint64),
        ("rest", ctypes.c_ubyte * 96),
    )


_LOCK = locks.lock()
_frames: list[Any] = []
"""Of threads that have ended. A frame is never freed: a signal may be under way to one of its earlier threads."""


class _Frame:
    """The frame of one thread, until the thread ends."""

    def __init__(self, number: int) -> None:
        import signal

        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        self._memory = _frames.pop() if _frames else ctypes.create_string_buffer(FRAME_NBYTES)
        self.address = ctypes.addressof(self._memory)

    def __del__(self, free: list[Any] = _frames) -> None:
        free.append(self._memory)


class _Local(threading.local):
    frame: _Frame | None = None


_LOCAL = _Local()


def own_frame() -> int:
    """Address of the calling thread's frame; 0 where no kernel can be left."""
    frame = _LOCAL.frame
    if frame is None:
        number = signal_number()
        if not number:
            return 0
        frame = _LOCAL.frame = _Frame(number)
    return frame.address


def signal_number() -> int:
    """The signal that interrupts kernels, with its handler; 0 where there is none.

    SIGURG, which does nothing where nobody handles it, or else a real-time signal for which the process has no handler yet.
    """
    with _LOCK:
        return _install()[0]


@cache
def _install() -> tuple[int, int]:
    """The signal and its handler."""
    if sys.platform != "linux" or platform.machine() not in _SYSCALLS:
        return 0, 0
    import signal

    [handler] = load([INTERRUPT])
    for number in (signal.SIGURG, *range(signal.SIGRTMAX, signal.SIGRTMIN, -1)):
        if _handler(number) in (_DEFAULT, _IGNORED):
            action = _Action(handler=handler, flags=_FLAGS)
            if not ctypes.CDLL(None).sigaction(int(number), ctypes.byref(action), None):
                return int(number), handler
    return 0, 0


def _handler(number: int) -> int:
    action = _Action()
    ctypes.CDLL(None).sigaction(int(number), None, ctypes.byref(action))
    return action.handler or 0


def send(targets: list[tuple[int, int]]) -> None:
    """Has threads look at their halt words: the system's numbers of threads of this process, each with the address of its frame.

    Nothing happens to threads that have ended. Where the program has taken the signal for itself, another one is used from now on,
    which workers that there are do not hear.
    """
    with _LOCK:
        number, handler = _install()
        if _handler(number) != handler:
            _install.cache_clear()
            number, _ = _install()
    if not number:
        return
    process = os.getpid()
    for thread, frame in targets:
        info = _Info(number=number, code=_QUEUED, process=process, user=os.getuid(), value=frame)
        _syscall()(_SYSCALLS[platform.machine()], process, thread, number, ctypes.byref(info))


@cache
def _syscall() -> Any:
    function = ctypes.CDLL(None).syscall
    function.argtypes = [ctypes.c_long] * 4 + [ctypes.c_void_p]
    return function
