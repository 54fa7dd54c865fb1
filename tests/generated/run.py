"""A run: models generated in this process, judged in others, entered into the journal; failures saved as they come."""

import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ort_lite.testing.generator import GeneratedModel, Generator
from tests.generated import saved, stand_in
from tests.generated.journal import NONE, Entry, Journal, entry_of, restore
from tests.generated.verdict import DIFFERENT
from tests.generated.workers import Judge, Result, Task, judge_all


class Settings(NamedTuple):
    """What a run does. `operators`: each model has one of them; all operators if it is empty."""

    models: int
    operators: Collection[str] = ()
    jobs: int = 2
    failures: Path | None = None
    thorough_every: int = 10
    stop_at_first: bool = False
    minutes: float | None = None


class Run:
    """Judge models 0, 1, 2, ... but those that the journal has. `failed` lists folders of new failures."""

    def __init__(self, generator: Generator, journal: Journal, settings: Settings, judge: Judge = stand_in.judge) -> None:
        self.generator, self.journal, self.settings, self._judge = generator, journal, settings, judge
        self.failed: list[Path] = []
        self._pending: dict[int, GeneratedModel] = {}
        restore(generator.coverage, iter(journal.entries.values()))

    def entries(self) -> Iterator[Entry]:
        """Yield an entry for each model, as results come."""
        for result in judge_all(self._tasks(), self.settings.jobs, self._judge):
            entry = entry_of(self._pending.pop(result.task.number), result.verdict, result.seconds)
            self.journal.add(entry)
            if entry.status == DIFFERENT:
                self._save(result, entry)
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
            model = self.generator.model(number, self.settings.operators or None)
            if model is None:
                self.journal.add(Entry(number, "", NONE))
                continue
            self._pending[number] = model
            yield task_of(model, number % self.settings.thorough_every == 0)

    def _save(self, result: Result, entry: Entry) -> None:
        if self.settings.failures is not None:
            folder = self.settings.failures / f"{entry.number:06}-{entry.target.split(' ', 1)[0]}"
            model, feeds = unpack(result.task)
            saved.save(folder, model, feeds, result.verdict)
            self.failed.append(folder)


def task_of(model: GeneratedModel, thorough: bool) -> Task:
    return Task(model.number, model.model.SerializeToString(), model.feeds, thorough)


def unpack(task: Task) -> tuple[Any, Mapping[str, Any]]:
    """Return the model of a task as a ModelProto, and its feeds."""
    import onnx

    return onnx.ModelProto.FromString(task.model), task.feeds
