"""The coverage of a collection of models by a provider, as data."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ort_lite.record import Record, asdict

_DETAIL = re.compile(r"'[^']*'|\[[^\]]*\]|-?\d+(\.\d+)?")
"""Parts of a reason that differ between nodes: names, shapes, numbers."""


class NodeCoverage(Record):
    """A node of a model: whether the device runs it, and why not.

    `reason` is the provider's code and detail, "" for a node on the device. `operations` are those of a run, `seconds` the node's
    time in a run, None if it was not measured.
    """

    node: str
    operator: str
    on_device: bool
    reason: tuple[str, str]
    operations: float
    seconds: float | None


class ModelCoverage(Record):
    """The nodes of one model. `error` says why it could not be partitioned or run, "" if it could.

    `timed_on` names what ran: "device" if the provider compiled its partitions, "CPU" if the CPU provider ran all nodes instead,
    "" if nothing ran. `size` is that of free dimensions that nothing gives, except for the first of an input, which is 1.
    """

    path: str
    nodes: tuple[NodeCoverage, ...]
    timed_on: str
    size: int
    error: str


class Sums(Record):
    """Nodes, operations and seconds of some nodes. `seconds` counts those that were measured."""

    nodes: int
    operations: float
    seconds: float


class CoverageGap(Record):
    """Nodes off the device that share a cause: an operator, or a reason. `share` is their part of the time of all models, or of
    the nodes if nothing was measured; `models` counts those that have such a node, and `last` those in which no other node is off
    the device.
    """

    name: str
    nodes: int
    seconds: float
    share: float
    models: int
    last: int


class CoverageReport(Record):
    """The coverage of several models by one provider."""

    provider: str
    models: tuple[ModelCoverage, ...]

    def sums(self, on_device: bool) -> Sums:
        """Return the sums of the nodes on or off the device."""
        return _sums(node for node in self._nodes() if node.on_device == on_device)

    @property
    def models_on_cpu(self) -> list[str]:
        """The models whose times come from the CPU provider, because the device could not run them."""
        return [model.path for model in self.models if model.timed_on == "CPU"]

    def reasons(self) -> list[CoverageGap]:
        """Return the reasons for nodes off the device, that of the most time first. Details are without names and numbers."""
        return self._rank(_format_reason)

    def next_operators(self) -> list[CoverageGap]:
        """Return the operators off the device, that of the most time first. The time is the most that each can gain."""
        return self._rank(lambda node: node.operator)

    def _nodes(self) -> Iterator[NodeCoverage]:
        for model in self.models:
            yield from model.nodes

    def _rank(self, name: Any) -> list[CoverageGap]:
        found: dict[str, list[tuple[ModelCoverage, NodeCoverage]]] = {}
        for model in self.models:
            for node in model.nodes:
                if not node.on_device:
                    found.setdefault(name(node), []).append((model, node))
        total = _sums(self._nodes())
        ranked = []
        for text, several in found.items():
            sums = _sums(node for _, node in several)
            share = sums.seconds / total.seconds if total.seconds else sums.nodes / max(total.nodes, 1)
            models = {model.path: model for model, _ in several}
            last = sum(all(node.on_device or name(node) == text for node in model.nodes) for model in models.values())
            ranked.append(CoverageGap(text, sums.nodes, sums.seconds, share, len(models), last))
        return sorted(ranked, key=lambda one: (-one.share, -one.nodes, one.name))

    def as_dict(self) -> dict[str, Any]:
        """Return the coverage as plain data: times in seconds."""
        models = [
            {
                "path": model.path,
                "error": model.error,
                "timed_on": model.timed_on,
                "size": model.size,
                "on_device": asdict(_sums(node for node in model.nodes if node.on_device)),
                "off_device": asdict(_sums(node for node in model.nodes if not node.on_device)),
            }
            for model in self.models
        ]
        return {
            "provider": self.provider,
            "on_device": asdict(self.sums(True)),
            "off_device": asdict(self.sums(False)),
            "reasons": [asdict(one) for one in self.reasons()],
            "next_operators": [asdict(one) for one in self.next_operators()],
            "models": models,
        }


def _format_reason(node: NodeCoverage) -> str:
    code, detail = node.reason
    if code == "operator":
        return "operator: the provider does not know it"
    return f"{code}: {_DETAIL.sub('…', detail)}" if detail else code or "no reason is known"


def _sums(nodes: Iterable[NodeCoverage]) -> Sums:
    found = list(nodes)
    return Sums(len(found), sum(node.operations for node in found), sum(node.seconds or 0.0 for node in found))
