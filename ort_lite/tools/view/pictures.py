"""Snapshots of a graph while transforms run: the nodes it has, and the form of each.

Each pass has its own snapshot. Rules alternate from node to node, so their work between two passes is one snapshot.
"""

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence

from ort_lite.graph.graph import Graph, Node
from ort_lite.log.events import Event, Subscriber
from ort_lite.record import Record
from ort_lite.tools.view import document as page
from ort_lite.tools.view.graph_records import GraphNames, value_of
from ort_lite.transform.contract import Change

INLINING = "inline_functions"
"""Whose picture it is where calls of functions that no provider claims were inlined, which comes before the transforms."""
RULES = "rules"

Form = tuple[str, int]
"""A node's name, and which of the records that nodes of this name had: operands and attributes may change."""


class Forms:
    """All records that nodes had, by name, and the first node of each operator."""

    def __init__(self) -> None:
        self.operators: dict[str, Node] = {}
        self._records: dict[str, list[page.NodeData]] = {}

    def of(self, node: Node, names: GraphNames) -> Form:
        """Return the form of a node, and store its record if no node of that name had the same one before."""
        self.operators.setdefault(node.operator, node)
        record = names.node(node)
        known = self._records.setdefault(record["name"], [])
        if record not in known:
            known.append(record)
        return record["name"], known.index(record)

    def keys(self, kept: Iterable[Form]) -> dict[Form, str]:
        """Return a key for each form. Forms in `kept`, or otherwise the last ones, have the node's name; others "NAME~1" and so on."""
        plain = {name: len(records) - 1 for name, records in self._records.items()} | dict(kept)
        keys: dict[Form, str] = {}
        for name, records in self._records.items():
            others = (k for k in range(len(records)) if k != plain[name])
            keys[name, plain[name]] = name
            keys.update(((name, k), f"{name}~{number}") for number, k in enumerate(others, 1))
        return keys

    def nodes(self, keys: Mapping[Form, str]) -> dict[str, page.NodeData]:
        """Return all records by key."""
        return {keys[name, k]: record for name, records in self._records.items() for k, record in enumerate(records)}


class Picture(Record):
    """The state of a graph: the form of each node by name, and the changes by transforms. `turn` names the transform."""

    turn: str
    forms: Mapping[str, Form]
    first: int = 0
    """Of all changes those from here to `last` are its own."""
    last: int = 0
    changes: tuple[Change, ...] = ()


class Film(Subscriber):
    """A subscriber to events of transforms that takes a picture when another transform begins, if the last one changed something.

    `passes` are the names of the passes, `dims` the sizes of free dimensions that are known. O(nodes) per picture.
    """

    def __init__(self, graph: Graph, forms: Forms, passes: Collection[str], dims: Mapping[str, int]) -> None:
        self._graph, self._forms, self._passes, self._dims = graph, forms, passes, dims
        self._known: dict[Node, tuple[_Look, Form]] = {}
        self._turn = ""
        """Whose changes no picture shows yet."""
        self._fired = self._shown = 0
        self.values: dict[str, page.ValueData] = {}
        self.bodies: dict[str, page.BodyData] = {}
        self.pictures = [Picture("", self._find_forms())]

    def on_begin(self, name: str) -> None:
        """Take a picture if the last transform changed something and another one begins."""
        if self._turn not in ("", self._turn_of(name)):
            self._take()

    def on_end(self, event: Event) -> None:
        """Note that a transform changed the graph, or that inference gave values their types."""
        if event.args.get("fired"):
            self._turn = self._turn_of(event.name)
            self._fired += 1
        elif event.name == "check_form":
            self._turn = INLINING
        elif event.name == "inference":
            self._look_at_values(GraphNames(self._graph))

    def _turn_of(self, name: str) -> str:
        return name if name in self._passes else RULES

    def end(self, changes: Sequence[Change]) -> list[Picture]:
        """Return the pictures. `changes` has one entry for each time that a transform fired."""
        self._take()
        return [picture.replace(changes=tuple(changes[picture.first : picture.last])) for picture in self.pictures]

    def _take(self) -> None:
        """Take a picture if something changed."""
        turn, first = self._turn, self._shown
        self._turn, self._shown = "", self._fired
        if turn and (forms := self._find_forms()) != self.pictures[-1].forms:
            self.pictures.append(Picture(turn, forms, first, self._fired))

    def _find_forms(self) -> dict[str, Form]:
        """Return the form of each node. Records of unchanged nodes are reused."""
        names: GraphNames | None = None
        known, self._known = self._known, {}
        for node in self._graph.all_nodes():
            look, before = _Look(node), known.get(node)
            if before is None or before[0] != look:
                names = names or GraphNames(self._graph)
                before = look, self._forms.of(node, names)
            self._known[node] = before
        if names is not None:
            self._look_at_values(names)
        return {node.name: form for node, (_, form) in self._known.items()}

    def _look_at_values(self, names: GraphNames) -> None:
        """Record values as they are when they first have a type."""
        for value, key in names.values.items():
            known = self.values.get(key)
            if known is None or (known["type"] == "unknown" and value.type is not None):
                self.values[key] = value_of(value, self._dims)
        for body in names.bodies:
            self.bodies.setdefault(body["path"], body)


class _Look:
    """A cheap description of a node, equal if its record is equal. Attributes are never written to, so identity is enough."""

    __slots__ = ("attributes", "operands")

    def __init__(self, node: Node) -> None:
        self.operands = node.op_type, node.domain, len(node.inputs), [v and v.name for v in (*node.reads(), *node.outputs)]
        self.attributes = list(node.attributes.values())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Look)
            and self.operands == other.operands
            and len(self.attributes) == len(other.attributes)
            and all(map(operator.is_, self.attributes, other.attributes))
        )

    def __hash__(self) -> int:
        return hash(self.operands[:3])
