"""Processes that compile, so that this one never imports numba and several kernels compile at once.

A worker is `python -m ort_lite.native.compiler`: pickled requests on its standard input, pickled answers on its
standard output. Workers stay for the next request, leave after ten idle seconds, or when this process does.
"""

import atexit
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from ort_lite.errors import KernelCompileError
from ort_lite.native import cache
from ort_lite.native.cpu import Target
from ort_lite.native.spec import Spec

MOST_WORKERS = 4


class Worker:
    """One compiling process; started when first asked."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, request: tuple[Any, ...]) -> tuple[str, Any]:
        """("object", bytes), ("error", text) or ("stale", text). A worker that has gone is replaced once."""
        for _ in range(2):
            process = self.process or self._start()
            assert process.stdin is not None and process.stdout is not None
            try:
                send(process.stdin, request)
                return receive(process.stdout)
            except (OSError, EOFError):
                self.close()
        raise KernelCompileError("the compiling process ended without an answer, twice; its messages are on stderr")

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ort_lite.native.compiler"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        return self.process

    def close(self) -> None:
        """Ends the process and waits for it."""
        process, self.process = self.process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except OSError:
                        pass  # unsent bytes for a process that has gone
            process.wait()


_workers = [Worker() for _ in range(MOST_WORKERS)]


def compile_all(specs: Mapping[str, Spec], target: Target, folder: str) -> dict[str, bytes]:
    """Objects by key; each is written to the cache as soon as it is there. Raises KernelCompileError.

    Callers hold the loader's lock: a worker serves one request at a time.
    """
    if "numba" in sys.modules and len(specs) <= 2:
        return {key: compile_here(key, spec, target, folder) for key, spec in specs.items()}
    waiting: queue.SimpleQueue[tuple[str, Spec]] = queue.SimpleQueue()
    for item in specs.items():
        waiting.put(item)
    done: dict[str, bytes] = {}
    failures: list[BaseException] = []

    def serve(worker: Worker) -> None:
        while not failures:
            try:
                key, spec = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done[key] = compile_in(worker, key, spec, target, folder)
            except BaseException as error:
                failures.append(error)

    count = min(len(specs), os.cpu_count() or 1, MOST_WORKERS)
    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in _workers[:count]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return done


def compile_in(worker: Worker, key: str, spec: Spec, target: Target, folder: str) -> bytes:
    """The object of a spec, from a worker if it can import what this process has, else compiled here."""
    try:
        request = pickle.dumps(spec)
    except (pickle.PicklingError, AttributeError, TypeError):
        return compile_here(key, spec, target, folder)
    kind, answer = worker.ask((key, request, target))
    if kind == "error":
        raise KernelCompileError(answer)
    if kind == "stale":
        return compile_here(key, spec, target, folder)
    cache.write(folder, key, answer)
    data: bytes = answer
    return data


def compile_here(key: str, spec: Spec, target: Target, folder: str) -> bytes:
    """The object of a spec, compiled in this process, which imports numba for it."""
    from ort_lite.native.compiler import compile_object
    from ort_lite.native.loader import symbol_of

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
    if len(head) < 8:
        raise EOFError
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def _forget() -> None:
    for worker in _workers:
        worker.process = None  # the parent's


def _close() -> None:
    for worker in _workers:
        worker.close()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
