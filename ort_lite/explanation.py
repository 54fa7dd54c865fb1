"""What `InferenceSession.explain()` answers: plain data, printable."""

from collections.abc import Mapping
from typing import Any

from ort_lite.record import Record
from ort_lite.stages.assignment import Assignment


class Explanation(Record):
    """Who runs each node and why nobody else does, what was left out, and what compiled partitions say of themselves."""

    assignment: Assignment
    notes: tuple[str, ...]
    facts: Mapping[str, Mapping[str, int | str]]

    @property
    def python_steps(self) -> int:
        """Steps that providers run in Python although they compile to native code, as their partitions state it."""
        return sum(int(facts.get("python_steps", 0)) for facts in self.facts.values())

    def as_dict(self) -> dict[str, Any]:
        facts = {name: dict(found) for name, found in self.facts.items()}
        return {"notes": list(self.notes), "python_steps": self.python_steps, "facts": facts, **self.assignment.as_dict()}

    def to_json(self, indent: int | None = 2) -> str:
        import json

        return json.dumps(self.as_dict(), indent=indent)

    def __str__(self) -> str:
        lines = [str(self.assignment), *self.notes]
        for name, facts in self.facts.items():
            lines.append(f"{name}: {', '.join(f'{key} {value}' for key, value in facts.items())}")
        return "\n".join(lines)
