"""A run: models generated in this process, judged in others, entered into the journal; failures saved as they come."""

import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import onnx

from ort_lite.testing.generator import GeneratedModel, ModelGenerator
from tests.generated import saved
from tests.generated.journal import NONE, Entry, Journal, entry_of, restore
from tests.generated.judge import judge as judge_model
from tests.generated.reducing import reduce_failure, signature
from tests.generated.verdict import DIFFERENT, INVALID, Verdict
from tests.generated.workers import Judge, Result, Task, judge_all

REDUCED = "reduced"
"""The folder of the reduced model in that of the failure."""


class Settings(NamedTuple):
    """The settings of a run. Models are steered at `operators` or at what `transforms` rewrite, if there are some."""

    models: int
    failures: Path
    operators: Collection[str] = ()
    transforms: Collection[str] = ()
    jobs: int = 2
    thorough_every: int = 10
    stop_at_first: bool = False
    minutes: float | None = None


class Failure(NamedTuple):
    """A model with an unexplained difference, and the folder that holds it."""

    folder: Path
    target: str
    model: onnx.ModelProto
    feeds: Mapping[str, Any]
    verdict: Verdict


class Run:
    """Judge models 0, 1, 2, ... but those that the journal has."""

    def __init__(self, generator: ModelGenerator, journal: Journal, settings: Settings, judge: Judge = judge_model) -> None:
        self.generator, self.journal, self.settings, self._judge = generator, journal, settings, judge
        self.failures: list[Failure] = []
        self._pending: dict[int, GeneratedModel] = {}
        restore(generator.coverage, iter(journal.entries.values()))

    def entries(self) -> Iterator[Entry]:
        """Yield an entry for each model, as results come."""
        for result in judge_all(self._tasks(), self.settings.jobs, self._judge):
            entry = entry_of(self._pending.pop(result.task.number), result.verdict, result.seconds)
            if entry.status in (DIFFERENT, INVALID):
                self._save(result, entry)
            self.journal.add(entry)
            yield entry
            if entry.status == DIFFERENT and self.settings.stop_at_first:
                return

    def _tasks(self) -> Iterator[Task]:
        end = None if self.settings.minutes is None else time.monotonic() + 60 * self.settings.minutes
        for number in range(self.settings.models):
            if end is not None and time.monotonic() > end:
                return
            if number in self.journal.entries:
                continue
            model = self.generator.model(number, self.settings.operators or None, self.settings.transforms or None)
            if model is None:
                self.journal.add(Entry(number, "", NONE))
                continue
            self._pending[number] = model
            yield task_of(model, (number + 1) % self.settings.thorough_every == 0)

    def reductions(self) -> Iterator[Failure]:
        """Reduce the failures of this run, one of each target and kind, and save the small models beside the others."""
        for failure in {(one.target, signature(one.verdict)): one for one in reversed(self.failures)}.values():
            model, feeds, verdict = reduce_failure(failure.model, failure.feeds, failure.verdict, self._judge)
            folder = failure.folder / REDUCED
            saved.save(folder, model, feeds, verdict)
            yield Failure(folder, failure.target, model, feeds, verdict)

    def _save(self, result: Result, entry: Entry) -> None:
        name = f"{entry.number:06}-{entry.target.split(' ', 1)[0]}"
        model = onnx.ModelProto.FromString(result.task.model)
        folder = self.settings.failures / (name if entry.status == DIFFERENT else f"{INVALID}-{name}")
        saved.save(folder, model, result.task.feeds, result.verdict)
        if entry.status == DIFFERENT:
            self.failures.append(Failure(folder, entry.target, model, result.task.feeds, result.verdict))


def task_of(model: GeneratedModel, thorough: bool) -> Task:
    return Task(model.number, model.model.SerializeToString(), model.feeds, thorough)
