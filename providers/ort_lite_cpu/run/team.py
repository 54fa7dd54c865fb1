"""The process-wide team of worker threads, which shares the parts of one instruction at a time with a run's leader.

Workers are native threads without Python state: no GIL, nothing to hang at exit. The leader is the thread that called
`run()`. One run at a time has the workers, as many as it asked for; others find them taken and run alone. The parts of
an instruction are fixed by its program, so who ran what changes no bit of a result: workers also take over the
leader's floating-point mode. How parts are shared: work_item.py.

Idle workers pause, yield the core for 50 us (for up to 1 ms while others end a shared instruction), then sleep: on a futex (Linux on
x86-64 and AArch64), on a condition variable (other systems with pthreads). Elsewhere, on Windows, there are no workers: runs are right,
and serial.
Where another thread wants a worker's core, the worker gives it up between two parts, and sleeps as soon as it has nothing to do:
it is not stopped with a part in its hands, for which the leader would wait.
On Linux workers ask for short slices of time (6.12 and later hear them): one that wakes on a core where another thread computes or
spins then does not wait for the end of that thread's slice, milliseconds, while the leader waits for its part.
On Linux a leader that finds itself on another core first takes this core out of its workers' affinity: woken there,
where Linux likes to put them, they would wait for the leader to leave.
"""

import atexit
import ctypes
import os
import platform
import struct
import sys
import threading
import time
import warnings
from typing import Any

from ort_lite.native.loader import load
from ort_lite.native.spec import Spec
from ort_lite_cpu.run import interrupt, work_item
from ort_lite_cpu.run.work_item import MAX_PARTS

PATIENCE_NS = 50_000  # that an idle worker yields its core before it sleeps
SPECS = (Spec.plain(work_item.serve, "i64(i64)"), Spec.plain(work_item.dismiss, "i64(i64)"))
_FRAMES = interrupt.FRAME_NBYTES * MAX_PARTS
SLICE_NS = 100_000  # of time on a core: the least that Linux takes
_SYSCALLS = {"x86_64": (202, 186, 314), "aarch64": (98, 178, 274)}  # futex, gettid, sched_setattr
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period


def specs(threads: int) -> tuple[Spec, ...]:
    """Return the specs that a run of so many threads needs besides its kernels: loaded together, for a fast first run."""
    return SPECS if threads > 1 and os.name == "posix" else ()


class Team:
    """Threads of this process that work for one run at a time, its leader included. Starts with the leader alone.

    A forked child has none of its parent's threads: there the team is as new, and grows at the next run. At exit the
    workers leave once they have finished the parts that they hold.
    """

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(work_item.CONTROL_NBYTES + 64)
        self._frames: Any = None
        """Of the workers, by their numbers: see `interrupt`."""
        self.control = (ctypes.addressof(self._memory) + 63) & ~63
        self.asked = 1
        self._refused = False
        self._lock = threading.Lock()
        self._workers: list[ctypes.c_size_t] = []
        self._registered = False
        self._serve = self._dismiss = 0  # addresses of native code

    @property
    def threads(self) -> int:
        """Threads that exist, the leader included: less than `asked` where the system gives no more."""
        return len(self._workers) + 1

    def grow(self, threads: int) -> None:
        """Starts workers until there are `threads` threads, at most MAX_PARTS. Cheap where they exist; thread-safe.

        Warns if the system refuses; runs then use what there is, with the same results.
        """
        with self._lock:
            if threads <= self.asked:
                return
            if os.name == "posix":
                self._start_up_to(threads)
                self._refused = self.threads < min(threads, MAX_PARTS)
            self.asked = threads

    def retry(self) -> None:
        """The next run asks again for workers that the system refused. When a session is made."""
        if self._refused:
            self._refused, self.asked = False, self.threads

    def frames(self) -> list[tuple[int, int]]:
        """The targets of `interrupt.send` that are workers."""
        slots = ((number, work_item.SLOTS + work_item.SLOT_NBYTES * number) for number in range(1, self.threads))
        return [(self._get(slot + work_item.THREAD_ID), self._frame(number)) for number, slot in slots]

    def close(self) -> None:
        """Ends the workers and waits for them, at most for the parts that they hold. Later runs go alone."""
        with self._lock:
            self._refused, self.asked = False, sys.maxsize
            workers, self._workers = self._workers, []
            if workers:
                ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self._dismiss)(self.control)
            for worker in workers:
                ctypes.CDLL(None).pthread_join(worker, None)

    def _start_up_to(self, threads: int) -> None:
        library = ctypes.CDLL(None)
        if not self._workers:
            self._open(library)
        for number in range(len(self._workers) + 1, min(threads, MAX_PARTS)):
            problem = self._start(library, number)
            if problem:
                warnings.warn(
                    f"thread team: worker {number} of {threads - 1} could not be started: {os.strerror(problem)}. "
                    f"Runs use {self.threads} threads. Raise the limit on processes, or ask for fewer threads.",
                    RuntimeWarning,
                    stacklevel=4,
                )
                return

    def _open(self, library: ctypes.CDLL) -> None:
        """Loads the workers' code and fills in the constants of the control block."""
        self._serve, self._dismiss = load(SPECS)
        words = {work_item.YIELD: "sched_yield", work_item.CLOCK: "clock_gettime"}
        words |= {work_item.LOCK: "pthread_mutex_lock", work_item.UNLOCK: "pthread_mutex_unlock"}
        words |= {work_item.WAIT: "pthread_cond_wait", work_item.BROADCAST: "pthread_cond_broadcast"}
        numbers = _SYSCALLS.get(platform.machine()) if sys.platform == "linux" else None
        if numbers is not None:
            words |= {work_item.SYSCALL: "syscall", work_item.GETCPU: "sched_getcpu"}
            words |= {work_item.GETAFFINITY: "sched_getaffinity", work_item.SETAFFINITY: "sched_setaffinity"}
            self._set(work_item.FUTEX, numbers[0])
            self._set(work_item.GETTID, numbers[1])
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                nice = os.getpriority(os.PRIO_PROCESS, 0)
                _ATTRIBUTES.pack_into(
                    self._block(), work_item.ATTRIBUTES, _ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0
                )
                self._set(work_item.SETATTR, numbers[2])
        for offset, name in words.items():
            self._set(offset, ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
        self._frames = self._frames or ctypes.create_string_buffer(_FRAMES)
        library.pthread_mutex_init(ctypes.c_void_p(self.control + work_item.MUTEX), None)
        library.pthread_cond_init(ctypes.c_void_p(self.control + work_item.CONDITION), None)
        self._set(work_item.CLOCK_ID, time.CLOCK_MONOTONIC)
        self._set(work_item.PATIENCE, PATIENCE_NS)
        if not self._registered:
            self._registered = True
            os.register_at_fork(after_in_child=self._forget)
            atexit.register(self.close)

    def _start(self, library: ctypes.CDLL, number: int) -> int:
        """Starts one worker. Returns 0 or the error number of pthread_create."""
        slot = work_item.SLOTS + work_item.SLOT_NBYTES * number
        interrupting = interrupt.signal_number()
        frame = self._frame(number) if interrupting else 0
        words = {work_item.CONTROL: self.control, work_item.NUMBER: number, work_item.AVOIDS: -1, work_item.FRAME: frame}
        for offset, value in words.items():
            self._set(slot + offset, value)
        worker = ctypes.c_size_t()
        # Signals are for Python's threads, but for those that report a crash of the worker itself, or end its kernel.
        import signal  # a session of one thread starts none, and its module takes a millisecond

        heard: set[Any] = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, interrupting}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - heard)
        try:
            problem: int = library.pthread_create(
                ctypes.byref(worker), None, ctypes.c_void_p(self._serve), ctypes.c_void_p(self.control + slot)
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if problem == 0:
            self._workers.append(worker)
            self._set(work_item.STARTED, number + 1)
        return problem

    def _block(self) -> Any:
        return (ctypes.c_char * work_item.CONTROL_NBYTES).from_address(self.control)

    def _frame(self, number: int) -> int:
        return ctypes.addressof(self._frames) + interrupt.FRAME_NBYTES * number

    def _get(self, offset: int) -> int:
        return ctypes.c_int64.from_address(self.control + offset).value

    def _set(self, offset: int, value: int) -> None:
        ctypes.c_int64.from_address(self.control + offset).value = value

    def _forget(self) -> None:
        ctypes.memset(self.control, 0, work_item.CONTROL_NBYTES)
        self.asked, self._refused = 1, False
        self._workers = []
        self._lock = threading.Lock()


TEAM = Team()
