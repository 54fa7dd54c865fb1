"""Processes that judge models. If a process dies or hangs, its model fails."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import onnx

from tests import workers
from tests.fuzz.runner import announce_compiling, warm_compiler
from tests.generated.judge import judge as judge_model
from tests.generated.verdict import Difference, Verdict
from tests.workers import Ending, Limits

BATCH = 1000
"""Models of one process."""
PATIENCE_S = 90.0
"""Time for one model without compiling."""
MEGABYTES = 6144

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


class Worker(workers.Worker):
    """A process that judges one model at a time."""

    def __init__(self, judge: Judge = judge_model, patience_s: float = PATIENCE_S) -> None:
        warm_compiler()
        super().__init__(partial(_answers, judge), Limits(patience_s, MEGABYTES, BATCH), announce_compiling)

    def verdict(self, task: Task) -> Any:
        """Judge a task, wait for the end, and return the verdict."""
        return _verdict(self.judge(task))


def judge_all(
    tasks: Iterable[Task], jobs: int = 1, judge: Judge = judge_model, patience_s: float = PATIENCE_S
) -> Iterator[Result]:
    """Judge the tasks in `jobs` processes, and yield results as they come."""
    for ending in workers.judge_all(tasks, [Worker(judge, patience_s) for _ in range(jobs)]):
        yield Result(ending.task, _verdict(ending), ending.seconds)


def _verdict(ending: Ending) -> Any:
    if ending.death:
        return Verdict((Difference("process", f"the process {ending.death}\n{ending.note}".rstrip()),), (), {})
    return ending.answers[-1]


def _answers(judge: Judge, task: Task) -> Iterator[Any]:
    try:
        yield judge(onnx.ModelProto.FromString(task.model), task.feeds, task.thorough)
    except Exception as error:  # noqa: BLE001  a judge that raises is a failure of its model
        yield Verdict((Difference("judge", f"{type(error).__name__}: {error}"),), (), {})
