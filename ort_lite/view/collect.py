"""A document of a model: the graph as it is partitioned, who runs what, and why."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.types import TensorType
from ort_lite.partition.assignment import Level, Placement
from ort_lite.partition.constraints import nbytes
from ort_lite.pipeline.explanation import Explanation
from ort_lite.view import document as page

FEW = 8
"""Elements of a constant that are shown one by one."""
_LONG = 200
"""Characters of an attribute that are shown."""


def collect(explanation: Explanation, title: str) -> page.Document:
    """What the stages up to partitioning made of a model. O(nodes)."""
    assignment = explanation.assignment
    names = Names(assignment.graph)
    nodes = {name: names.node(node) for node, name in names.nodes.items()}
    return {
        "format": page.FORMAT,
        "title": title,
        "facts": [],
        "providers": [{"name": name, "device": str(p.device)} for name, p in assignment.providers.items()],
        "operators": {},
        "values": {key: value_of(value) for value, key in names.values.items()},
        "nodes": nodes,
        "graphs": names.bodies,
        "stages": [stage_of(nodes)],
        "placements": {place.node.name: _placement(place) for place in assignment.placements.values()},
        "partitions": [found for level in assignment.levels for found in _partitions(level, explanation, names)],
        "copies": [found for level in assignment.levels for found in _copies(level, names)],
        "notes": list(explanation.notes),
        "memory": [],
        "timeline": None,
        "costs": {},
    }


class Names:
    """Keys of the nodes and values of a graph and its bodies (see `ort_lite.view.document`)."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: dict[Node, str] = {}
        self.values: dict[Value, str] = {}
        self.bodies: list[page.Body] = []
        self.paths: dict[Graph, str] = {}
        self._enter(graph, "", None)

    def _enter(self, graph: Graph, path: str, owner: str | None) -> None:
        prefix = f"{path}/" if path else ""
        self.paths[graph] = path
        self._name(prefix, (*graph.inputs, *graph.initializers.values()))
        for node in graph:
            self.nodes[node] = node.name
            self._name(prefix, node.outputs)
        inputs, outputs = (self.keys(values) for values in (graph.inputs, graph.outputs))
        self.bodies.append({"path": path, "node": owner, "inputs": inputs, "outputs": outputs})
        for node in graph:
            for body_path, body in _bodies(node):
                self._enter(body, body_path, node.name)

    def _name(self, prefix: str, values: Iterable[Value | None]) -> None:
        for value in values:
            if value is not None:
                self.values.setdefault(value, prefix + value.name)

    def keys(self, values: Iterable[Value]) -> list[str]:
        return [self.values[value] for value in values]

    def node(self, node: Node) -> page.Node:
        assert node.graph is not None
        made: page.Node = {
            "name": node.name,
            "operator": node.operator,
            "graph": self.paths[node.graph],
            "inputs": [None if value is None else self.values[value] for value in node.inputs],
            "outputs": [None if value is None else self.values[value] for value in node.outputs],
            "attributes": {name: _text(found) for name, found in node.attributes.items() if found.type[0] != "G"},
        }
        if bodies := [path for path, _ in _bodies(node)]:
            made["bodies"] = bodies
            made["captures"] = self.keys(node.captures())
        return made


def _bodies(node: Node) -> Iterator[tuple[str, Graph]]:
    """Bodies of a control-flow node with their paths: "If_0.then_branch"."""
    for name, attribute in node.attributes.items():
        if attribute.type == "GRAPH":
            yield f"{node.name}.{name}", attribute.value
        elif attribute.type == "GRAPHS":
            yield from ((f"{node.name}.{name}.{k}", body) for k, body in enumerate(attribute.value))


def _text(attribute: Attr) -> str:
    value = attribute.value
    shown = f"{value.dtype}{list(value.shape)} {in_short(value)}" if isinstance(value, np.ndarray) else str(value)
    return shown if len(shown) <= _LONG else shown[: _LONG - 3] + "..."


def value_of(value: Value) -> page.Value:
    known = isinstance(value.type, TensorType)
    size = nbytes(value)
    shape = None if value.shape is None else [dim if isinstance(dim, int) else str(dim) for dim in value.shape]
    made: page.Value = {
        "type": "unknown" if value.type is None else str(value.type),
        "dtype": value.dtype if known else None,
        "shape": shape,
        "bytes": size if size is None or isinstance(size, int) else str(size),
    }
    if value.constant is not None:
        made["constant"] = in_short(value.constant)
    return made


def in_short(constant: Any) -> str:
    """Its elements where they are few, else what they are between."""
    array = np.asarray(constant)
    if array.size <= FEW:
        return str(array.tolist())
    if array.dtype.kind in "biuf":
        return f"min {array.min():.4g}, mean {array.mean(dtype=np.float64):.4g}, max {array.max():.4g}"
    return f"{array.size} elements"


def stage_of(nodes: Iterable[str]) -> page.Stage:
    return {
        "id": "partitioned",
        "title": "Partitioned",
        "level": "",
        "note": "Each node has the provider that runs it.",
        "removed": [],
        "added": list(nodes),
        "changes": [],
    }


def _placement(place: Placement) -> page.Placement:
    reasons: list[page.Reason] = [
        {"provider": r.provider, "verdict": r.verdict, "code": r.code, "detail": r.detail} for r in place.reasons
    ]
    return {
        "provider": place.provider,
        "partition": place.partition,
        "reasons": reasons,
        "rule": place.rule,
        "inserted": place.inserted,
    }


def _partitions(level: Level, explanation: Explanation, names: Names) -> Iterator[page.Partition]:
    for found in level.partitions:
        yield {
            "name": found.name,
            "provider": explanation.assignment.label(found),
            "device": str(found.provider.device),
            "graph": names.paths[level.graph],
            "nodes": [node.name for node in found.nodes],
            "inputs": names.keys(found.inputs),
            "outputs": names.keys(found.outputs),
            "facts": dict(explanation.facts.get(found.name, {})),
            "fused": [],
        }


def _copies(level: Level, names: Names) -> Iterator[page.Copy]:
    for copy in level.copies:
        size = nbytes(copy.value)
        yield {
            "value": names.values[copy.value],
            "bytes": size if size is None or isinstance(size, int) else str(size),
            "route": [str(copy.hops[0].source), *(str(hop.destination) for hop in copy.hops)],
            "reader": copy.reader,
            "graph": names.paths[level.graph],
        }
