"""Runs mutants in processes forked from this one, each for many: one that dies of a mutant, or hangs, is replaced by another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from ort_lite.native import cpu, workers
from ort_lite.native.compiler import compile_object
from ort_lite_cpu.program.bind import SPECS
from ort_lite_cpu.run.loop import RUN_JOB
from tests.fuzz import trial
from tests.fuzz.guarded import State, walls
from tests.fuzz.mutants import keys, mutant
from tests.fuzz.trial import HANG, SIGNAL, Verdict
from tests.workers import COMPILED, COMPILING, Ending, Judge, Limits, Send, Worker, judge_all

BATCH = 400
"""Mutants of one process: starting it costs as much as several of them."""
PATIENCE_S = 10.0
MEGABYTES = 1536


def run(
    numbers: Sequence[int],
    jobs: int = 1,
    judge: Judge = trial.judge,
    patience_s: float = PATIENCE_S,
    label: Callable[[int], str] = lambda number: trial.label(mutant(number)),
) -> Iterator[Verdict]:
    """Yield the verdicts, in whatever order they come. Each number has one; `label` names whom a process died of."""
    warm()
    judging = [Worker(judge, Limits(patience_s, MEGABYTES, BATCH), announce_compiling, _state) for _ in range(jobs)]
    for ending in judge_all(numbers, judging):
        yield ending.answers[-1] if ending.answers else _blame(ending, label(ending.task))


def _blame(ending: Ending, who: str) -> Verdict:
    """The verdict of a mutant that ended the process before there was one.

    Where there is one already, its judge came to its end after that: in onnx.reference.
    """
    how, _, name = ending.death.partition(": ")
    if how == "hung":
        return Verdict(ending.task, who, HANG, f"{name}\n{ending.note}")
    return Verdict(ending.task, who, SIGNAL, ending.note or name, name)


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
    for spec in (RUN_JOB, *SPECS):
        compile_object(spec, target, "warm")


def _state(address: int | None) -> str:
    return f"{'no address' if address is None else walls().describe(address)}\n{State.at}"


def announce_compiling(send: Send) -> None:
    """Kernels are compiled in the child itself, which says when it begins and ends."""

    def compile_all(specs: Any, target: Any, folder: str) -> dict[str, bytes]:
        send(COMPILING)
        try:
            return {key: workers.compile_here(key, spec, target, folder) for key, spec in specs.items()}
        finally:
            send(COMPILED)

    workers.compile_all = compile_all
