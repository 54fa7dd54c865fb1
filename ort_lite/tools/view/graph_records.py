"""Nodes and values of a graph as records of a document, with their keys."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ort_lite.errors import shorten
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.released import DroppedConstant
from ort_lite.graph.types import TensorType
from ort_lite.partition.budgets import nbytes
from ort_lite.shapes.dims import evaluate
from ort_lite.shapes.expr import Dim
from ort_lite.tools.view import document as page

FEW = 8
"""Elements of a constant that are shown one by one."""
_MANY = 1 << 24
"""Bytes of a constant that are looked at for what is in it."""
_LONG = 200
"""Characters of an attribute that are shown."""


class GraphNames:
    """Names of the nodes and keys of the values of a graph and its bodies (see `ort_lite.tools.view.document`).

    For a copy of nodes, `path` is the path of their graph, `known` maps the values that it shares with the original, and `prefix`
    begins the keys of new ones.
    """

    def __init__(self, graph: Graph, path: str = "", known: Mapping[Value, str] | None = None, prefix: str = "") -> None:
        self.nodes: dict[Node, str] = {}
        self.values: dict[Value, str] = dict(known or {})
        self.bodies: list[page.BodyData] = []
        self.paths: dict[Graph, str] = {}
        self._enter(graph, path, None, prefix)

    def _enter(self, graph: Graph, path: str, owner: str | None, prefix: str) -> None:
        self.paths[graph] = path
        self._name(prefix, (*graph.inputs, *graph.initializers.values()))
        for node in graph:
            self.nodes[node] = node.name
            self._name(prefix, node.outputs)
        inputs, outputs = (self.keys(values) for values in (graph.inputs, graph.outputs))
        self.bodies.append({"path": path, "node": owner, "inputs": inputs, "outputs": outputs})
        for node in graph:
            for body_path, body in _bodies(node):
                self._enter(body, body_path, node.name, f"{body_path}/")

    def _name(self, prefix: str, values: Iterable[Value | None]) -> None:
        for value in values:
            if value is not None:
                self.values.setdefault(value, prefix + value.name)

    def keys(self, values: Iterable[Value]) -> list[str]:
        """Return the keys of values. Raises KeyError for a value that is not of these graphs."""
        return [self.values[value] for value in values]

    def node(self, node: Node) -> page.NodeData:
        """Return the record of a node of these graphs. O(inputs and outputs), plus the size of its bodies."""
        assert node.graph is not None
        made: page.NodeData = {
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
    """Yield the bodies of a control-flow node with their paths, such as "If_0.then_branch"."""
    for name, attribute in node.attributes.items():
        if attribute.type == "GRAPH":
            yield f"{node.name}.{name}", attribute.value
        elif attribute.type == "GRAPHS":
            yield from ((f"{node.name}.{name}.{k}", body) for k, body in enumerate(attribute.value))


def _text(attribute: Attr) -> str:
    value = attribute.value
    if isinstance(value, np.ndarray):
        shown = f"{value.dtype}{list(value.shape)} {in_short(value)}"
    elif isinstance(value, list) and len(value) > _LONG:  # of a forest: not each of its numbers is written out first
        shown = f"{str(value[:_LONG])[:-1]}, ..."
    else:
        shown = attribute.ref or str(value)
    return shorten(shown, _LONG)


def size_of(value: Value, dims: Mapping[str, int]) -> int | str | None:
    """Return the size of a value in bytes, as a number, an expression in free dimensions that `dims` lacks, or None if unknown."""
    size = nbytes(value)
    return None if size is None else _size_of(size, dims)


def value_of(value: Value, dims: Mapping[str, int]) -> page.ValueData:
    """Return the record of a value. `dims` are the sizes of free dimensions in the run that is shown, by name."""
    shape = None if value.shape is None else [_size_of(dim, dims) for dim in value.shape]
    symbolic = "unknown" if value.type is None else str(value.type)
    tensor = isinstance(value.type, TensorType)
    shown = symbolic if shape is None or not tensor else f"{value.dtype}[{', '.join(map(str, shape))}]"
    made: page.ValueData = {
        "type": shown,
        "dtype": value.dtype if tensor else None,
        "shape": shape,
        "bytes": size_of(value, dims),
    }
    if shown != symbolic:
        made["symbolic"] = symbolic
    if value.constant is not None:
        made["constant"] = in_short(value.constant)
    return made


def _size_of(dim: Dim, dims: Mapping[str, int]) -> int | str:
    """Return a dimension as a number, or as text if a free dimension in it is not in `dims`."""
    if isinstance(dim, int):
        return dim
    try:
        return evaluate(dim, dims)
    except KeyError:
        return str(dim)


def in_short(constant: Any) -> str:
    """Summarize a constant: its elements if there are few, otherwise their range; for a large or dropped one, their number."""
    many = f"{constant.size:,} elements"
    if constant.nbytes > _MANY or (isinstance(constant, DroppedConstant) and constant.restore is None):
        return many
    array = np.asarray(constant)
    if array.size <= FEW:
        return shorten(str(array.tolist()), _LONG)
    if array.dtype.kind in "biuf":
        return f"min {array.min():.4g}, mean {array.mean(dtype=np.float64):.4g}, max {array.max():.4g}"
    return many


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a text on one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())
