"""Processes that judge tasks. What ends a process, hangs or takes too much memory fails its task alone: another process goes on."""

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from tests import crash

COMPILING_S = 300.0
"""Time for kernels, while nothing is said to hang."""
DYING_S = 0.5
"""Time for a process that hangs to write where it is."""
ENDING_S = 30.0
"""Time for a process that was killed, or closed its connection, to be gone."""
COMPILING, COMPILED, DONE = "compiling", "compiled", "done"
"""Messages of a process; an answer is a tuple of one element."""

Judge = Callable[[Any], Iterable[Any]]
"""Yields answers about a task, the last of which counts."""
Send = Callable[[Any], None]


class Limits(NamedTuple):
    """Limits of a process."""

    seconds: float
    """Time for an answer without compiling."""
    megabytes: int
    """Memory that it may map beside what it starts with."""
    tasks: int
    """How many it judges: its successor starts with fresh memory."""


class Ending(NamedTuple):
    """How the judgement of a task ended. `death` says how the process ended before its time, `note` where it was then."""

    task: Any
    answers: tuple[Any, ...]
    seconds: float
    death: str = ""
    note: str = ""


class Worker:
    """A process that judges one task at a time, forked from this one, which should have no threads."""

    def __init__(
        self,
        judge: Judge,
        limits: Limits,
        prepare: Callable[[Send], None] = lambda send: None,
        describe: Callable[[int | None], str] = lambda address: "" if address is None else f"address {address:#x}",
    ) -> None:
        """`prepare` runs first in each process, with what sends a message; `describe` says what is at the address of a fault."""
        self._judge, self._limits, self._prepare, self._describe = judge, limits, prepare, describe
        self.task: Any = None
        self._start()

    def judge(self, task: Any) -> Ending:
        """Judge a task and wait for the end."""
        self.begin(task)
        while (ending := self.poll()) is None:
            wait([self.connection], 0.5)
        return ending

    def begin(self, task: Any) -> None:
        if self._count >= self._limits.tasks:
            self.stop()
            self._start()
        self.task, self._answers = task, list[Any]()
        self._count += 1
        self._began = time.monotonic()
        self._deadline = self._began + self._limits.seconds
        self.connection.send(task)

    def poll(self) -> Ending | None:
        """Return the end of the task, or None if it has not come yet."""
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if message == DONE:
                    return self._end()
                if isinstance(message, tuple):
                    self._answers.append(message[0])
                seconds = COMPILING_S if message == COMPILING else self._limits.seconds
                self._deadline = time.monotonic() + seconds
        except (EOFError, ConnectionResetError):
            self._process.join(ENDING_S)
            code = self._process.exitcode
            death = signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"
            return self._replace(f"died: {death}")
        if time.monotonic() <= self._deadline:
            return None
        os.kill(self._pid, signal.SIGABRT)  # its handler writes where it is
        time.sleep(DYING_S)
        return self._replace(f"hung: no answer for {self._limits.seconds:g} s")

    def stop(self) -> None:
        self._process.kill()
        self._process.join(ENDING_S)
        self.connection.close()

    def _start(self) -> None:
        self._count = 0
        self._note = crash.Note()
        self.connection, inner = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=self._serve, args=(inner, self.connection), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self._pid = self._process.pid
        inner.close()

    def _replace(self, death: str) -> Ending:
        note = self._note.text
        self.stop()
        self._start()
        return self._end(death, note)

    def _end(self, death: str = "", note: str = "") -> Ending:
        task, self.task = self.task, None
        return Ending(task, tuple(self._answers), time.monotonic() - self._began, death, note)

    def _serve(self, connection: Connection, outer: Connection) -> None:
        """Judge tasks until the parent is gone. `outer` is its end of the connection, which this process has a copy of."""
        outer.close()  # else it stays open when the parent is gone
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
        limit_memory(self._limits.megabytes)
        self._prepare(connection.send)
        crash.watch(self._note, self._describe)
        while True:
            try:
                task = connection.recv()
            except EOFError:
                return
            for answer in self._judge(task):
                connection.send((answer,))
            connection.send(DONE)


def judge_all(tasks: Iterable[Any], workers: Sequence[Worker]) -> Iterator[Ending]:
    """Judge the tasks, stop the workers, and yield endings as they come."""
    source = iter(tasks)
    try:
        while True:
            for worker in workers:
                if worker.task is None and (task := next(source, None)) is not None:
                    worker.begin(task)
            busy = [worker for worker in workers if worker.task is not None]
            if not busy:
                return
            wait([worker.connection for worker in busy], 0.5)
            for worker in busy:
                if (ending := worker.poll()) is not None:
                    yield ending
    finally:
        for worker in workers:
            worker.stop()


def limit_memory(megabytes: int) -> None:
    """Let this process map so much more, and write no core files."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
