"""The IR: Graph, Node, Value, Attr. Names and habits of onnx-ir, so that people who know it feel at home.

Def-use is exact: `value.uses` lists every (node, input index) that reads a value, nodes of nested graphs included, and
`value.is_graph_output()` says whether a graph returns it. Nested graphs (bodies of If, Loop, Scan) are attributes of their
node and refer to outer values by the same `Value` objects; `graph.captures()` lists these.

Nodes are a linked list: appending, inserting beside a node and removing cost O(1). Iteration is safe while the graph changes:
a node inserted after the current one is visited, a removed one that was not visited yet is not.

Long, and one file: graphs, nodes and values keep each other's lists, and nobody else may.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy
from ort_lite.errors import InvalidGraph
from ort_lite.graph.types import MapType, OptionalType, SequenceType, TensorType, Type
from ort_lite.native.checkpoint import checkpoint
from ort_lite.record import Record
from ort_lite.shapes.dims import Shape


class Value:
    """A node's result, a graph input or an initialiser (`constant` is then its array, which nobody writes to)."""

    __slots__ = ("_outputs_of", "constant", "name", "producer", "type", "uses")

    def __init__(self, name: str, type: Type | None = None, constant: Array | None = None) -> None:
        if constant is not None and type is None:
            type = TensorType(from_numpy(constant.dtype), constant.shape)
        self.name, self.type, self.constant = name, type, constant
        self.producer: Node | None = None
        self.uses: dict[tuple[Node, int], None] = {}  # ordered set
        self._outputs_of: dict[Graph, int] = {}

    @property
    def dtype(self) -> DType | None:
        """Element type of a tensor; None for other kinds of values and where it is unknown."""
        return self.type.dtype if isinstance(self.type, TensorType) else None

    @property
    def shape(self) -> Shape | None:
        """The shape of a tensor; None for other types, and if not even the rank is known."""
        return self.type.shape if isinstance(self.type, TensorType) else None

    @property
    def readers(self) -> list["Node"]:
        """The nodes that read this value, each once, in the order in which they began to."""
        return list({node: None for node, _ in self.uses})

    def is_graph_output(self) -> bool:
        """Return True if a graph lists the value among its outputs."""
        return bool(self._outputs_of)

    def is_read(self) -> bool:
        """Return True if a node reads the value, or a graph returns it."""
        return bool(self.uses) or self.is_graph_output()

    def can_be_replaced_by(self, other: "Value") -> bool:
        """False where a graph output would lose its name: one of the two comes from no node, or `other` is an output itself."""
        if not self.is_graph_output():
            return True
        return self.producer is not None and other.producer is not None and not other.is_graph_output()

    def replace_all_uses_with(self, other: "Value") -> None:
        """Readers and graph outputs take `other` instead; a graph output hands its name on. O(uses).

        Raises InvalidGraph where `can_be_replaced_by` says no.
        """
        if not self.can_be_replaced_by(other):
            raise InvalidGraph(f"graph output {self.name!r} would lose its name to {other.name!r}")
        for node, index in list(self.uses):
            node.replace_input(index, other)
        if self._outputs_of:
            self.name, other.name = other.name, self.name
            for graph in list(self._outputs_of):
                graph.set_outputs([other if value is self else value for value in graph.outputs])

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Attr(Record):
    """An attribute. `type` is AttributeProto's name: INT, FLOATS, STRING, TENSOR (an array), GRAPH (a Graph), ...

    `ref` names the function's attribute that stands here, inside function bodies.
    """

    name: str
    type: str
    value: Any
    ref: str = ""

    @staticmethod
    def of(name: str, value: Any) -> "Attr":
        """The Attr for a Python value: int, float, str, array, Graph, Type or a list of one of them.

        A list that holds a float is FLOATS, an empty one INTS. Raises TypeError for anything else.
        """
        if isinstance(value, Attr):
            return value
        many = isinstance(value, (list, tuple, range))
        items = [item.item() if isinstance(item, np.generic) else item for item in (value if many else [value])]
        for kinds, type_ in (
            ((int,), "INT"),
            ((int, float), "FLOAT"),
            ((str,), "STRING"),
            ((Graph,), "GRAPH"),
            ((np.ndarray,), "TENSOR"),
            ((TensorType, SequenceType, OptionalType, MapType), "TYPE_PROTO"),
        ):
            if all(isinstance(item, kinds) for item in items):
                if type_ in ("INT", "FLOAT"):  # True is an INT too
                    items = [int(item) if type_ == "INT" else float(item) for item in items]
                return Attr(name, type_ + "S" * many, items if many else items[0])
        raise TypeError(f"attribute {name}: {type(value).__name__} is no ONNX attribute value")


class Node:
    """An operator's use. `version` is the opset version under which its domain was imported, not the schema's own.

    Inputs and outputs that are left out are None. `name` is unique inside a loaded model. `overload` tells functions of one
    name apart.
    """

    __slots__ = (
        "_next",
        "_previous",
        "attributes",
        "domain",
        "graph",
        "inputs",
        "name",
        "op_type",
        "outputs",
        "overload",
        "version",
    )

    def __init__(
        self,
        op_type: str,
        inputs: Iterable[Value | None],
        outputs: Iterable[Value | None],
        attributes: Mapping[str, Any] | Iterable[Attr] = (),
        *,
        domain: str = "",
        version: int = 1,
        name: str = "",
        overload: str = "",
    ) -> None:
        self.op_type, self.domain, self.version, self.name, self.overload = op_type, domain, version, name, overload
        self.inputs: tuple[Value | None, ...] = tuple(inputs)
        self.outputs: tuple[Value | None, ...] = tuple(outputs)
        if not isinstance(attributes, (list, tuple)) and isinstance(attributes, Mapping):  # the ABC is asked last: it is slow
            attributes = [Attr.of(name, value) for name, value in attributes.items()]
        self.attributes: dict[str, Attr] = {attribute.name: attribute for attribute in attributes}
        self.graph: Graph | None = None
        self._next: Node | None = None
        self._previous: Node | None = None
        for value in self.outputs:
            if value is not None:
                if value.producer is not None:
                    raise InvalidGraph(f"{self}: {value.name!r} is already an output of {value.producer}")
                value.producer = self
        for index, value in enumerate(self.inputs):
            if value is not None:
                value.uses[self, index] = None

    @property
    def output(self) -> Value:
        """The first output. Raises InvalidGraph when the node leaves it out."""
        if not self.outputs or self.outputs[0] is None:
            raise InvalidGraph(f"{self} has no first output")
        return self.outputs[0]

    @property
    def operator(self) -> str:
        """Return the operator with its domain, unless that is ONNX's own: "Relu", "com.microsoft.Gelu"."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute's value, or `default`. ONNX stores floats in 32 bits, those of its defaults too: a default that is computed
        in more bits must not be passed here.
        """
        attribute = self.attributes.get(name)
        if attribute is not None:
            return attribute.value
        return float(np.float32(default)) if type(default) is float else default

    def replace_input(self, index: int, value: Value | None) -> None:
        """Make the node read another value, or none, as the input at `index`."""
        old = self.inputs[index]
        if old is not None:
            del old.uses[self, index]
        self.inputs = (*self.inputs[:index], value, *self.inputs[index + 1 :])
        if value is not None:
            value.uses[self, index] = None

    def replace_output(self, index: int, value: Value) -> None:
        """The node computes `value` instead; the old output stays with its readers and is without a producer."""
        if value.producer is not None:
            raise InvalidGraph(f"{self}: {value.name!r} is already an output of {value.producer}")
        old = self.outputs[index]
        if old is not None:
            old.producer = None
        self.outputs = (*self.outputs[:index], value, *self.outputs[index + 1 :])
        value.producer = self

    def subgraphs(self) -> list["Graph"]:
        """Bodies of this node, in attribute order; not those nested deeper."""
        found: list[Graph] = []
        for attribute in self.attributes.values():
            if attribute.type == "GRAPH" and not attribute.ref:
                found.append(attribute.value)
            elif attribute.type == "GRAPHS" and not attribute.ref:
                found.extend(attribute.value)
        return found

    def reads(self) -> "tuple[Value | None, ...]":
        """Its inputs, and what its bodies capture."""
        for attribute in self.attributes.values():
            if attribute.type[0] == "G":  # GRAPH or GRAPHS, which few nodes have
                return *self.inputs, *self.captures()
        return self.inputs

    def captures(self) -> list[Value]:
        """Outer values that the bodies read, each once, in order of appearance. O(size of the bodies)."""
        bodies = self.subgraphs()
        return list(dict.fromkeys(value for body in bodies for value in body.captures())) if bodies else []

    def __str__(self) -> str:
        return f"{self.op_type} {self.name!r}" if self.name else self.op_type

    def __repr__(self) -> str:
        return node_text(self)


class Graph:
    """Inputs, nodes in topological order, outputs. Initialisers are Values with a `constant`, by name.

    An initialiser that is also an input (overridable by a feed, IR version 3 and older) is in both.
    """

    def __init__(self, name: str = "", inputs: Iterable[Value] = (), outputs: Iterable[Value] = ()) -> None:
        self.name = name
        self.inputs: list[Value] = list(inputs)
        self.initializers: dict[str, Value] = {}
        self.doc_string = ""
        self._outputs: tuple[Value, ...] = ()
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0
        self.moves = 0
        """How often a node came or went. Bodies have their own number."""
        self.set_outputs(outputs)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The outputs, in order."""
        return self._outputs

    def set_outputs(self, outputs: Iterable[Value]) -> None:
        """Replace the outputs."""
        for value in self._outputs:
            value._outputs_of.pop(self, None)
        self._outputs = tuple(outputs)
        for value in self._outputs:
            value._outputs_of[self] = value._outputs_of.get(self, 0) + 1

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Node]:
        node = self._first
        while node is not None:
            if node.graph is self:
                yield node
            node = node._next

    @property
    def nodes(self) -> list[Node]:
        """A list of the nodes. O(n)."""
        return list(self)

    def all_nodes(self) -> Iterator[Node]:
        """Nodes of this graph and of all graphs nested in it; a node comes before those of its bodies. Every 64th is a checkpoint."""
        node, count = self._first, 0
        while node is not None:
            if node.graph is self:
                if not count & 63:
                    checkpoint()
                count += 1
                yield node
                for attribute in node.attributes.values():
                    if attribute.type[0] == "G":  # GRAPH or GRAPHS: few nodes have one, and this loop is everybody's
                        for body in node.subgraphs():
                            yield from body.all_nodes()
                        break
            node = node._next

    def append(self, node: Node) -> Node:
        """Add a node at the end and return it."""
        return self._link(node, self._last, None)

    def extend(self, nodes: Iterable[Node]) -> None:
        """Add nodes at the end, in order."""
        for node in nodes:
            self.append(node)

    def insert_before(self, anchor: Node, node: Node) -> Node:
        """Add a node in front of `anchor` and return it."""
        return self._link(node, anchor._previous, anchor)

    def insert_after(self, anchor: Node, node: Node) -> Node:
        """Add a node behind `anchor` and return it."""
        return self._link(node, anchor, anchor._next)

    def _link(self, node: Node, previous: Node | None, following: Node | None) -> Node:
        if node.graph is not None:
            raise InvalidGraph(f"{node} is in a graph already").about(node)
        node.graph, node._previous, node._next = self, previous, following
        if previous is None:
            self._first = node
        else:
            previous._next = node
        if following is None:
            self._last = node
        else:
            following._previous = node
        self._count += 1
        self.moves += 1
        return node

    def _unlink(self, node: Node) -> None:
        if node._previous is None:
            self._first = node._next
        else:
            node._previous._next = node._next
        if node._next is None:
            self._last = node._previous
        else:
            node._next._previous = node._previous
        node.graph = None  # `_next` stays: an iteration that stands on this node finds its way on
        self._count -= 1
        self.moves += 1

    def remove(self, node: Node) -> None:
        """Takes the node out and its uses back. Raises InvalidGraph while somebody reads an output of it."""
        for value in node.outputs:
            if value is not None and (value.uses or value.is_graph_output()):
                who = "a graph output" if value.is_graph_output() else f"read by {value.readers[0]}"
                raise InvalidGraph(f"{node} cannot be removed: its output {value.name!r} is {who}").about(node)
        for index, value in enumerate(node.inputs):
            if value is not None:
                del value.uses[node, index]
        for body in node.subgraphs():
            body.clear()
        for value in node.outputs:
            if value is not None:
                value.producer = None
        self._unlink(node)

    def clear(self) -> None:
        """Removes outputs and nodes, last first."""
        self.set_outputs(())
        for node in reversed(self.nodes):
            self.remove(node)

    def add_initializer(self, value: Value) -> Value:
        """Raises InvalidGraph when the name is taken."""
        if self.initializers.setdefault(value.name, value) is not value:
            raise InvalidGraph(f"graph {self.name!r} has two initialisers named {value.name!r}")
        return value

    def captures(self) -> list[Value]:
        """Values of outer graphs read here or deeper, each once, in order of appearance. O(size)."""
        own: set[Value | None] = {*self.inputs, *self.initializers.values()}
        found: dict[Value, None] = {}
        for node in self:
            for value in node.reads():
                if value is not None and value not in own:
                    found[value] = None
            own.update(node.outputs)
        found.update((value, None) for value in self.outputs if value not in own)
        return [value for value in found if value not in own]

    def sort(self) -> None:
        """Stable topological order, bodies included. O(nodes + uses). Raises InvalidGraph that names a cycle."""
        nodes = self.nodes
        for node in nodes:
            for body in node.subgraphs():
                body.sort()
        if not _is_sorted(nodes):
            order = _stable_order(nodes)
            for node in nodes:
                self._unlink(node)
            self.extend(order)

    def clone(self, mapping: dict[Value, Value] | None = None, name: str | None = None) -> "Graph":
        """A copy with Values of its own; constants are shared. `mapping` gives Values that stand for others and receives
        the new ones; outer values that it lacks stay. O(size).
        """
        mapping = {} if mapping is None else mapping
        copy = Graph(self.name if name is None else name)
        copy.doc_string = self.doc_string
        copy.inputs = [mapping.setdefault(value, Value(value.name, value.type, value.constant)) for value in self.inputs]
        for key, value in self.initializers.items():
            copy.initializers[key] = mapping.setdefault(value, Value(value.name, value.type, value.constant))
        for node in self:
            copy.append(clone_node(node, mapping))
        copy.set_outputs(mapping.get(value, value) for value in self.outputs)
        return copy

    def __str__(self) -> str:
        return graph_text(self)


def _producers(node: Node) -> list[Node]:
    """The nodes of the same graph whose outputs the node and its bodies read; with repetitions."""
    return [
        producer
        for value in node.reads()
        if value is not None and (producer := value.producer) is not None and producer.graph is node.graph
    ]


def _is_sorted(nodes: Iterable[Node]) -> bool:
    done: set[Node] = set()
    for node in nodes:
        if not done.issuperset(_producers(node)):
            return False
        done.add(node)
    return True


def _stable_order(nodes: Sequence[Node]) -> list[Node]:
    """Kahn's algorithm that always takes the ready node which came first: a sorted list stays as it is."""
    from heapq import heappop, heappush

    position = {node: k for k, node in enumerate(nodes)}
    before = {node: list(dict.fromkeys(_producers(node))) for node in nodes}
    follow: dict[Node, list[Node]] = {}
    for node in nodes:
        for other in before[node]:
            follow.setdefault(other, []).append(node)
    waits = {node: len(before[node]) for node in nodes}
    ready = [k for k, node in enumerate(nodes) if not waits[node]]
    order: list[Node] = []
    while ready:
        checkpoint()
        node = nodes[heappop(ready)]
        order.append(node)
        for reader in follow.get(node, ()):
            waits[reader] -= 1
            if not waits[reader]:
                heappush(ready, position[reader])
    if len(order) < len(nodes):
        cycle = _cycle(next(node for node in nodes if waits[node]), before, waits)
        raise InvalidGraph(f"the graph has a cycle: {' -> '.join(map(str, cycle))}")
    return order


def _cycle(node: Node, before: Mapping[Node, Sequence[Node]], waits: Mapping[Node, int]) -> list[Node]:
    """A cycle that `node` is on or behind, in the direction of the data; its first node comes again at the end."""
    path: dict[Node, None] = {}
    while node not in path:
        path[node] = None
        node = next(other for other in before[node] if waits[other])
    found = list(path)
    return [node, *reversed(found[found.index(node) :])]


def clone_node(node: Node, mapping: dict[Value, Value]) -> Node:
    """A copy of the node with new outputs; inputs and captures go through `mapping`, which receives the outputs. A checkpoint."""
    checkpoint()
    inputs = [None if value is None else mapping.get(value, value) for value in node.inputs]
    for value in node.outputs:
        if value is not None and value not in mapping:
            mapping[value] = Value(value.name, value.type, value.constant)
    outputs = [None if value is None else mapping[value] for value in node.outputs]
    attributes = []
    for attribute in node.attributes.values():
        if attribute.type[0] == "G" and not attribute.ref:  # GRAPH or GRAPHS; others are shared: nothing changes an Attr
            bodies = attribute.value
            copied = bodies.clone(mapping) if attribute.type == "GRAPH" else [body.clone(mapping) for body in bodies]
            attribute = Attr(attribute.name, attribute.type, copied)
        attributes.append(attribute)
    return Node(
        node.op_type,
        inputs,
        outputs,
        attributes,
        domain=node.domain,
        version=node.version,
        name=node.name,
        overload=node.overload,
    )


def node_text(node: Node, indent: str = "") -> str:
    """`y = Transpose<perm=[1, 0]>(x)`, ONNX's text syntax; bodies are indented below."""
    shown = [a for a in node.attributes.values() if a.ref or a.type not in ("GRAPH", "GRAPHS")]
    plain = [f"{a.name}={_attribute_text(a)}" for a in shown]
    attributes = f"<{', '.join(plain)}>" if plain else ""
    domain = f"{node.domain}." if node.domain else ""
    left = ", ".join("" if value is None else value.name for value in node.outputs)
    right = ", ".join("" if value is None else value.name for value in node.inputs)
    bodies = [graph_text(body, indent + "    ") for body in node.subgraphs()]
    return "\n".join([f"{indent}{left} = {domain}{node.op_type}{attributes}({right})", *bodies])


def graph_text(graph: Graph, indent: str = "") -> str:
    """The graph as text, one node a line, for people and for tests. O(size)."""
    inputs = ", ".join(f"{value.type} {value.name}" for value in graph.inputs)
    outputs = ", ".join(f"{value.type} {value.name}" for value in graph.outputs)
    constants = [f"{indent}  {v.name} = constant {v.type}" for v in graph.initializers.values()]
    nodes = [node_text(node, indent + "  ") for node in graph]
    return "\n".join([f"{indent}{graph.name or 'graph'} ({inputs}) => ({outputs}) {{", *constants, *nodes, indent + "}"])


def _attribute_text(attribute: Attr) -> str:
    if attribute.ref:
        return f"@{attribute.ref}"
    if attribute.type == "TENSOR":
        array = attribute.value
        return f"{array.dtype}{list(array.shape)}" + (f" {array.tolist()}" if array.size <= 8 else "")
    return f'"{attribute.value}"' if attribute.type == "STRING" else str(attribute.value)
