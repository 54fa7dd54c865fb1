"""Processes that measure: workers that stay, for times of runs, and fresh ones, for what a start costs."""

import json
import os
import selectors
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.benchmarks.compare.sides import Side

WORKER = Path(__file__).with_name("worker.py")
START = Path(__file__).with_name("start.py")
PATIENCE = 600.0
"""Seconds after which a process that does not answer has failed: kernels of a large model compile meanwhile."""


class Failed(Exception):
    """A version could not load or run a model; the text says why."""


class Program(NamedTuple):
    """The command line of a worker, which answers as worker.py does, and its variables."""

    command: Sequence[str]
    environment: Mapping[str, str]


def timer_of(side: Side) -> Program:
    """Return the program that times one version."""
    return Program([str(side.python), str(WORKER)], side.environment())


class Worker:
    """A process of one version or runtime that opens a session at a time and runs it as often as it is told."""

    def __init__(self, program: Program, cores: Iterable[int] | None = None) -> None:
        """`cores`: those that it may use, all if None."""
        self._program, self._cores = program, cores
        self._start()

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the worker
        self._process = subprocess.Popen(
            self._program.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=self._program.environment,
        )
        if self._cores is not None:
            os.sched_setaffinity(self._process.pid, self._cores)

    def open(self, model: Path, feeds: Path, threads: int) -> float:
        """Create a session and return the seconds of a run. Raises Failed."""
        return float(self.ask({"open": str(model), "feeds": str(feeds), "threads": threads})["seconds"])

    def run(self, count: int) -> float:
        """Return the median of `count` runs in seconds. Raises Failed."""
        return float(self.ask({"run": count})["seconds"])

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command and return the answer. Raises Failed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(self._process.stdout, selectors.EVENT_READ)
                if not selector.select(PATIENCE):
                    raise Failed(f"no answer within {PATIENCE:g} s")
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise Failed(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def _last_words(self) -> str:
        """Say why the process ended, and start another one for the next model."""
        status = self._process.wait(PATIENCE)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self.close()
        self._start()
        return f"the process ended with status {status}: {lines[-1] if lines else 'it said nothing'}"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@contextmanager
def workers(programs: Iterable[Program], threads: int) -> Iterator[list[Worker]]:
    """Start a worker of each program. With one thread all share one core, so that they meet the same machine."""
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        yield [stack.enter_context(Worker(program, cores[:1] if threads == 1 else None)) for program in programs]


def start(side: Side, model: Path | None = None, feeds: Path | None = None, cold: bool = False) -> dict[str, float]:
    """Measure one fresh process: seconds and bytes by figure. `cold`: with a kernel cache that is empty. Raises Failed."""
    with tempfile.TemporaryDirectory() as empty:
        command = [str(side.python), str(START), *(str(path) for path in (model, feeds) if path is not None)]
        environment = side.environment(Path(empty, "kernels") if cold else None)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=environment,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"no result within {PATIENCE:g} s") from None
    if done.returncode:
        raise Failed(done.stderr.strip().rpartition("\n")[2] or f"status {done.returncode}")
    measured: dict[str, float] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return measured
