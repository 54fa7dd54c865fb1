"""The results of `InferenceSession.explain()` and `plan()`: plain data that can be printed and compared."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.partition.assignment import Assignment, Placement, Reason
from ort_lite.partition.budgets import nbytes
from ort_lite.partition.controls import CONTROLS
from ort_lite.plugins.rooms import hook
from ort_lite.provider.compiled import KernelChoice
from ort_lite.record import Record, asdict, field
from ort_lite.shapes.expr import Dim

if TYPE_CHECKING:
    from ort_lite.partition.cost.cost_model import CostModel

Slower = Callable[[Sequence[Placement], str], float | None]
"""A function that returns the extra seconds that nodes take at their current provider, compared with the named one."""


class Explanation(Record):
    """The provider of each node, the reasons of the other providers, notes, and facts about compiled partitions."""

    assignment: Assignment
    notes: tuple[str, ...]
    facts: Mapping[str, Mapping[str, int | str]]
    kernels: Mapping[str, KernelChoice] = field(default_factory=dict)
    """The kernels by node, of partitions that tell them; empty unless they were asked for."""

    @property
    def python_steps(self) -> int:
        """The number of steps that run in Python although their provider compiles to native code."""
        return sum(int(facts.get("python_steps", 0)) for facts in self.facts.values())

    def verdicts(self) -> dict[str, dict[str, Reason]]:
        """Return a Reason per node and provider: "taken" (detail: the partition), "declined" or "lost"."""
        return {place.node.name: self._verdicts(place) for place in self.assignment.placements.values()}

    def _verdicts(self, place: Placement) -> dict[str, Reason]:
        known = {reason.provider: reason for reason in place.reasons}
        taken = Reason(place.provider, "taken", "rule" if place.rule else "", place.partition)
        return {name: known.get(name, taken) for name in self.assignment.providers}

    def boundaries(self) -> dict[str, dict[str, Dim | None]]:
        """Return the size in bytes of each tensor that enters or leaves a partition, by partition.

        Sizes are symbolic where dimensions are free, and None if unknown.
        """
        found = self.assignment.partitions
        return {p.name: {value.name: nbytes(value) for value in (*p.inputs, *p.outputs)} for p in found}

    def compare(self, other: "Explanation") -> "Comparison":
        """Return the differences to `other`. Nodes are matched by name."""
        mine, theirs = self._placements(), other._placements()
        moved = tuple(
            Move(name, place.node.operator, place.provider, theirs[name].provider, _why(place, theirs[name]))
            for name, place in mine.items()
            if name in theirs and theirs[name].provider != place.provider
        )
        gone = tuple(name for name in mine if name not in theirs)
        return Comparison(moved, gone, tuple(name for name in theirs if name not in mine))

    def _placements(self) -> dict[str, Placement]:
        return {place.node.name: place for place in self.assignment.placements.values()}

    def controls(self, costs: "CostModel | None" = None) -> tuple["ControlCost", ...]:
        """Return the nodes that each provider lost to partitioning options, and the cost if `costs` is given. O(nodes).

        The options are those of `ort_lite.options.policies`.
        """
        lost: dict[tuple[str, str], list[Placement]] = {}
        for place in self.assignment.placements.values():
            for reason in place.reasons:
                if reason.verdict == "lost" and reason.code in CONTROLS:
                    lost.setdefault((reason.provider, CONTROLS[reason.code]), []).append(place)
        order = [(label, option) for label in self.assignment.providers for option in CONTROLS.values()]
        slower: Slower = (lambda placements, label: None) if costs is None else self._slower(costs)
        return tuple(ControlCost(*key, len(lost[key]), slower(lost[key], key[0])) for key in order if key in lost)

    def _slower(self, costs: "CostModel") -> "Slower":
        from ort_lite.partition.cost.cost_model import Prices

        prices = Prices(costs, self.assignment.providers)
        weights = prices.weights(self.assignment.graph)

        def slower(placements: Sequence[Placement], label: str) -> float | None:
            return sum(
                weights[place.node.graph] * (prices.node(place.provider, place.node) - prices.node(label, place.node))
                for place in placements
                if place.node.graph is not None
            )

        return slower

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        facts = {name: dict(found) for name, found in self.facts.items()}
        found = {"notes": list(self.notes), "python_steps": self.python_steps, "facts": facts, **self.assignment.as_dict()}
        if not self.kernels:
            return found
        return found | {"kernels": {name: _choice_as_dict(choice) for name, choice in self.kernels.items()}}

    def to_json(self, indent: int | None = 2) -> str:
        """Return the explanation as JSON."""
        import json

        return json.dumps(self.as_dict(), indent=indent)

    def __str__(self) -> str:
        return "\n".join([str(self.assignment), *self._remarks()])

    def __repr__(self) -> str:
        counts = Counter(place.provider for place in self.assignment.placements.values())
        nodes = ", ".join(f"{name} {counts[name]}" for name in self.assignment.providers)
        return f"Explanation(nodes: {nodes}; partitions: {len(self.assignment.partitions)})"

    def _repr_html_(self) -> str:
        """Render the assignment followed by the remarks."""
        remarks: str = hook("noted")("remarks on partitions", self._remarks())
        return self.assignment._repr_html_() + remarks

    def _remarks(self) -> list[str]:
        """Return notes, boundary tensors, costs of options and facts, one line each."""
        lines = list(self.notes)
        for partition in self.assignment.partitions:
            sides = [
                f"{side} {', '.join(_format_size(value.name, nbytes(value)) for value in values)}"
                for side, values in (("in", partition.inputs), ("out", partition.outputs))
                if values
            ]
            count = len(partition.nodes)
            lines.append("; ".join([f"{partition.name}: {count} {'node' if count == 1 else 'nodes'}", *sides]))
        lines += map(str, self.controls())
        for name, facts in self.facts.items():
            lines.append(f"{name}: {', '.join(f'{key} {value}' for key, value in facts.items())}")
        for name, choice in self.kernels.items():
            lines.append(f"{name}: {', '.join(choice.kernels)}; predicted {choice.predicted:.1f} us")
            if choice.runner_up or choice.rejected:
                lines += [f"    {_format_cost(candidate, choice)}" for candidate in choice.costs]
            lines += [f"    not {candidate}: {reason}" for candidate, reason in choice.rejected.items()]
        return lines


def _format_cost(candidate: str, choice: KernelChoice) -> str:
    """Return the costs of one candidate as a line, the one that was taken with a star."""
    cost = choice.costs[candidate]
    moves = f" and {cost.moves:.1f} us of layout changes" if cost.moves else ""
    return f"{'*' if candidate == choice.taken else ' '} {candidate}: {cost.kernel:.1f} us{moves}"


def _choice_as_dict(choice: KernelChoice) -> dict[str, Any]:
    costs = {name: {"kernel": cost.kernel, "moves": cost.moves} for name, cost in choice.costs.items()}
    found = {
        "kernels": list(choice.kernels),
        "taken": choice.taken,
        "runner_up": choice.runner_up,
    }
    return {**found, "costs": costs, "rejected": dict(choice.rejected)}


class ControlCost(Record):
    """The nodes that a provider lost because of a partitioning option.

    `seconds` is the extra time per run of these nodes at their current providers, without startup and copies; None without a
    CostModel.
    """

    provider: str
    option: str
    nodes: int
    seconds: float | None

    def __str__(self) -> str:
        count = f"{self.nodes} {'node' if self.nodes == 1 else 'nodes'}"
        longer = "" if self.seconds is None else f", which take {self.seconds * 1e6:,.1f} us longer elsewhere"
        return f"{self.option}: {self.provider} lost {count}{longer}"


class Move(Record):
    """A node that another provider runs now. `why` is the reason of the previous provider."""

    node: str
    operator: str
    before: str
    after: str
    why: str

    def __str__(self) -> str:
        return f"{self.node} ({self.operator}): {self.before} -> {self.after}: {self.why}"


class Comparison(Record):
    """The differences between two assignments: one printed line each, and false if there are none."""

    moved: tuple[Move, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.moved or self.gone or self.new)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        moves = [asdict(move) for move in self.moved]
        return {"moved": moves, "gone": list(self.gone), "new": list(self.new)}

    def to_json(self, indent: int | None = 2) -> str:
        """Return the comparison as JSON."""
        import json

        return json.dumps(self.as_dict(), indent=indent)

    def __str__(self) -> str:
        lines = [*map(str, self.moved), *(f"{name}: gone" for name in self.gone), *(f"{name}: new" for name in self.new)]
        return "\n".join(lines) or "no difference"


def _why(before: Placement, after: Placement) -> str:
    """Return the reason why the previous provider does not run the node any more."""
    known = {reason.provider: str(reason) for reason in after.reasons}
    if before.provider not in known:
        return f"{before.provider} is not there"
    rule = f" by {after.rule}" if after.rule else ""
    return f"{before.provider} {known[before.provider]}{rule}"


def _format_size(name: str, size: Dim | None) -> str:
    return f"{name!r} ({'unknown size' if size is None else f'{size} bytes'})"
