"""The journal of a run: one JSON object a line, the first for the run itself, the others for one model each."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ort_lite.testing.generator import Coverage, GeneratedModel, GenerationTarget
from ort_lite.testing.generator.coverage import attribute_class
from tests.generated.verdict import Verdict

NONE = "none"
"""Status of a number for which the generator has no model."""
TEXT = 300
"""Characters of a reason or a difference that the journal keeps."""


class Entry(NamedTuple):
    """The result for a model. `covered` lists each operator version in it with the classes of its attributes' values."""

    number: int
    target: str
    status: str
    explanations: tuple[str, ...] = ()
    seconds: float = 0.0
    nodes: int = 0
    oracles: tuple[str, ...] = ()
    refusals: Mapping[str, str] = {}
    differences: tuple[tuple[str, str], ...] = ()
    """The oracle and the text of each difference without an explanation."""
    covered: tuple[tuple[str, Mapping[str, str]], ...] = ()
    invalid: str = ""
    """The reason if the model is not valid, which is a mistake of a recipe."""


class Journal:
    """Entries by number, those of an earlier run included. Without a path they are kept in memory alone.

    Raises ValueError if the file belongs to a run with other `settings`.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self.entries: dict[int, Entry] = {}
        self._file: TextIO | None = None
        if path is None:
            return
        if path.exists() and path.stat().st_size:
            self._read(path, settings)
            self._file = path.open("a", encoding="utf-8")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
            self._write(settings)

    def add(self, entry: Entry) -> None:
        self.entries[entry.number] = entry
        self._write(entry._asdict())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._file.flush()

    def _read(self, path: Path, settings: Mapping[str, Any]) -> None:
        first, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        if json.loads(first) != settings:
            raise ValueError(f"{path} belongs to another run, with {first.strip()}; use another file")
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) < len(lines):  # the run ended while it wrote a line
            path.write_text("".join((first, *whole)), encoding="utf-8")
        for line in whole:
            entry = _entry(json.loads(line))
            self.entries[entry.number] = entry


def entry_of(model: GeneratedModel, verdict: Verdict, seconds: float) -> Entry:
    """Summarize the verdict of a model."""
    return Entry(
        number=model.number,
        target=str(model.target),
        status=verdict.status,
        explanations=tuple(sorted({one.explanation for one in verdict.differences if one.explanation})),
        seconds=round(seconds, 3),
        nodes=len(model.model.graph.node),
        oracles=verdict.oracles,
        refusals={name: text[:TEXT] for name, text in verdict.refusals.items()},
        differences=tuple((one.oracle, one.text[:TEXT]) for one in verdict.differences if not one.explanation),
        covered=tuple(
            (str(target), {name: attribute_class(value) for name, value in attributes.items()})
            for target, attributes in model.covered
        ),
        invalid=verdict.invalid[:TEXT],
    )


def restore(coverage: Coverage, entries: Iterator[Entry]) -> None:
    """Count the models of an earlier run, so that the generator goes on with what is missing."""
    by_name = {str(target): target for target in coverage.targets}
    for entry in entries:
        if entry.status == NONE and entry.target in by_name:
            coverage.failures[by_name[entry.target]] += 1
        for name, classes in entry.covered:
            if name in by_name:
                _restore(coverage, by_name[name], classes)


def _restore(coverage: Coverage, target: GenerationTarget, classes: Mapping[str, str]) -> None:
    coverage.models[target] += 1
    for name, value in classes.items():
        coverage.attributes[target.operator, target.since, name, value] += 1


def _entry(record: dict[str, Any]) -> Entry:
    for name in ("explanations", "oracles"):
        record[name] = tuple(record[name])
    for name in ("differences", "covered"):
        record[name] = tuple(tuple(one) for one in record[name])
    return Entry(**record)
