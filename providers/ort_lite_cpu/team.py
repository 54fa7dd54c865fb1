"""The process-wide team of worker threads, which shares the parts of one instruction at a time with a run's leader.

Workers are native threads without Python state: no GIL, nothing to hang at exit. The leader, the thread that called
`run()`, publishes one word, `sequence << 48 | mask of parts not yet taken`, and everybody takes parts by
compare-and-swap, those of his own residue class first, whose data are in his cache. The leader waits only for parts
that somebody holds, so a worker that is late, asleep or descheduled delays nobody. One run at a time has the workers;
others find them taken and run alone. `parts` is fixed by the program, so who ran what changes no bit of a result.

Idle workers pause, yield the core for 50 us, then sleep: on a futex (Linux on x86-64 and AArch64), on a condition
variable (other systems with pthreads). Elsewhere, on Windows, there are no workers: runs are right, and serial.
On Linux a leader that finds itself on another core first takes this core out of its workers' affinity: woken there,
where Linux likes to put them, they would wait for the leader to leave.
"""

import atexit
import ctypes
import os
import platform
import signal
import sys
import threading
import time
import warnings

from ort_lite.native.lang import imin, load64, store64
from ort_lite.native.loader import load
from ort_lite.native.spec import Spec
from ort_lite_cpu.atomics import call, fetch_add, fetch_and, fetch_or, get, lowest_bit, pause, put, swap
from ort_lite_cpu.float_mode import float_mode, set_float_mode

MAX_PARTS = 48  # of one instruction: bits of the ticket's mask; also the largest team, its leader included

# The control block: byte offsets of its words. What is written by different threads has lines of its own.
# First line: the run that has the workers. Written by its leader, before the ticket that makes it visible.
TICKET, ROW, MEMORY, OWN, THREADS, FLOATS = 0, 8, 16, 24, 32, 40
PENDING = 64  # parts of the published instruction that are not finished
SLEEPING = 128  # bit k: worker k is asleep or about to be
TAKEN = 192  # 1 while a run has the workers
FAILED, STATUSES = 256, 264  # bit k: part k failed, with this status
QUIT, STARTED, PATIENCE = 704, 712, 720  # 1: workers leave; threads that exist, leader included; ns before sleep
SYSCALL, FUTEX, GETTID = 768, 776, 784  # address of syscall(), its numbers; FUTEX 0: sleep on the condition
YIELD, CLOCK, CLOCK_ID = 792, 800, 808  # address of sched_yield(), of clock_gettime(), its first argument
GETCPU, GETAFFINITY, SETAFFINITY = 816, 824, 832  # addresses; GETCPU 0: leave affinities alone
LOCK, WAIT, BROADCAST, UNLOCK = 840, 848, 856, 864  # addresses of pthread_mutex_lock(), ...
CPUS, CPUS_NBYTES = 896, 128  # scratch of the leader: a set of 1,024 CPUs
MUTEX, CONDITION = 1024, 1152
# One slot a worker: address of the control block, its number, thread id, the core it avoids; a struct timespec.
SLOTS, SLOT_NBYTES = 1280, 64
CONTROL, NUMBER, THREAD_ID, AVOIDS, TIME = 0, 8, 16, 24, 32
CONTROL_NBYTES = SLOTS + SLOT_NBYTES * MAX_PARTS

_SEQUENCE = 1 << MAX_PARTS
_MASK = _SEQUENCE - 1
_INT = 0xFFFFFFFF
_WAIT_BITSET, _WAKE_BITSET = 9 | 128, 10 | 128  # of futex(), private to the process
_PAUSES = 64  # before a waiting thread gives way to others
_SYSCALLS = {"x86_64": (202, 186), "aarch64": (98, 178)}  # futex, gettid


# --- Native: parts of the published instruction
def _run(control: int, row: int, part: int) -> None:
    status = call(load64(row), load64(row + 8), load64(control + MEMORY), part, load64(row + 16))
    if status != 0:
        store64(control + STATUSES + 8 * part, status)
        fetch_or(control + FAILED, 1 << part)


def _take(control: int, member: int) -> None:
    """Runs parts until none is left to take."""
    own = load64(control + OWN) << member
    while True:
        ticket = get(control + TICKET)
        mask = ticket & _MASK
        if mask == 0:
            return
        part = lowest_bit(mask & own or mask)
        if swap(control + TICKET, ticket, ticket ^ (1 << part)):
            # What we read is this ticket's: the leader cannot pass the instruction while our part is pending.
            if load64(control + FLOATS) != float_mode():
                set_float_mode(load64(control + FLOATS))
            _run(control, load64(control + ROW), part)
            fetch_add(control + PENDING, -1)


# --- Native: the leader
def hire(control: int, threads: int, memory: int) -> int:
    """Takes the workers for a run of at most `threads` threads. Returns `control`, or 0 if the run is to go alone."""
    if control == 0 or threads < 2:
        return 0
    threads = imin(threads, load64(control + STARTED))
    if threads < 2 or not swap(control + TAKEN, 0, 1):
        return 0
    own = 1
    part = threads
    while part < MAX_PARTS:
        own |= 1 << part
        part += threads
    store64(control + OWN, own)
    store64(control + MEMORY, memory)
    store64(control + THREADS, threads)
    store64(control + FLOATS, float_mode())
    if load64(control + GETCPU) != 0:
        _keep_off(control, threads, call(load64(control + GETCPU)) & _INT)
    return control


def release(control: int) -> None:
    """Ends what `hire` began. Nobody holds a part."""
    put(control + TAKEN, 0)


def share(control: int, row: int, parts: int) -> int:
    """Runs the instruction at `row`, 2 to MAX_PARTS parts. Returns the status of the lowest part that failed, or 0."""
    store64(control + ROW, row)
    store64(control + PENDING, parts - 1)
    _publish(control, (1 << parts) - 2)
    _run(control, row, 0)
    _take(control, 0)
    pauses = 0
    while get(control + PENDING) != 0:
        pause()
        pauses += 1
        if pauses > 4 * _PAUSES:
            call(load64(control + YIELD))
    failed = get(control + FAILED)
    if failed == 0:
        return 0
    put(control + FAILED, 0)
    return load64(control + STATUSES + 8 * lowest_bit(failed))


def _publish(control: int, mask: int) -> None:
    members = (1 << load64(control + THREADS)) - 2
    sleeping = get(control + SLEEPING) & members
    if sleeping != 0:
        # Before the ticket: a worker that sets its bit from here on reads the new ticket, or misses this one and
        # keeps its bit. Cleared after the ticket, the bit of a worker that saw it and sleeps again could be lost.
        sleeping = fetch_and(control + SLEEPING, ~members) & members
    while True:
        ticket = get(control + TICKET)
        sequence = (ticket >> MAX_PARTS) + 1 & 0x7FFF  # stays positive
        if swap(control + TICKET, ticket, sequence << MAX_PARTS | mask):
            break  # dismiss() can be faster, once
    if sleeping != 0:
        _wake(control, (sleeping | sleeping >> 32) & _INT)


def _wake(control: int, members: int) -> None:
    if load64(control + FUTEX) != 0:
        word = control + TICKET + 4
        call(load64(control + SYSCALL), load64(control + FUTEX), word, _WAKE_BITSET, 0x7FFFFFFF, 0, 0, members)
    else:
        call(load64(control + LOCK), control + MUTEX)
        call(load64(control + BROADCAST), control + CONDITION)
        call(load64(control + UNLOCK), control + MUTEX)


def _keep_off(control: int, threads: int, cpu: int) -> None:
    """Takes the leader's core out of the affinity of its workers, if they may run elsewhere."""
    elsewhere = -1
    for number in range(1, threads):
        slot = control + SLOTS + SLOT_NBYTES * number
        thread = get(slot + THREAD_ID)
        if load64(slot + AVOIDS) == cpu or thread == 0:
            continue
        if elsewhere < 0:
            elsewhere = _others(control, cpu)
        store64(slot + AVOIDS, cpu)
        if elsewhere:
            call(load64(control + SETAFFINITY), thread, CPUS_NBYTES, control + CPUS)


def _others(control: int, cpu: int) -> int:
    """Writes the leader's affinity without `cpu` to CPUS. 0 if that leaves nothing, or cannot be known, else 1."""
    unknown = call(load64(control + GETAFFINITY), 0, CPUS_NBYTES, control + CPUS) & _INT
    if unknown != 0 or cpu >= 8 * CPUS_NBYTES:
        return 0
    home = control + CPUS + (cpu >> 6) * 8
    store64(home, load64(home) & ~(1 << (cpu & 63)))
    for word in range(CPUS_NBYTES >> 3):
        if load64(control + CPUS + 8 * word) != 0:
            return 1
    return 0


def dismiss(control: int) -> int:
    """Asks all workers to leave, also during a run: its leader goes on alone."""
    put(control + STARTED, 1)
    put(control + QUIT, 1)
    fetch_add(control + TICKET, _SEQUENCE)  # what is left to take stays so
    _wake(control, _INT)
    return 0


# --- Native: a worker
def serve(slot: int) -> int:
    """What a worker does, from pthread_create to dismiss()."""
    control = load64(slot + CONTROL)
    number = load64(slot + NUMBER)
    if load64(control + FUTEX) != 0:
        put(slot + THREAD_ID, call(load64(control + SYSCALL), load64(control + GETTID)))
    pauses = 0
    since = _now(control, slot)
    while True:
        ticket = get(control + TICKET)
        if get(control + QUIT) != 0:
            return 0
        if ticket & _MASK != 0 and number < load64(control + THREADS):
            _take(control, number)
            pauses = 0
            since = _now(control, slot)
            continue
        pause()
        pauses += 1
        if pauses < _PAUSES:
            continue
        if _now(control, slot) - since < load64(control + PATIENCE):
            call(load64(control + YIELD))
        else:
            fetch_or(control + SLEEPING, 1 << number)
            _sleep(control, number, ticket)
            fetch_and(control + SLEEPING, ~(1 << number))
            pauses = 0
            since = _now(control, slot)


def _sleep(control: int, number: int, ticket: int) -> None:
    """Until _wake, if the sequence is still the ticket's."""
    if load64(control + FUTEX) != 0:
        word, me = control + TICKET + 4, 1 << (number & 31)
        call(load64(control + SYSCALL), load64(control + FUTEX), word, _WAIT_BITSET, ticket >> 32, 0, 0, me)
    else:
        call(load64(control + LOCK), control + MUTEX)
        if (get(control + TICKET) ^ ticket) & ~_MASK == 0:
            call(load64(control + WAIT), control + CONDITION, control + MUTEX)
        call(load64(control + UNLOCK), control + MUTEX)


def _now(control: int, slot: int) -> int:
    """Nanoseconds, monotonic."""
    call(load64(control + CLOCK), load64(control + CLOCK_ID), slot + TIME)
    return load64(slot + TIME) * 1000000000 + load64(slot + TIME + 8)


# --- Python
class Team:
    """Threads of this process that work for one run at a time, its leader included. Starts with the leader alone.

    A forked child has none of its parent's threads: there the team is as new, and grows at the next run. At exit the
    workers leave once they have finished the parts that they hold.
    """

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(CONTROL_NBYTES + 64)
        self.control = (ctypes.addressof(self._memory) + 63) & ~63
        self.asked = 1
        self._words = (ctypes.c_int64 * (CONTROL_NBYTES // 8)).from_address(self.control)
        self._lock = threading.Lock()
        self._workers: list[ctypes.c_size_t] = []
        self._registered = False

    @property
    def threads(self) -> int:
        """Threads that exist, the leader included: less than `asked` where the system gives no more."""
        return len(self._workers) + 1

    def grow(self, threads: int) -> None:
        """Starts workers until there are `threads` threads, at most MAX_PARTS. Cheap where they exist; thread-safe.

        Warns if the system refuses; runs then use what there is, with the same results.
        """
        with self._lock:
            if threads <= self.asked or os.name != "posix":
                return
            self.asked = threads
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
                        stacklevel=2,
                    )
                    break

    def close(self) -> None:
        """Ends the workers and waits for them, at most for the parts that they hold. Later runs go alone."""
        with self._lock:
            self.asked = sys.maxsize
            workers, self._workers = self._workers, []
            if workers:
                [address] = load([Spec.plain(dismiss, "i64(i64)")])
                ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(self.control)
            for worker in workers:
                ctypes.CDLL(None).pthread_join(worker, None)

    def _open(self, library: ctypes.CDLL) -> None:
        """Fills in the constants of the control block."""
        words = {YIELD: "sched_yield", CLOCK: "clock_gettime"}
        words |= {LOCK: "pthread_mutex_lock", UNLOCK: "pthread_mutex_unlock"}
        words |= {WAIT: "pthread_cond_wait", BROADCAST: "pthread_cond_broadcast"}
        numbers = _SYSCALLS.get(platform.machine()) if sys.platform == "linux" else None
        if numbers is not None:
            words |= {SYSCALL: "syscall", GETCPU: "sched_getcpu"}
            words |= {GETAFFINITY: "sched_getaffinity", SETAFFINITY: "sched_setaffinity"}
            self._words[FUTEX // 8], self._words[GETTID // 8] = numbers
        for offset, name in words.items():
            self._words[offset // 8] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        library.pthread_mutex_init(ctypes.c_void_p(self.control + MUTEX), None)
        library.pthread_cond_init(ctypes.c_void_p(self.control + CONDITION), None)
        self._words[CLOCK_ID // 8], self._words[PATIENCE // 8] = time.CLOCK_MONOTONIC, 50_000
        if not self._registered:
            self._registered = True
            os.register_at_fork(after_in_child=self._forget)
            atexit.register(self.close)

    def _start(self, library: ctypes.CDLL, number: int) -> int:
        """Starts one worker. Returns 0 or the error number of pthread_create."""
        [address] = load([Spec.plain(serve, "i64(i64)")])
        slot = SLOTS + SLOT_NBYTES * number
        self._words[(slot + CONTROL) // 8], self._words[(slot + NUMBER) // 8] = self.control, number
        self._words[(slot + AVOIDS) // 8] = -1
        worker = ctypes.c_size_t()
        # Signals are for Python's threads, but for those that report a crash of the worker itself.
        crashes = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - crashes)
        try:
            problem: int = library.pthread_create(
                ctypes.byref(worker), None, ctypes.c_void_p(address), ctypes.c_void_p(self.control + slot)
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if problem == 0:
            self._workers.append(worker)
            self._words[STARTED // 8] = number + 1
        return problem

    def _forget(self) -> None:
        ctypes.memset(self.control, 0, CONTROL_NBYTES)
        self.asked = 1
        self._workers = []
        self._lock = threading.Lock()


TEAM = Team()
