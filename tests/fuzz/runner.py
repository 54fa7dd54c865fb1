"""Runs mutants in processes forked from this one, each for a batch: who ends one is blamed, the others go on in the next."""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from ort_lite.native import cpu, workers
from ort_lite.native.compiler import compile_object
from ort_lite_cpu.program.bind import SPECS
from ort_lite_cpu.run.loop import EXECUTE
from tests.fuzz import crash, trial
from tests.fuzz.guarded import State, walls
from tests.fuzz.mutants import keys, mutant
from tests.fuzz.trial import HANG, SIGNAL, Verdict

BATCH = 400
"""Mutants of one process: starting it costs as much as several of them."""
PATIENCE_S = 10.0
REFERENCE_S = 3.0
"""For onnx.reference, which is asked when there is a verdict, and whose loops in C end when they end."""
COMPILING_S = 120.0
"""For the kernels of a mutant, which count as no hang."""
DYING_S = 0.3
MEMORY = 3 << 29
"""Bytes that a process may map beside what it starts with."""

Judge = Callable[[int], Iterable[Verdict]]
"""Of a number, one verdict after the other: the last that it comes to counts."""


def run(
    numbers: Sequence[int],
    jobs: int = 1,
    judge: Judge = trial.judge,
    patience_s: float = PATIENCE_S,
    label: Callable[[int], str] = lambda number: trial.label(mutant(number)),
) -> Iterator[Verdict]:
    """The verdicts, in whatever order they come. Each number has one; `label` names whom a process died of."""
    warm()
    waiting = [list(numbers[at : at + BATCH]) for at in range(0, len(numbers), BATCH)][::-1]
    selector = selectors.DefaultSelector()
    running: set[_Child] = set()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                child = _Child(waiting.pop(), judge, patience_s, label)
                running.add(child)
                selector.register(child.pipe, selectors.EVENT_READ, child)
            for key, _ in selector.select(0.5):
                yield from key.data.read()
            for child in [child for child in running if child.ended()]:
                selector.unregister(child.pipe)
                running.discard(child)
                verdict = child.blame()
                if verdict is not None:
                    yield verdict
                if child.left:
                    waiting.append(child.left)
    finally:
        for child in running:
            child.kill()


def warm() -> None:
    """What all children need: they inherit it."""
    keys()
    mutant(0)
    walls()
    warm_compiler()


@cache
def warm_compiler() -> None:
    """Make numba's contexts, which take longer than a kernel, before processes are forked."""
    target = cpu.host()
    for spec in (EXECUTE, *SPECS):
        compile_object(spec, target, "warm")


class _Child:
    """A process that judges `left`, number by number."""

    def __init__(self, numbers: list[int], judge: Judge, patience_s: float, label: Callable[[int], str]) -> None:
        self.left, self._patience_s, self._label = numbers, patience_s, label
        self._note = crash.Note()
        self._note.begin(numbers[0])
        self._buffer = b""
        self._hung = self._over = False
        self._verdict: Verdict | None = None
        self._deadline = time.monotonic() + COMPILING_S
        self.pipe, inner = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self.pipe)
            _serve(numbers, judge, self._note, inner)
        os.close(inner)

    def read(self) -> Iterator[Verdict]:
        data = os.read(self.pipe, 1 << 16)
        self._over = not data
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            patience_s = (
                REFERENCE_S if isinstance(message, dict) else COMPILING_S if message == "compiling" else self._patience_s
            )
            self._deadline = time.monotonic() + patience_s
            if message == "done" and self._verdict is not None:
                self.left.remove(self._verdict.number)
                yield self._verdict
                self._verdict = None
            elif isinstance(message, dict):
                self._verdict = Verdict(**message)

    def ended(self) -> bool:
        if not self._over and time.monotonic() > self._deadline:
            self._hung = self._over = True
            if self._verdict is None:
                os.kill(self._pid, signal.SIGABRT)  # it says where it is
                time.sleep(DYING_S)
            os.kill(self._pid, signal.SIGKILL)
        return self._over

    def blame(self) -> Verdict | None:
        """Of the mutant that ended the process before its time; None where all were judged.

        Where it has a verdict already, its judge came to its end after that: in onnx.reference.
        """
        os.close(self.pipe)
        _, status = os.waitpid(self._pid, 0)
        if not self.left:
            return None
        number = self._note.number
        self.left.remove(number)
        if self._verdict is not None:
            return self._verdict
        who = self._label(number)
        if self._hung:
            return Verdict(number, who, HANG, f"no answer for {self._patience_s} s\n{self._note.text}")
        code = os.waitstatus_to_exitcode(status)
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return Verdict(number, who, SIGNAL, self._note.text or name, name)

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self.pipe)


def _serve(numbers: Sequence[int], judge: Judge, note: crash.Note, pipe: int) -> None:
    """In the child: never returns."""
    code = 1
    try:
        with open(pipe, "w", buffering=1, encoding="utf-8") as file:

            def send(message: Any) -> None:
                file.write(json.dumps(message) + "\n")

            _limit()
            announce_compiling(send)
            crash.watch(note, _state)
            for number in list(numbers):
                note.begin(number)
                for verdict in judge(number):
                    send(verdict._asdict())
                send("done")
        code = 0
    finally:
        os._exit(code)


def _state(address: int | None) -> str:
    return f"{'no address' if address is None else walls().describe(address)}\n{State.at}"


def _limit() -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def announce_compiling(send: Callable[[Any], None]) -> None:
    """Kernels are compiled in the child itself, which says when it begins and ends."""

    def compile_all(specs: Any, target: Any, folder: str) -> dict[str, bytes]:
        send("compiling")
        try:
            return {key: workers.compile_here(key, spec, target, folder) for key, spec in specs.items()}
        finally:
            send("compiled")

    workers.compile_all = compile_all
