"""Stage 3: a graph and providers in order become an Assignment.

Greedy: each node goes to the first provider that takes it. Bodies of control flow are asked about before the graph around
them, provider by provider. What a provider claims is joined into maximal convex partitions. Calls of functions that nobody
claims are inlined, nodes that nobody takes in their element type get Casts around them, and all providers are asked again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite.checkpoint import checkpoint
from ort_lite.errors import Fail, OrtLiteError, PlacementError, UnknownOperator, told
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.inference.rules import ShapeRules
from ort_lite.partition.assignment import Again, Apart, Assignment, Level, Placement, Reason
from ort_lite.partition.borders import copies
from ort_lite.partition.claims import Claims, Group
from ort_lite.partition.constraints import Constraints
from ort_lite.provider.ask import ask, shown, who
from ort_lite.provider.provider import DataTransfer, ExecutionProvider, Partition

if TYPE_CHECKING:
    from ort_lite.partition.cost.strategy import Strategy

Remedy = Callable[[list[Node]], bool]
"""Changes the graph so that nodes which nobody takes may find a provider; False: it can do nothing."""


def partition(
    graph: Graph,
    providers: Sequence[ExecutionProvider],
    rules: ShapeRules,
    remedies: Sequence[Remedy] = (),
    constraints: Constraints | None = None,
    strategy: "Strategy | None" = None,
) -> Assignment:
    """Who runs each node, in which partition, and why nobody else does. Same input, same Assignment.

    `strategy` improves the greedy assignment (see `ort_lite.partition.cost`). Does not change the graph, but `remedies` may, one after
    the other until one returns True; then everybody is asked again. O(providers * (nodes + edges)) beside what the providers
    themselves need. Raises NotImplemented naming each node that is left, with every provider's reason (UnknownOperator
    where no schema knows any of them); PlacementError where a
    hard rule of the constraints keeps it from those that might; Fail naming a strategy that fails or returns nonsense.
    """
    labels = names_of(providers)
    constraints = constraints if constraints is not None else Constraints(labels)
    while True:
        root, left = dealt(graph, providers, rules, constraints)
        if not left:
            greedy = _Assembly(root, providers, labels, rules).assignment()
            return (
                greedy
                if strategy is None
                else _improved(strategy, greedy, partial(_without, graph, providers, rules, constraints))
            )
        if constraints.release(left):
            continue
        if not any(remedy(left) for remedy in remedies):
            hard = constraints.hard_rules(left)
            if hard:
                raise PlacementError("\n".join(["a hard rule cannot be kept:", *hard, _complaint(root, labels)])).about(left[0])
            unknown = all(rules.schemas.find(node) is None and rules.find(node) is None for node in left)
            raise (UnknownOperator if unknown else NotSupported)(_complaint(root, labels)).about(left[0])
        constraints.graph_changed()


def _improved(strategy: "Strategy", greedy: Assignment, again: Again) -> Assignment:
    """What the strategy makes of the assignment. Raises Fail, naming it, where it fails or returns none for this graph."""
    name = f"the partitioning strategy {getattr(strategy, '__name__', type(strategy).__name__)}"
    try:
        found: Any = strategy(greedy, again)
    except OrtLiteError as error:
        error.add_note(f"in {name}")
        raise
    except Exception as error:
        raise Fail(f"{name} failed: {told(error)}") from error
    if isinstance(found, Assignment) and found.graph is greedy.graph and found.placements.keys() == greedy.placements.keys():
        return found
    came = "an Assignment of other nodes" if isinstance(found, Assignment) else shown(found)
    raise Fail(f"{name} returned {came}; expected the Assignment that it was given, or one that `again` made")


def dealt(
    graph: Graph,
    providers: Sequence[ExecutionProvider],
    rules: ShapeRules,
    constraints: Constraints,
    taken: Collection[Node] = (),
) -> tuple[Claims, list[Node]]:
    """All nodes offered to all providers in order, but for those of the graph's own that are `taken`; and those that nobody takes."""
    constraints.begin(graph)
    root = _claims(graph, "", constraints.labels, constraints)
    for node in taken:
        root.taken_by[root.number[node]] = len(providers)
    for index, provider in enumerate(providers):
        for claims in _inner_first(root):
            claims.ask(index, provider, rules)
    return root, [claims.nodes[k] for claims in _levels(root) for k, owner in enumerate(claims.taken_by) if owner is None]


def _without(
    graph: Graph,
    providers: Sequence[ExecutionProvider],
    rules: ShapeRules,
    constraints: Constraints,
    back: Mapping[tuple[str, Node], str],
) -> Assignment | None:
    """The assignment when providers do not get what is given back; None where nobody else takes it, or nobody else may."""
    with constraints.without(back):
        root, left = dealt(graph, providers, rules, constraints)
    if left:
        return None
    made = _Assembly(root, providers, constraints.labels, rules).assignment()
    return None if any(place.provider in constraints.kept_off for place in made.placements.values()) else made


def names_of(providers: Sequence[ExecutionProvider]) -> list[str]:
    """Names for the assignment: of several instances of one provider the second is "Name#2"."""
    seen: dict[str, int] = {}
    names = []
    for provider in providers:
        name = who(provider)
        seen[name] = count = seen.get(name, 0) + 1
        names.append(name if count == 1 else f"{name}#{count}")
    return names


def transfers_of(providers: Sequence[ExecutionProvider]) -> list[DataTransfer]:
    """What moves values between their devices, in their order."""
    return [transfer for provider in providers if (transfer := ask(provider, "data_transfer")) is not None]


def _claims(graph: Graph, path: str, labels: Sequence[str], constraints: Constraints) -> Claims:
    claims = Claims(graph, path, labels, constraints)
    for node in claims.nodes:
        for attribute in node.attributes.values():
            bodies = {"GRAPH": [attribute.value], "GRAPHS": attribute.value}.get(attribute.type, [])
            for body in bodies:
                inner = _claims(body, f"{node}.{attribute.name}", labels, constraints)
                claims.bodies.setdefault(node, []).append(inner)
    return claims


def _inner_first(claims: Claims) -> Iterator[Claims]:
    """The levels that are still to be asked about, bodies before the graph around them."""
    for node, bodies in claims.bodies.items():
        if node not in claims.whole:
            for body in bodies:
                yield from _inner_first(body)
    yield claims


def _levels(claims: Claims) -> Iterator[Claims]:
    """The levels with partitions of their own, a graph before its bodies."""
    yield claims
    for node, bodies in claims.bodies.items():
        if node not in claims.whole:
            for body in bodies:
                yield from _levels(body)


def _complaint(root: Claims, labels: Sequence[str]) -> str:
    lines = []
    for claims in _levels(root):
        for k, owner in enumerate(claims.taken_by):
            if owner is None:
                reasons = "; ".join(f"{r.provider} {r}" for _, r in sorted(claims.reasons[k].items()))
                where = f" in {claims.path}" if claims.path else ""
                lines.append(f"  {_described(claims.nodes[k])}{where}: {reasons or 'no provider was asked'}")
    some = "a node" if len(lines) == 1 else f"{len(lines)} nodes"
    return f"no provider of {', '.join(labels) or 'none'} runs {some}:\n" + "\n".join(lines)


def _described(node: Node) -> str:
    types = ", ".join("(left out)" if v is None else str(v.type or "unknown type") for v in node.inputs)
    return f"{node} ({node.domain or 'ai.onnx'} {node.version}; {types})"


class _Assembly:
    """Turns claims into partitions, levels and placements."""

    def __init__(self, root: Claims, providers: Sequence[ExecutionProvider], labels: Sequence[str], rules: ShapeRules) -> None:
        self.root, self.providers, self.labels, self.rules = root, providers, labels, rules
        self.transfers = transfers_of(providers)
        self.counts = [0] * len(providers)
        self.placements: dict[Node, Placement] = {}
        self.earlier: dict[tuple[int, int], Reason] = {}

    def assignment(self) -> Assignment:
        levels = tuple(self._level(claims) for claims in _levels(self.root))
        named = dict(zip(self.labels, self.providers, strict=True))
        return Assignment(self.root.graph, named, levels, self.placements, self.root.constraints.remarks())

    def _level(self, claims: Claims) -> Level:
        names: dict[int, str] = {}  # by identity of the Group
        partitions = []
        border = _Border(claims)
        order = claims.quotient.order()
        for number in order:
            checkpoint()
            group, members = claims.groups[number], claims.quotient.members[number]
            names[id(group)] = name = self._name(group)
            inputs, outputs = border.of(members)
            nodes = tuple(claims.nodes[k] for k in members)
            provider, nested = self.providers[group.provider], bool(claims.path)
            partitions.append(Partition(name, provider, nodes, inputs, outputs, self.rules, nested=nested))
            for k in members:
                self._place(claims, k, group.provider, name)
        apart = [
            Apart(names[id(group.apart[0])], names[id(group)], claims.nodes[group.apart[1]])
            for number in order
            if (group := claims.groups[number]).apart is not None
        ]
        between = copies(claims.graph, partitions, self.transfers)
        return Level(claims.graph, claims.path, tuple(partitions), between, tuple(apart))

    def _name(self, group: Group) -> str:
        count = self.counts[group.provider]
        self.counts[group.provider] += 1
        return f"{self.labels[group.provider]}_{count}"

    def _place(self, claims: Claims, k: int, owner: int, partition: str, whole: bool = False) -> None:
        """`whole`: the node is inside one that is taken whole, so what is inside of it is taken, too."""
        node = claims.nodes[k]
        reasons = tuple(self._reason(claims, k, index, owner) for index in range(len(self.labels)) if index != owner)
        rule, inserted = claims.constraints.rule_of(node, owner), claims.constraints.inserted.get(node, "")
        self.placements[node] = Placement(node, self.labels[owner], partition, reasons, rule, inserted)
        if whole or node in claims.whole:
            for body in claims.bodies.get(node, ()):
                for inner in range(len(body.nodes)):
                    self._place(body, inner, owner, partition, whole=True)

    def _reason(self, claims: Claims, k: int, index: int, owner: int) -> Reason:
        if index < owner:
            return claims.reasons[k][index]
        if (index, owner) not in self.earlier:
            detail = f"earlier provider {self.labels[owner]} takes it"
            self.earlier[index, owner] = Reason(self.labels[index], "lost", "earlier", detail)
        return self.earlier[index, owner]


class _Border:
    """Which values cross the border of a set of nodes of one graph."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self.inputs = _positions(claims.graph.inputs)
        self.outputs = _positions(claims.graph.outputs)
        self.readers: dict[Value, list[int]] = {}
        for k, values in enumerate(claims.reads):
            for value in values:
                self.readers.setdefault(value, []).append(k)

    def of(self, members: list[int]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """What the nodes read from outside, and what others read of theirs. O(inputs and outputs of the nodes)."""
        inside, claims = set(members), self.claims
        produced = {value: None for k in members for value in claims.nodes[k].outputs if value is not None}
        read = dict.fromkeys([value for k in members for value in claims.reads[k]])
        inputs = [value for value in read if value.constant is None and value not in produced]
        outputs = [v for v in produced if v in self.outputs or not inside.issuperset(self.readers.get(v, ()))]
        return _in_order(inputs, self.inputs), _in_order(outputs, self.outputs)


def _positions(values: Sequence[Value]) -> dict[Value, int]:
    return {value: k for k, value in reversed(list(enumerate(values)))}


def _in_order(values: list[Value], position: dict[Value, int]) -> tuple[Value, ...]:
    """Those that have a position before the others."""
    return tuple(sorted(values, key=lambda value: position.get(value, len(position))))
