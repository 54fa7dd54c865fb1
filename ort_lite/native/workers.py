"""Worker processes that compile, so that this one never imports numba and several kernels compile at once.

A worker is `python -m ort_lite.native.serve`, with pickled requests on its standard input and pickled answers on its standard
output. Workers stay for the next request, and leave after ten idle seconds or when this process does. On Linux, workers that start
together are forks of one that has imported numba (`siblings.py`).
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from time import sleep
from typing import IO, TYPE_CHECKING, Any

from ort_lite.errors import KernelCompileError, RuntimeException
from ort_lite.native import cache, siblings
from ort_lite.native.checkpoint import checkpoint
from ort_lite.native.compile_claims import CompileClaims
from ort_lite.native.compilers import warn_of_unknown_release
from ort_lite.native.cpu import Target
from ort_lite.native.progress import Progress, Reported, piece
from ort_lite.native.siblings import CAN_FORK, Sibling
from ort_lite.native.spec import Spec, symbol_of
from ort_lite.native.threads import start, submit
from ort_lite.record import Record

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Process = subprocess.Popen[bytes] | Sibling

MOST_WORKERS = 8
"""The most workers of all processes together, or the number of cores if that is less. Each takes 150 MB."""
KERNELS_A_WORKER = 4  # starting a worker takes as long as compiling about ten kernels
FEW = 2  # this many are compiled in this process if it has imported numba anyway
_SHORTEST, _LONGEST = 0.01, 0.1
"""The shortest and longest seconds between two looks at what others have compiled."""


class Worker:
    """A compiling process, started on the first request."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.spare: Sibling | None = None
        """A forked process to use for the first request instead of starting one."""
        self._given_up = False
        self._ahead: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """True if it still works on kernels requested ahead."""
        return self._ahead is not None and self._ahead.is_alive()

    def go_ahead(self, request: tuple[Any, ...]) -> None:
        """Send a request in the background; nothing waits for the answer."""

        def ask() -> None:
            with suppress(KernelCompileError, OSError):  # whatever needs the kernel will report it
                self.ask(request)

        with suppress(RuntimeException):  # no thread: the kernels are compiled when needed
            self._ahead = start("compiling ahead", ask, "ort_lite_ahead")

    def ask(self, request: tuple[Any, ...]) -> tuple[str, Any]:
        """Return ("object", bytes), ("error", text) or ("elsewhere", why). A process that has ended is replaced once.

        Raises KernelCompileError if the second process ends too, or if `give_up` kills it.
        """
        for _ in range(2):
            process = self.process or self._start()
            if self._given_up:  # called before the process existed
                process.kill()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                send(process.stdin, request)
                answer: tuple[str, Any] = receive(process.stdout)
            except (OSError, EOFError):
                self.close()
                if self._given_up:
                    break
            else:
                return answer
        raise KernelCompileError("the compiling process ended without an answer, twice; its messages are on stderr")

    def _start(self) -> Process:
        spare, self.spare = self.spare, None
        self.process = spare if spare is not None and spare.greet() else _process()
        return self.process

    def give_up(self) -> None:
        """Kill the process; `ask` then raises on its thread. Called from another thread."""
        self._given_up = True
        if self.process is not None:
            self.process.kill()

    def go_on(self) -> None:
        """Allow requests again after `give_up`, once no thread is asking any more."""
        if self._given_up and self._ahead is not None:
            self._ahead.join()
        self._given_up = False

    def close(self) -> None:
        """End the process and wait for it, abandoning work that was requested ahead."""
        if self.busy and threading.current_thread() is not self._ahead:
            self.give_up()
            self.go_on()  # waits for its thread, which may just be starting a process
        spare, self.spare = self.spare, None
        if spare is not None:
            spare.close()
        process, self.process = self.process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):  # unsent bytes for a process that has ended
                    stream.close()
        process.wait()

    def forget(self) -> None:
        """Reset the state in a forked child: the process belongs to the parent."""
        self._ahead = None
        if self.process is not None:
            self.process.returncode = 0
            self.process = None
        self.spare = None


def _process(siblings: Sequence[tuple[int, int]] = ()) -> subprocess.Popen[bytes]:
    """Start a process that compiles, and that forks a sibling for each pair of descriptors for input and output."""
    # Debugging switches of Numba and Python would change the code or its messages.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))}
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    given = [str(number) for pair in siblings for number in pair]
    command = [sys.executable, "-P", "-m", "ort_lite.native.serve", *given]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with _without_interrupts():
        return subprocess.Popen(command, env=environment, pass_fds=list(map(int, given)), **pipes)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT within the block, so that a process started here never sees Ctrl-C, not even while it imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_workers = [Worker() for _ in range(MOST_WORKERS)]


def _start_together(count: int) -> None:
    """Start the first worker and have it fork others, up to `count`, which take only memory until their first request."""
    if not CAN_FORK or count < 2 or any(worker.process is not None or worker.spare is not None for worker in _workers):
        return
    spares, ends = siblings.pipes(count - 1)
    try:
        _workers[0].process = _process(ends)
    except OSError:  # the next request tries again
        return
    finally:
        for pair in ends:
            for end in pair:
                os.close(end)
    for worker, spare in zip(_workers[1:], spares, strict=False):
        worker.spare = spare


def compile_all(specs: Mapping[str, Spec], target: Target, folder: str) -> dict[str, bytes]:
    """Compile specs and return the objects by key, writing each to the cache when it is done. Raises KernelCompileError.

    Waits for what other processes are compiling (`compile_claims.py`). Callers hold the loader's lock, since a worker serves one
    request at a time. Ctrl-C kills the workers; finished objects are kept.
    """
    warn_of_unknown_release()
    here = not sys.executable or ("numba" in sys.modules and len(specs) <= FEW)
    claims = CompileClaims(folder)
    try:
        with piece(Reported()) as progress, progress.more(len(specs)):
            batch = Batch(specs, target, folder, claims, progress)
            return batch.compile_here() if here else batch.compile_there()
    finally:
        claims.close()
        for worker in _workers:
            worker.go_on()


def compile_ahead(specs: Mapping[str, Spec], target: Target, folder: str) -> None:
    """Start compiling kernels that will be needed, in one worker, which writes them to the cache. Does not wait.

    The worker claims them like any process: whoever needs one meanwhile compiles it or waits for it. Callers hold the loader's
    lock.
    """
    worker = _workers[0]
    if sys.executable and not worker.busy and cache.make_folder(folder):
        _start_together(min(cores(), MOST_WORKERS))
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            worker.go_ahead(("ahead", [(key, pickle.dumps(spec)) for key, spec in specs.items()], target, folder))


class Batch:
    """The kernels that one call needs: those that this process compiles, and those that it waits for."""

    def __init__(
        self, specs: Mapping[str, Spec], target: Target, folder: str, claims: CompileClaims, progress: Progress
    ) -> None:
        self._target, self._folder, self._claims, self._progress = target, folder, claims, progress
        self._waiting = dict(sorted(specs.items(), key=_length, reverse=True))
        self._objects: dict[str, bytes] = {}
        self._most = min(-(-len(specs) // KERNELS_A_WORKER), cores(), MOST_WORKERS)
        self._taken: list[Worker] = []
        self._seats: list[Seat] = []
        self._running: dict[Future[bytes], tuple[str, Seat]] = {}
        self._pause = _SHORTEST
        self._seen = 0
        """The state of the cache at the last look."""

    def compile_here(self) -> dict[str, bytes]:
        """Compile in this process, one kernel after the other."""
        while self._waiting:
            checkpoint()
            if found := self._next():
                key, spec = found
                self._finish(key, compile_here(key, spec, self._target, self._folder))
                self._claims.give(key)
            else:
                self._rest()
        return self._objects

    def compile_there(self) -> dict[str, bytes]:
        """Compile in workers.

        After an error, or once the session is no longer wanted, running compilations finish. After Ctrl-C, they are killed.
        """
        from concurrent.futures import ThreadPoolExecutor

        _start_together(self._most)
        with ThreadPoolExecutor(self._most) as pool:
            try:
                while self._waiting or self._running:
                    self._start(pool)
                    self._rest()
                    self._collect()
            except (KeyboardInterrupt, SystemExit):
                for worker in _workers:
                    worker.give_up()
                raise
        return self._objects

    def _start(self, pool: "ThreadPoolExecutor") -> None:
        """Assign a kernel to every idle worker that has a place."""
        while seat := self._seat():
            found = self._next()
            if found is None:
                self._claims.give_place(seat.place)
                self._taken.remove(seat.worker)
                return
            key, spec = found
            call = partial(compile_there, seat.worker, key, spec, self._target, self._folder)
            try:
                self._running[submit("compiling", pool, call)] = key, seat
            except RuntimeException:  # no thread: compile on this one
                self._seats.append(seat)
                self._finish(key, compile_here(key, spec, self._target, self._folder))
                self._claims.give(key)

    def _seat(self) -> "Seat | None":
        """Return a worker that may compile, or None."""
        if self._seats:
            return self._seats.pop()
        most = min(cores(), MOST_WORKERS)
        free = [worker for worker in _workers if worker not in self._taken and not worker.busy]
        room = len(self._taken) < min(self._most, most - sum(worker.busy for worker in _workers))
        place = self._claims.take_place(most) if room else None
        if place is None:
            return None
        self._taken.append(min(free, key=lambda worker: worker.process is None))
        return Seat(self._taken[-1], place)

    def _next(self) -> tuple[str, Spec] | None:
        """Claim a kernel that this process should compile. None if others compile the rest, or if nothing is left."""
        for key in list(self._waiting):
            if self._claims.take(key):
                spec = self._waiting[key]
                if not self._is_there(key):
                    del self._waiting[key]
                    return key, spec
                self._claims.give(key)
        return None

    def _collect(self) -> None:
        """Collect what workers have finished. Raises KernelCompileError."""
        for future in [future for future in self._running if future.done()]:
            key, seat = self._running.pop(future)
            self._seats.append(seat)
            self._claims.give(key)
            self._finish(key, future.result())

    def _rest(self) -> None:
        """Collect what other processes have compiled, then wait a little for them and for this process's workers. A checkpoint."""
        checkpoint()
        state = cache.state(self._folder)
        if state != self._seen:
            self._seen = state
            for key in list(self._waiting):
                self._is_there(key)
        if self._running:
            from concurrent.futures import FIRST_COMPLETED, wait

            wait(self._running, self._pause, FIRST_COMPLETED)
        elif self._waiting:
            sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST)
        self._claims.wait(bool(self._running))
        self._progress.tell()

    def _is_there(self, key: str) -> bool:
        """Return True, and take the object, if another process has compiled it."""
        data = cache.read(self._folder, key)
        if data is not None:
            self._finish(key, data)
        return data is not None

    def _finish(self, key: str, data: bytes) -> None:
        self._objects[key] = data
        self._waiting.pop(key, None)
        self._pause = _SHORTEST
        self._progress.advance()


def _length(item: tuple[str, Spec]) -> int:
    """Estimate the compile time of a kernel. Those with many operands and variants start first, so that none is left to the end."""
    return len(item[1].types) + len(item[1].statics)


class Seat(Record):
    """A worker that may compile, and its place among those of all processes."""

    worker: Worker
    place: int


def cores() -> int:
    """Return the number of cores that this process may use, considering the machine and the share of a container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = map(int, file.read().split())
    except (OSError, ValueError):  # "max": no limit
        return count
    return max(1, min(count, quota // period))


def compile_there(worker: Worker, key: str, spec: Spec, target: Target, folder: str) -> bytes:
    """Return the object of a spec, compiled by a worker.

    It is compiled here if the worker cannot start, or cannot import the very same code.
    """
    try:
        request = pickle.dumps(spec)
    except (pickle.PicklingError, AttributeError, TypeError):
        return compile_here(key, spec, target, folder)
    try:
        kind, answer = worker.ask((key, request, target))
    except OSError:  # the process could not be started
        return compile_here(key, spec, target, folder)
    if kind == "error":
        raise KernelCompileError(answer)
    if kind == "elsewhere":
        return compile_here(key, spec, target, folder)
    data: bytes = answer
    cache.write(folder, key, data)
    return data


def compile_here(key: str, spec: Spec, target: Target, folder: str) -> bytes:
    """Return the object of a spec, compiled in this process, which imports numba for it."""
    from ort_lite.native.compiler import compile_object

    data = compile_object(spec, target, symbol_of(key))
    cache.write(folder, key, data)
    return data


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message."""
    data = pickle.dumps(message)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Return the next message. Raises EOFError at the end of the stream."""
    head = stream.read(8)
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    if len(head) < 8 or len(data) < size:
        raise EOFError
    return pickle.loads(data)


@atexit.register
def close_all() -> None:
    """End all workers; the next request starts new ones."""
    for worker in _workers:
        worker.close()


def _forget_all() -> None:
    for worker in _workers:
        worker.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
