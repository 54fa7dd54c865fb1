"""Graphs as tables that refer to each other by number: what pickles and deep copies are made of.

Nothing recurses, however long a graph is or however deep its bodies are, and no size is too large, as it is for protobuf.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.types import Type
from ort_lite.record import Record

LEFT_OUT = -1
"""In the place of an input or output that is left out, and of the array of a value that is no constant."""

AttrRow = tuple[str, str, Any, str]  # name, type, value with numbers for arrays and graphs, ref
NodeRow = tuple[str, str, int, str, str, list[int], list[int], list[AttrRow]]  # Node's fields, inputs, outputs, attributes
GraphRow = tuple[str, str, list[int], list[tuple[str, int]], list[int], list[NodeRow]]
"""Name, text, inputs, initialisers, outputs, nodes."""


class GraphTables(Record):
    """The arrays are apart: whoever keeps track of memory can exchange them before graphs are made again."""

    arrays: list[Array]
    values: list[tuple[str, Type | None, int]]
    graphs: list[GraphRow]
    loose: list[list[AttrRow]]
    """Attributes of no node: a list for each graph that was given, which are the first ones of `graphs`."""


def flatten(given: Sequence[tuple[Graph, Iterable[Attr]]]) -> GraphTables:
    """Return tables of graphs, no one twice, with those nested in them, and of attributes that belong to each. O(size).

    Arrays are shared. One that is in two places is so again in what `restore` makes.
    """
    flattening = _Flattening([graph for graph, _ in given])
    loose = [[flattening.attribute(attribute) for attribute in attributes] for _, attributes in given]
    return GraphTables(flattening.arrays, flattening.values, flattening.rows(), loose)


class _Flattening:
    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.arrays: list[Array] = []
        self.values: list[tuple[str, Type | None, int]] = []
        self._array_numbers: dict[int, int] = {}
        self._value_numbers: dict[Value, int] = {}
        self._graph_numbers = {graph: k for k, graph in enumerate(graphs)}

    def rows(self) -> list[GraphRow]:
        """Return the rows of all graphs; graphs that turn up in attributes meanwhile come last."""
        made: list[GraphRow] = []
        while len(made) < len(self._graph_numbers):
            made += [self._graph(graph) for graph in list(self._graph_numbers)[len(made) :]]
        return made

    def attribute(self, attribute: Attr) -> AttrRow:
        value = attribute.value
        if not attribute.ref:
            numbers: dict[str, Callable[[Any], int]] = {"TENSOR": self._array, "GRAPH": self._number}
            number = numbers.get(attribute.type.removesuffix("S"))
            if number is not None:
                value = [number(item) for item in value] if attribute.type[-1] == "S" else number(value)
        return attribute.name, attribute.type, value, attribute.ref

    def _graph(self, graph: Graph) -> GraphRow:
        inputs = [self._value(value) for value in graph.inputs]
        initializers = [(name, self._value(value)) for name, value in graph.initializers.items()]
        nodes = [self._node(node) for node in graph]
        return graph.name, graph.doc_string, inputs, initializers, [self._value(value) for value in graph.outputs], nodes

    def _node(self, node: Node) -> NodeRow:
        inputs, outputs = ([self._value(value) for value in values] for values in (node.inputs, node.outputs))
        attributes = [self.attribute(attribute) for attribute in node.attributes.values()]
        return node.op_type, node.domain, node.version, node.name, node.overload, inputs, outputs, attributes

    def _value(self, value: Value | None) -> int:
        if value is None:
            return LEFT_OUT
        found = self._value_numbers.get(value)
        if found is None:
            found = self._value_numbers[value] = len(self.values)
            self.values.append((value.name, value.type, LEFT_OUT if value.constant is None else self._array(value.constant)))
        return found

    def _array(self, array: Array) -> int:
        found = self._array_numbers.setdefault(id(array), len(self.arrays))
        if found == len(self.arrays):
            self.arrays.append(np.asarray(array))  # raises for what only stands for an array
        return found

    def _number(self, graph: Graph) -> int:
        return self._graph_numbers.setdefault(graph, len(self._graph_numbers))


def restore(tables: GraphTables) -> list[tuple[Graph, list[Attr]]]:
    """Rebuild what was given to `flatten`, over the arrays of the tables."""
    graphs = [Graph(row[0]) for row in tables.graphs]
    values = [Value(name, type_, None if array == LEFT_OUT else tables.arrays[array]) for name, type_, array in tables.values]
    for graph, (_, text, inputs, initializers, outputs, nodes) in zip(graphs, tables.graphs, strict=True):
        graph.doc_string = text
        graph.inputs = [values[k] for k in inputs]
        graph.initializers = {name: values[k] for name, k in initializers}
        graph.extend(_node(row, values, tables.arrays, graphs) for row in nodes)
        graph.set_outputs(values[k] for k in outputs)
    loose = [[_attribute(row, tables.arrays, graphs) for row in rows] for rows in tables.loose]
    return list(zip(graphs, loose, strict=False))


def _node(row: NodeRow, values: Sequence[Value], arrays: Sequence[Array], graphs: Sequence[Graph]) -> Node:
    op_type, domain, version, name, overload, inputs, outputs, attributes = row
    return Node(
        op_type,
        [None if k == LEFT_OUT else values[k] for k in inputs],
        [None if k == LEFT_OUT else values[k] for k in outputs],
        [_attribute(attribute, arrays, graphs) for attribute in attributes],
        domain=domain,
        version=version,
        name=name,
        overload=overload,
    )


def _attribute(row: AttrRow, arrays: Sequence[Array], graphs: Sequence[Graph]) -> Attr:
    name, type_, value, ref = row
    table: dict[str, Sequence[Any]] = {"TENSOR": arrays, "GRAPH": graphs}
    found = None if ref else table.get(type_.removesuffix("S"))
    if found is not None:
        value = [found[k] for k in value] if type_[-1] == "S" else found[value]
    return Attr(name, type_, value, ref)
