"""Processes that judge models. If a process dies or hangs, its model fails and another process takes its place."""

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import onnx

from tests.fuzz import crash
from tests.fuzz.runner import announce_compiling, warm_compiler
from tests.generated.judge import judge as judge_model
from tests.generated.verdict import Difference, Verdict

BATCH = 1000
"""Models of one process: a new one starts with fresh memory."""
PATIENCE_S = 90.0
"""Time for one model without compiling."""
COMPILING_S = 300.0
DYING_S = 0.5
"""Time for a process that hangs to write where it is."""
ENDING_S = 30.0
"""Time for a process that was killed, or closed its connection, to be gone."""
MEMORY = 6 << 30
"""Bytes that a process may map beside those it starts with."""

Judge = Callable[[onnx.ModelProto, Mapping[str, Any], bool], Any]
"""(model, feeds, thorough) -> a verdict, or another result of a worker."""


class Task(NamedTuple):
    """A model to judge. `model` is serialized."""

    number: int
    model: bytes
    feeds: Mapping[str, Any]
    thorough: bool = False


class Result(NamedTuple):
    """The verdict of a task, or what else the judge returned.

    A process that died or hung gives a verdict with a difference from the oracle "process", a judge that raises one from "judge".
    """

    task: Task
    verdict: Any
    seconds: float


def judge_all(
    tasks: Iterable[Task], jobs: int = 1, judge: Judge = judge_model, patience_s: float = PATIENCE_S
) -> Iterator[Result]:
    """Judge the tasks in `jobs` processes, and yield results as they come."""
    source = iter(tasks)
    workers = [Worker(judge, patience_s) for _ in range(jobs)]
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
                if (result := worker.poll()) is not None:
                    yield result
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    """A process that judges one task at a time, replaced by another when it ends."""

    def __init__(self, judge: Judge = judge_model, patience_s: float = PATIENCE_S) -> None:
        warm_compiler()
        self._judge, self._patience_s = judge, patience_s
        self.task: Task | None = None
        self._start()

    def judge(self, task: Task) -> Any:
        """Judge a task and wait for the result."""
        self.begin(task)
        while (result := self.poll()) is None:
            wait([self.connection], 0.5)
        return result.verdict

    def begin(self, task: Task) -> None:
        if self._count >= BATCH:
            self.stop()
            self._start()
        self.task = task
        self._count += 1
        self._note.begin(task.number)
        self._began = time.monotonic()
        self._deadline = self._began + self._patience_s
        self.connection.send(task)

    def poll(self) -> Result | None:
        """Return the result of the task, or None if it is not there yet."""
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if isinstance(message, tuple):
                    return self._end(message[0])
                patience_s = COMPILING_S if message == "compiling" else self._patience_s
                self._deadline = time.monotonic() + patience_s
        except (EOFError, ConnectionResetError):
            self._process.join(ENDING_S)
            return self._replace(f"the process died: {_death(self._process.exitcode)}")
        if time.monotonic() <= self._deadline:
            return None
        os.kill(self._pid, signal.SIGABRT)  # its handler writes where it is
        time.sleep(DYING_S)
        return self._replace(f"the process hung: no answer for {self._patience_s:g} s")

    def stop(self) -> None:
        self._process.kill()
        self._process.join(ENDING_S)
        self.connection.close()

    def _start(self) -> None:
        self._count = 0
        self._note = crash.Note()
        self.connection, inner = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_serve, args=(inner, self.connection, self._judge, self._note), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self._pid = self._process.pid
        inner.close()

    def _replace(self, text: str) -> Result:
        note = self._note.text
        self.stop()
        self._start()
        return self._end(Verdict((Difference("process", f"{text}\n{note}".rstrip()),), (), {}))

    def _end(self, verdict: Any) -> Result:
        task, self.task = self.task, None
        assert task is not None
        return Result(task, verdict, time.monotonic() - self._began)


def _death(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"


def _serve(connection: Connection, outer: Connection, judge: Judge, note: crash.Note) -> None:
    """Judge tasks until the parent is gone. `outer` is its end of the connection, which this process has a copy of."""
    outer.close()  # else it stays open when the parent is gone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    _limit_memory()
    announce_compiling(connection.send)
    crash.watch(note, lambda address: "" if address is None else f"address {address:#x}")
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        try:
            verdict = judge(onnx.ModelProto.FromString(task.model), task.feeds, task.thorough)
        except Exception as error:  # noqa: BLE001  a judge that raises is a failure of its model
            verdict = Verdict((Difference("judge", f"{type(error).__name__}: {error}"),), (), {})
        connection.send((verdict,))


def _limit_memory() -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
