"""Background compilation of kernels for later sessions, in a process of the lowest priority.

Nothing waits for it, so errors are logged. The process ends when its queue is empty or when this process ends, wherever it is: each
kernel is in the cache as soon as it is compiled.
"""

import atexit
import os
import pickle
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock, Thread

from ort_lite import log
from ort_lite.errors import RuntimeException, describe
from ort_lite.native import cache
from ort_lite.native.cpu import Target
from ort_lite.native.spec import Spec, key_of
from ort_lite.native.threads import start
from ort_lite.native.workers import Process, Worker

LOWEST = 19


class _Patient(Worker):
    """A worker that nothing waits for."""

    def _start(self) -> Process:
        process = super()._start()
        if hasattr(os, "setpriority") and isinstance(process, subprocess.Popen):
            with suppress(OSError):  # it may have ended
                os.setpriority(os.PRIO_PROCESS, process.pid, LOWEST)
        return process


class Background:
    """A queue of kernels to compile, in order, and the thread that sends them to a worker."""

    def __init__(self) -> None:
        self.worker = _Patient()
        self._begin()

    def _begin(self) -> None:
        self._lock = Lock()
        self._wanted: dict[str, tuple[Spec, Target]] = {}
        self._asked: set[str] = set()
        self._thread: Thread | None = None
        self._ended = False

    def want(self, specs: Sequence[Spec], target: Target) -> None:
        """Compile the specs that this process has not requested before. Returns immediately."""
        keys = {key_of(spec, target): spec for spec in specs}
        with self._lock:
            if self._ended:
                return
            self._wanted.update((key, (spec, target)) for key, spec in keys.items() if key not in self._asked)
            self._asked.update(keys)
            if not self._wanted or (self._thread is not None and self._thread.is_alive()):
                return
            try:
                self._thread = start("compiling in the background", self._compile, "ort-lite kernels")
            except RuntimeException as error:
                self._asked.difference_update(self._wanted)  # the next session asks again
                self._wanted.clear()
                log.warn(-1, describe(error))

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until everything requested so far is compiled, at most `seconds`. Return True if it is."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return self._thread is None

    def close(self) -> None:
        """Kill the process and clear the queue. Called at exit."""
        with self._lock:
            self._ended = True
            self._wanted.clear()
        self.worker.give_up()
        self.wait()

    def forget(self) -> None:
        """Reset the state in a forked child: thread and process belong to the parent."""
        self.worker.forget()
        self._begin()

    def _compile(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self.worker.close()
                    self._thread = None
                    return
                key = next(iter(self._wanted))
                spec, target = self._wanted.pop(key)
            try:
                self._one(key, spec, target)
            except Exception as error:  # noqa: BLE001  nothing waits for the result
                if not self._ended:
                    log.warn(-1, f"kernel {spec.name} could not be compiled in the background: {describe(error)}")

    def _one(self, key: str, spec: Spec, target: Target) -> None:
        folder = cache.directory()
        if cache.read(folder, key) is not None or not cache.make_folder(folder):
            return
        kind, answer = self.worker.ask((key, pickle.dumps(spec), target))
        if kind != "object":
            raise RuntimeError(answer)
        cache.write(folder, key, answer)


_BACKGROUND = Background()
want, wait = _BACKGROUND.want, _BACKGROUND.wait
atexit.register(_BACKGROUND.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BACKGROUND.forget)
