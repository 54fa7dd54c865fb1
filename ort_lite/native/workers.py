"""Processes that compile, so that this one never imports numba and several kernels compile at once.

A worker is `python -m ort_lite.native.serve`: pickled requests on its standard input, pickled answers on its
standard output. Workers stay for the next request, leave when idle for ten seconds, or when this process does.
"""

import atexit
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from ort_lite.errors import KernelCompileError
from ort_lite.native import cache
from ort_lite.native.cpu import Target
from ort_lite.native.spec import Spec, symbol_of

MOST_WORKERS = 4
KERNELS_A_WORKER = 4  # starting one takes as long as compiling about ten kernels
FEW = 2  # as many are compiled here where numba is imported anyway


class Worker:
    """One compiling process, started when first asked."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, request: tuple[Any, ...]) -> tuple[str, Any]:
        """("object", bytes), ("error", text) or ("elsewhere", why). A process that has gone is replaced once.

        Raises KernelCompileError if the second one goes as well.
        """
        for _ in range(2):
            process = self.process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                send(process.stdin, request)
                answer: tuple[str, Any] = receive(process.stdout)
            except (OSError, EOFError):
                self.close()
            else:
                return answer
        raise KernelCompileError("the compiling process ended without an answer, twice; its messages are on stderr")

    def _start(self) -> subprocess.Popen[bytes]:
        # Numba's and Python's switches for debugging would change the code, or its messages.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))}
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        command = [sys.executable, "-P", "-m", "ort_lite.native.serve"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        return self.process

    def close(self) -> None:
        """Ends the process and waits for it."""
        process, self.process = self.process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):  # unsent bytes for a process that has gone
                    stream.close()
        process.wait()

    def forget(self) -> None:
        """In a forked child: the process is the parent's to speak to and to wait for."""
        if self.process is not None:
            self.process.returncode = 0
            self.process = None


_workers = [Worker() for _ in range(MOST_WORKERS)]


def compile_all(specs: Mapping[str, Spec], target: Target, folder: str) -> dict[str, bytes]:
    """Objects by key; each is written to the cache as soon as it is there. Raises KernelCompileError.

    Callers hold the loader's lock: a worker serves one request at a time.
    """
    if not sys.executable or ("numba" in sys.modules and len(specs) <= FEW):
        return {key: compile_here(key, spec, target, folder) for key, spec in specs.items()}
    from concurrent.futures import ThreadPoolExecutor

    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    count = min(-(-len(specs) // KERNELS_A_WORKER), os.cpu_count() or 1, MOST_WORKERS)
    for worker in _workers[:count]:
        free.put(worker)

    def serve(key: str) -> bytes:
        worker = free.get()
        try:
            return compile_there(worker, key, specs[key], target, folder)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(count) as pool:
        return dict(zip(specs, pool.map(serve, specs), strict=True))


def compile_there(worker: Worker, key: str, spec: Spec, target: Target, folder: str) -> bytes:
    """The object of a spec, from a worker; compiled here if the worker cannot import the very same code."""
    try:
        request = pickle.dumps(spec)
    except (pickle.PicklingError, AttributeError, TypeError):
        return compile_here(key, spec, target, folder)
    kind, answer = worker.ask((key, request, target))
    if kind == "error":
        raise KernelCompileError(answer)
    if kind == "elsewhere":
        return compile_here(key, spec, target, folder)
    data: bytes = answer
    cache.write(folder, key, data)
    return data


def compile_here(key: str, spec: Spec, target: Target, folder: str) -> bytes:
    """The object of a spec, compiled in this process, which imports numba for it."""
    from ort_lite.native.compiler import compile_object

    data = compile_object(spec, target, symbol_of(key))
    cache.write(folder, key, data)
    return data


def send(stream: IO[bytes], message: Any) -> None:
    """Writes one message."""
    data = pickle.dumps(message)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next message. Raises EOFError at the end of the stream."""
    head = stream.read(8)
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    if len(head) < 8 or len(data) < size:
        raise EOFError
    return pickle.loads(data)


@atexit.register
def close_all() -> None:
    """Ends all workers; the next request starts new ones."""
    for worker in _workers:
        worker.close()


def _forget_all() -> None:
    for worker in _workers:
        worker.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
