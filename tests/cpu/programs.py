"""Programs written by hand, of kernels that show who ran what: for the tests and the benchmark of loop and team."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ort_lite.native import Spec, load
from ort_lite.native.lang import OK, Ptr, failure_status, native, span
from ort_lite_cpu.run.atomics import call, fetch_add, get, pause, put
from ort_lite_cpu.run.float_mode import float_mode
from ort_lite_cpu.run.loop import Halt, Job
from ort_lite_cpu.run.team import TEAM, Team

Words = npt.NDArray[np.int64]
TOO_FEW = 7  # status code of `meet`
PATIENCE = 500_000_000  # pauses: seconds, for what takes microseconds where it works


# --- Kernels
@native
def work(y: Ptr, rounds: int, part: int, parts: int) -> int:
    """Rounds of dependent arithmetic, shared by the parts; each writes a cache line of its own."""
    x = y[8 * part]
    for _ in range(rounds // parts):
        x = (x ^ (x >> 7)) * 25214 & 0xFFFFFFFFFFFF
    y[8 * part] = x
    return OK


@native
def blend(x: Ptr, y: Ptr, n: int, part: int, parts: int) -> int:
    """y[i] += 3 x[i] + x[i + 1 mod n] (mod 2**32): shows a part that runs twice, never, or before what it reads."""
    for i in span(n, part, parts):
        after = i + 1 if i + 1 < n else 0
        y[i] = (y[i] + 3 * x[i] + x[after]) & 0xFFFFFFFF
    return OK


@native
def relay(y: Ptr, n: int, part: int, parts: int) -> int:
    """As `blend`, each round from one row of y (rounds + 1, n) to the next: shows a round that begins before the one before ends."""
    x, z = part // parts * n, (part // parts + 1) * n
    for i in span(n, part % parts, parts):
        after = i + 1 if i + 1 < n else 0
        y[z + i] = (y[z + i] + 3 * y[x + i] + y[x + after]) & 0xFFFFFFFF
    return OK


@native
def log(y: Ptr, mark: int, part: int, parts: int) -> int:
    """Appends mark, part, parts to y, whose first element counts the appended ones."""
    end = y[0]
    y[end + 1] = mark
    y[end + 2] = part
    y[end + 3] = parts
    y[0] = end + 3
    return OK


@native
def fail(code: int, first: int, step: int, part: int, parts: int) -> int:
    """Parts first, first + step, ... fail with `code` and their number."""
    if part >= first and (part - first) % step == 0:
        return failure_status(code, part)
    return OK


@native
def write(word: int, value: int, part: int, parts: int) -> int:
    """Writes a word, atomically."""
    put(word, value)
    return OK


@native
def wait(word: int, part: int, parts: int) -> int:
    """Until the word is not 0."""
    while get(word) == 0:
        pause()
    return OK


@native
def meet(word: int, patience: int, part: int, parts: int) -> int:
    """Each part waits until all are running, so as many threads are at work. Fails after `patience` pauses."""
    target = (fetch_add(word, 1) // parts + 1) * parts
    while get(word) < target:
        pause()
        patience -= 1
        if patience < 0:
            return failure_status(TOO_FEW, part)
    return OK


@native
def meet_in_mode(word: int, patience: int, modes: Ptr, part: int, parts: int) -> int:
    """modes[part] = the floating-point mode of the thread that runs the part; as many threads as parts."""
    modes[part] = float_mode()
    return meet(word, patience, part, parts)


@native
def who(y: Ptr, syscall: int, gettid: int, pauses: int, part: int, parts: int) -> int:
    """y[part] = id of the thread that runs the part, after some time."""
    for _ in range(pauses):
        pause()
    y[part] = call(syscall, gettid)
    return OK


# --- Programs
@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: arrays for the pointers of the kernel, numbers for its scalars."""

    kernel: Callable[..., Any]
    arrays: Sequence[Words]
    scalars: Sequence[int]
    parts: int = 1
    rounds: int = 1


class Program:
    """Steps as the table of a job."""

    def __init__(
        self, steps: Sequence[Step], threads: int = 1, team: Team = TEAM, halt: Halt | None = None, cost_us: float = 1e9
    ) -> None:
        entries = load([Spec(step.kernel, ("i64",) * len(step.arrays)) for step in steps])
        operands = [[number for x in step.arrays for number in (0, x.ctypes.data)] for step in steps]
        descriptors = [np.array([*o, *s.scalars], np.int64) for o, s in zip(operands, steps, strict=True)]
        rows = [[e, d.ctypes.data, s.parts, s.rounds] for e, d, s in zip(entries, descriptors, steps, strict=True)]
        self.kept: list[Any] = [steps, descriptors]  # what the table points to
        self.table = np.array(rows, np.int64).reshape(-1, 4)
        self.memory = np.zeros(1, np.int64)
        self.job = Job(threads, halt, team)
        self.job.attach(self.table.ctypes.data, self.memory.ctypes.data, cost_us)

    def run(self) -> tuple[int, int] | None:
        """(instruction, status) of a failure."""
        return self.job.failure if self.job.run(0, len(self.table)) else None


def word() -> Words:
    """An int64 for the kernels that share one."""
    return np.zeros(1, np.int64)


def meeting(count: int, parts: int, threads: int, team: Team = TEAM) -> Program:
    """`count` instructions of which each runs only if `parts` threads do."""
    shared = word()
    program = Program([Step(meet, [], [shared.ctypes.data, PATIENCE], parts)] * count, threads, team)
    program.kept.append(shared)
    return program


def python(code: str, timeout: float = 60.0) -> str:
    """What a new interpreter prints for `code`; raises if it fails or writes to standard error."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"exit status {done.returncode}: {done.stderr}"
    return done.stdout
