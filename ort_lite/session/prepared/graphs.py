"""Graphs of a prepared program as tables that refer to each other by number, so that nothing recurses however long a graph is.

Unlike `ort_lite.graph.flat`, the tables number nodes and values, which the program refers to, and keep the order of uses.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.types import Type
from ort_lite.record import Record

NONE = -1
"""In the place of an input or output that is left out, of a producer, and of a graph."""

ValueRow = tuple[str, Type | None, int, list[int]]  # name, type, producer, uses: node and index in turn
AttrRow = tuple[str, str, Any, str]
NodeRow = tuple[str, str, int, str, str, list[int], list[int], list[AttrRow]]
GraphRow = tuple[str, str, list[int], list[tuple[str, int]], list[int], list[int], int]


class Tables(Record):
    """Rows of all values, nodes and graphs."""

    values: list[ValueRow]
    nodes: list[NodeRow]
    graphs: list[GraphRow]


class Objects(Record):
    """The values, nodes and graphs by number."""

    values: Sequence[Value]
    nodes: Sequence[Node]
    graphs: Sequence[Graph]


NO_OBJECTS = Objects((), (), ())


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
        return node.op_type, node.domain, node.version, node.name, node.overload, inputs, outputs, attributes

    def _attribute(self, attribute: Attr) -> AttrRow:
        value = attribute.value
        if attribute.type == "GRAPH" and not attribute.ref:
            value = self.graph(value)
        elif attribute.type == "GRAPHS" and not attribute.ref:
            value = [self.graph(body) for body in value]
        return attribute.name, attribute.type, value, attribute.ref

    def _value(self, value: Value) -> ValueRow:
        uses = [number for node, index in value.uses for number in (self.node(node), index)]
        for graph in value._outputs_of:
            self.graph(graph)
        return value.name, value.type, self.node(value.producer), uses


def restore(tables: Tables) -> Objects:
    """Create the objects of the tables, values without their constants."""
    values = [Value(name, type_) for name, type_, _, _ in tables.values]
    nodes = [Node.__new__(Node) for _ in tables.nodes]
    graphs = [Graph(row[0]) for row in tables.graphs]
    for node, row in zip(nodes, tables.nodes, strict=True):
        _fill_node(node, row, values, graphs)
    for value, (_, _, producer, uses) in zip(values, tables.values, strict=True):
        value.producer = None if producer == NONE else nodes[producer]
        at = iter(uses)
        value.uses = {(nodes[number], index): None for number, index in zip(at, at, strict=True)}
    for graph, (_, text, inputs, initializers, outputs, own, moves) in zip(graphs, tables.graphs, strict=True):
        graph.doc_string = text
        graph.inputs = [values[k] for k in inputs]
        graph.initializers = {name: values[k] for name, k in initializers}
        for k in own:
            graph.append(nodes[k])
        graph.set_outputs([values[k] for k in outputs])
        graph.moves = moves
    return Objects(values, nodes, graphs)


def _fill_node(node: Node, row: NodeRow, values: Sequence[Value], graphs: Sequence[Graph]) -> None:
    node.op_type, node.domain, node.version, node.name, node.overload, inputs, outputs, attributes = row
    node.inputs = tuple([None if k == NONE else values[k] for k in inputs])
    node.outputs = tuple([None if k == NONE else values[k] for k in outputs])
    node.attributes = {one[0]: _attribute(one, graphs) for one in attributes}
    node.graph = node._next = node._previous = None


def _attribute(row: AttrRow, graphs: Sequence[Graph]) -> Attr:
    name, type_, value, ref = row
    if type_[0] == "G" and not ref:
        value = graphs[value] if type_ == "GRAPH" else [graphs[k] for k in value]
    return Attr(name, type_, value, ref)


def named(objects: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of objects by their ids."""
    return {id(found): name for name, found in objects.items()}
