"""The coverage of generated models, and the choice of the next target."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from ort_lite.graph.graph import Attr
from ort_lite.testing.generator.targets import GenerationTarget


class Coverage:
    """Counts of models by target, and by operator version, attribute and class of its value."""

    def __init__(self, targets: Iterable[GenerationTarget]) -> None:
        self.targets: tuple[GenerationTarget, ...] = tuple(targets)
        self.models: Counter[GenerationTarget] = Counter()
        self.attributes: Counter[tuple[str, int, str, str]] = Counter()
        self.failures: Counter[GenerationTarget] = Counter()
        """Attempts at a target that its recipe did not bring to an end."""

    def next(self, rng: Random, candidates: Sequence[GenerationTarget] | None = None) -> GenerationTarget:
        """Choose among the targets with the fewest models; those that failed often come later."""
        among = self.targets if candidates is None else candidates
        least = min(self._weight(target) for target in among)
        return rng.choice([target for target in among if self._weight(target) == least])

    def add(self, target: GenerationTarget, attributes: Mapping[str, Any]) -> None:
        """Count one model of the target, and the class of each attribute's value."""
        self.models[target] += 1
        for name, value in attributes.items():
            self.attributes[target.operator, target.since, name, attribute_class(value)] += 1

    def missing(self) -> list[GenerationTarget]:
        """List the targets that no model has."""
        return [target for target in self.targets if not self.models[target]]

    def _weight(self, target: GenerationTarget) -> int:
        return self.models[target] + self.failures[target]


def attribute_class(value: Any) -> str:
    """Name the class of an attribute's value: its sign and size, the text itself, or the type."""
    if isinstance(value, Attr):
        value = value.value
    if isinstance(value, str):
        return value if len(value) <= 24 else "long text"
    if isinstance(value, bool | int | float):
        return (
            "0"
            if value == 0
            else "1"
            if value == 1
            else "negative"
            if value < 0
            else "more than 1"
            if value > 1
            else "fraction"
        )
    if isinstance(value, list | tuple):
        return "empty" if not value else "equal" if len({repr(one) for one in value}) == 1 else "mixed"
    return type(value).__name__
