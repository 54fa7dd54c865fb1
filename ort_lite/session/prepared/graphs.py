"""Graphs of a prepared program as tables that refer to each other by number, so that nothing recurses however long a graph is.

Unlike `ort_lite.graph.flat`, the tables number nodes and values, which the program refers to, and keep the order of uses. The
objects exist before their tables are read: a run needs few of their fields.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.types import Type
from ort_lite.record import Record

VALUE, NODE, GRAPH = range(3)
_KINDS = (Value, Node, Graph)
NONE = -1
"""In the place of an input or output that is left out, of a producer, and of a graph."""
_LISTS = {"INTS": ("<i1", "<i2", "<i4", "<i8"), "FLOATS": ("<f4", "<f8")}
_LONG = 64
"""The length from which on lists of numbers are stored as bytes of a type that holds them. Trees have lists of thousands."""

ValueRow = tuple[str, Type | None, int, list[int]]  # name, type, producer, uses: node and index in turn
AttrRow = tuple[str, str, Any, str]
NodeRow = tuple[str, str, int, str, str, list[int], list[int], list[AttrRow], bool]
GraphRow = tuple[str, str, list[int], list[tuple[str, int]], list[int], list[int], int]


class Tables(Record):
    """Rows of all values, nodes and graphs."""

    values: list[ValueRow]
    nodes: list[NodeRow]
    graphs: list[GraphRow]


class Objects:
    """Values, nodes and graphs by number, created without their fields when somebody first refers to them."""

    def __init__(self, new: Callable[[type], Any] = object.__new__) -> None:
        """`new` creates an object of a kind."""
        self._new = new
        self._known: tuple[dict[int, Value], dict[int, Node], dict[int, Graph]] = ({}, {}, {})

    def find(self, which: int, number: int) -> Any:
        """Return a value (`which` is VALUE), node or graph."""
        known: dict[int, Any] = self._known[which]
        found = known.get(number)
        if found is None:
            found = known[number] = self._new(_KINDS[which])
        return found

    def known_objects(self) -> list[Any]:
        """Return all objects."""
        return [found for known in self._known for found in known.values()]

    def all(self, which: int, count: int) -> list[Any]:
        """Return the objects with the numbers below `count`."""
        return [self.find(which, number) for number in range(count)]


class Numbering:
    """Numbers of values, nodes and graphs in the order in which they are asked for."""

    def __init__(self) -> None:
        self.values: dict[Value, int] = {}
        self.nodes: dict[Node, int] = {}
        self.graphs: dict[Graph, int] = {}

    def value(self, value: Value | None) -> int:
        """Return the number of a value."""
        return NONE if value is None else self.values.setdefault(value, len(self.values))

    def node(self, node: Node | None) -> int:
        """Return the number of a node."""
        return NONE if node is None else self.nodes.setdefault(node, len(self.nodes))

    def graph(self, graph: Graph | None) -> int:
        """Return the number of a graph."""
        return NONE if graph is None else self.graphs.setdefault(graph, len(self.graphs))

    def extend(self, made: Tables) -> None:
        """Add the rows of everything that was numbered since, and of all that it refers to."""
        while True:
            counts = len(self.values), len(self.nodes), len(self.graphs)
            made.graphs.extend([self._graph(graph) for graph in list(self.graphs)[len(made.graphs) :]])
            made.nodes.extend([self._node(node) for node in list(self.nodes)[len(made.nodes) :]])
            made.values.extend([self._value(value) for value in list(self.values)[len(made.values) :]])
            if counts == (len(self.values), len(self.nodes), len(self.graphs)):
                return

    def _graph(self, graph: Graph) -> GraphRow:
        inputs, outputs = ([self.value(value) for value in values] for values in (graph.inputs, graph.outputs))
        initializers = [(name, self.value(value)) for name, value in graph.initializers.items()]
        return graph.name, graph.doc_string, inputs, initializers, outputs, [self.node(n) for n in graph], graph.moves

    def _node(self, node: Node) -> NodeRow:
        self.graph(node.graph)
        inputs, outputs = ([self.value(value) for value in values] for values in (node.inputs, node.outputs))
        attributes = [self._attribute(attribute) for attribute in node.attributes.values()]
        inside = node.graph is not None
        return node.op_type, node.domain, node.version, node.name, node.overload, inputs, outputs, attributes, inside

    def _attribute(self, attribute: Attr) -> AttrRow:
        value = attribute.value
        if attribute.type == "GRAPH" and not attribute.ref:
            value = self.graph(value)
        elif attribute.type == "GRAPHS" and not attribute.ref:
            value = [self.graph(body) for body in value]
        elif type(value) is list and len(value) >= _LONG:
            value = _pack(attribute.type, value)
        return attribute.name, attribute.type, value, attribute.ref

    def _value(self, value: Value) -> ValueRow:
        uses = [number for node, index in value.uses for number in (self.node(node), index)]
        for graph in value._outputs_of:
            self.graph(graph)
        return value.name, value.type, self.node(value.producer), uses


def restore(tables: Tables, objects: Objects) -> None:
    """Set all fields of the objects but the constants of values. Each field is set once, as another thread may read it already."""
    rows = (tables.values, tables.nodes, tables.graphs)
    values, nodes, graphs = (objects.all(which, len(rows[which])) for which in (VALUE, NODE, GRAPH))
    outputs_of: dict[int, dict[Graph, int]] = {}
    for graph, graph_row in zip(graphs, tables.graphs, strict=True):
        for number in graph_row[4]:
            counts = outputs_of.setdefault(number, {})
            counts[graph] = counts.get(graph, 0) + 1
        _fill_graph(graph, graph_row, values, nodes)
    for node, row in zip(nodes, tables.nodes, strict=True):
        _fill_node(node, row, values, graphs)
    for number, (value, (name, type_, producer, uses)) in enumerate(zip(values, tables.values, strict=True)):
        at = iter(uses)
        value.name, value.type = name, type_
        value.producer = None if producer == NONE else nodes[producer]
        value.uses = {(nodes[number], index): None for number, index in zip(at, at, strict=True)}
        value._outputs_of = outputs_of.get(number, {})


def _fill_graph(graph: Graph, row: GraphRow, values: Sequence[Value], nodes: Sequence[Node]) -> None:
    name, text, inputs, initializers, outputs, own, moves = row
    inside = [nodes[k] for k in own]
    for node, previous, following in zip(inside, [None, *inside], [*inside[1:], None], strict=False):
        node.graph, node._previous, node._next = graph, previous, following
    vars(graph).update(
        name=name,
        doc_string=text,
        inputs=[values[k] for k in inputs],
        initializers={name: values[k] for name, k in initializers},
        _outputs=tuple([values[k] for k in outputs]),
        _first=inside[0] if inside else None,
        _last=inside[-1] if inside else None,
        _count=len(inside),
        moves=moves,
    )


def _fill_node(node: Node, row: NodeRow, values: Sequence[Value], graphs: Sequence[Graph]) -> None:
    node.op_type, node.domain, node.version, node.name, node.overload, inputs, outputs, attributes, inside = row
    node.inputs = tuple([None if k == NONE else values[k] for k in inputs])
    node.outputs = tuple([None if k == NONE else values[k] for k in outputs])
    if not inside:
        node.graph = node._next = node._previous = None
    node.attributes = {one[0]: _attribute(one, graphs) for one in attributes}


def _attribute(row: AttrRow, graphs: Sequence[Graph]) -> Attr:
    name, type_, value, ref = row
    if type_[0] == "G" and not ref:
        value = graphs[value] if type_ == "GRAPH" else [graphs[k] for k in value]
    elif type(value) is tuple:
        value = np.frombuffer(value[1], value[0]).tolist()
    return Attr(name, type_, value, ref)


def _pack(type_: str, values: list[Any]) -> Any:
    """Return a list in less room: numbers as (type, bytes), equal texts as one."""
    if type_ in _LISTS:
        array = np.array(values, _LISTS[type_][-1])
        with np.errstate(over="ignore"):
            return next((name, small.tobytes()) for name in _LISTS[type_] if _same(array, small := array.astype(name)))
    if type_ == "STRINGS":
        known: dict[Any, Any] = {}
        return [known.setdefault(value, value) for value in values]
    return values


def _same(array: Array, other: Array) -> bool:
    """Return True if the other array holds the same numbers, with the same bits of NaN."""
    return other.astype(array.dtype).tobytes() == array.tobytes()
