"""The performance record, docs/performance.jsonl: one JSON object a line, one measurement each, sorted by what was measured."""

import json
import math
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from ort_lite.record import Record, asdict

RECORD = Path(__file__).parents[2] / "docs" / "performance.jsonl"
KINDS = ("model", "operator", "zoo")
AGREEMENT = 2e-3
"""How far a ratio may be off from its rounded times."""
DECIMALS, DIGITS = 3, 4
"""Decimals of ratios, digits of times."""

Key = tuple[Any, ...]


class InvalidRecord(ValueError):
    """A line of the record is not a measurement."""


class Measurement(Record):
    """One model or operator on one CPU, compared with a rival. Times are in seconds; what is not known is None or empty.

    `kind` is "zoo" for a model of tests/benchmarks/zoo. `roofline` is the shortest time that the peaks of the machine allow.

    `name` of an operator is its type; `shapes` and `attributes` are then as tests/benchmarks/operators.txt has them, with a * for
    a constant. `ratio` is the rival's time over ort-lite's, None where the results differ. `noise` is the rival's ratio to itself,
    in the zoo always onnxruntime's.
    """

    kind: str
    name: str
    threads: int
    cpu: str
    rival: str
    features: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    dtype: str = ""
    rival_version: str = ""
    ours: float | None = None
    theirs: float | None = None
    ratio: float | None = None
    noise: float | None = None
    roofline: float | None = None
    differs: bool = False
    version: str = ""
    date: str = ""
    seconds: float | None = None
    cores: int | None = None
    numpy: str = ""

    @property
    def key(self) -> Key:
        """What was measured, where, and against what. A new measurement replaces the one with the same key."""
        what = (self.kind, self.name, self.shapes, self.attributes, self.dtype)
        return (self.cpu, self.features, self.rival, *what, self.threads)

    @property
    def title(self) -> str:
        """The name of the row that was measured."""
        if self.kind == "operator":
            return " ".join([self.name, *self.shapes, *self.attributes, self.dtype])
        return self.name

    def as_json(self) -> str:
        """A line of the record. Fields with nothing in them are left out."""
        fields = asdict(self)
        return json.dumps({name: value for name, value in fields.items() if value not in (None, "", (), False)})


FIELDS = Measurement.__match_args__
REQUIRED = ("kind", "name", "threads", "cpu", "rival", "version")
LISTS = ("features", "shapes", "attributes")
NUMBERS = ("ours", "theirs", "ratio", "noise", "roofline", "seconds")
COUNTS = ("threads", "cores")


def rounded(value: float | None) -> float | None:
    """Round a time to the digits that the record keeps."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def read(path: Path = RECORD) -> list[Measurement]:
    """Read a record, sorted. Raises InvalidRecord that names the number of a line that is wrong, and what is wrong with it."""
    found: dict[Key, tuple[int, Measurement]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            measurement = parse(line)
            if measurement.key in found:
                raise InvalidRecord(f"measures the same as line {found[measurement.key][0]}")
        except InvalidRecord as error:
            raise InvalidRecord(f"{path.name}, line {number}: {error}") from error
        found[measurement.key] = number, measurement
    return merge((), (measurement for _, measurement in found.values()))


def merge(old: Iterable[Measurement], new: Iterable[Measurement]) -> list[Measurement]:
    """Return both, sorted; a new measurement replaces the old one with the same key."""
    found = {measurement.key: measurement for measurement in [*old, *new]}
    return [found[key] for key in sorted(found)]


def write(measurements: Iterable[Measurement], path: Path = RECORD) -> None:
    """Write a record in place of the file, which is whole at any time."""
    text = "".join(f"{measurement.as_json()}\n" for measurement in merge((), measurements))
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def parse(line: str) -> Measurement:
    """Return the measurement of a line. Raises InvalidRecord."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise InvalidRecord(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidRecord(f"expected an object, not {line.strip()[:40]!r}")
    unknown, missing = sorted(fields.keys() - set(FIELDS)), [name for name in REQUIRED if name not in fields]
    if unknown or missing:
        raise InvalidRecord(f"unknown field {unknown[0]!r}" if unknown else f"no field {missing[0]!r}")
    values: dict[str, Any] = {}
    for name, value in fields.items():
        _check_type(name, value)
        values[name] = tuple(value) if name in LISTS else value
    measurement = Measurement(**values)
    _check_values(measurement)
    return measurement


def _check_type(name: str, value: Any) -> None:
    if name in LISTS:
        right, expected = isinstance(value, list) and all(isinstance(item, str) for item in value), "a list of texts"
    elif name in COUNTS:
        right, expected = type(value) is int and value > 0, "a positive integer"
    elif name in NUMBERS:
        right, expected = type(value) in (int, float) and math.isfinite(value) and value > 0, "a positive number"
    elif name == "differs":
        right, expected = isinstance(value, bool), "true or false"
    else:
        right, expected = isinstance(value, str) and value != "", "a text"
    if not right:
        raise InvalidRecord(f"{name} is {json.dumps(value)}, expected {expected}")


def _check_values(measurement: Measurement) -> None:
    """Check fields against each other."""
    ours, theirs, ratio = measurement.ours, measurement.theirs, measurement.ratio
    if measurement.kind not in KINDS:
        raise InvalidRecord(f"kind is {measurement.kind!r}, expected {' or '.join(KINDS)}")
    if measurement.kind == "operator" and not (measurement.shapes and measurement.dtype):
        raise InvalidRecord("an operator has shapes and a dtype")
    if (ratio is None) != measurement.differs:
        raise InvalidRecord("expected a ratio, or differs: true without one")
    if (ours is None) != (theirs is None):
        raise InvalidRecord("expected both times, ours and theirs, or none")
    if ours and theirs and ratio and abs(ratio - theirs / ours) > AGREEMENT * ratio + 0.6 * 10**-DECIMALS:
        raise InvalidRecord(f"ratio is {ratio}, but theirs over ours is {theirs / ours:.3f}")
    try:
        date.fromisoformat(measurement.date or "2000-01-01")
    except ValueError as error:
        raise InvalidRecord(f"date is {measurement.date!r}, expected one such as 2026-01-31") from error
