"""Claims become partitions, levels and placements: the data of an Assignment."""

from collections.abc import Sequence

from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.native.checkpoint import checkpoint
from ort_lite.partition.assignment import Apart, Assignment, Level, Placement, Reason
from ort_lite.partition.borders import body_values, copies, transfers_of, with_host_values
from ort_lite.partition.claims import Claims, Group
from ort_lite.provider.provider import CPU, ExecutionProvider, Partition


class Assembly:
    """Turns the claims of a graph and its bodies, in which each node has a provider, into an Assignment."""

    def __init__(self, root: Claims, providers: Sequence[ExecutionProvider], rules: ShapeRules) -> None:
        self.root, self.providers, self.labels, self.rules = root, providers, root.labels, rules
        self.transfers = transfers_of(providers)
        self.counts = [0] * len(providers)
        self.placements: dict[Node, Placement] = {}
        self.earlier: dict[tuple[int, int], Reason] = {}
        self.around: dict[Graph, tuple[int, Partition]] = {}
        """The provider and partition that run the node of a body."""

    def assignment(self) -> Assignment:
        """Return the assignment of all levels."""
        levels = tuple(self._level(claims) for claims in self.root.levels())
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
            made = with_host_values(Partition(name, provider, nodes, inputs, outputs, self.rules, nested=nested))
            partitions.append(made)
            self.around.update((body, (group.provider, made)) for node in nodes for body in node.subgraphs())
            for k in members:
                self._place(claims, k, group.provider, name)
        apart = [
            Apart(names[id(group.apart[0])], names[id(group)], claims.nodes[group.apart[1]])
            for number in order
            if (group := claims.groups[number]).apart is not None
        ]
        on_device = self._body_values(claims, partitions)
        homes = {value: provider.device for value, provider in on_device.items()}
        wanted = {value: homes.get(value, CPU) for value in claims.graph.outputs}
        between = copies(partitions, self.transfers, homes, wanted)
        return Level(claims.graph, claims.path, tuple(partitions), between, tuple(apart), on_device)

    def _body_values(self, claims: Claims, partitions: Sequence[Partition]) -> dict[Value, ExecutionProvider]:
        """Return the values that cross the border of a body in the memory of a provider, which runs the node of the body."""
        if claims.graph not in self.around:
            return {}
        index, around = self.around[claims.graph]
        return body_values(around, claims.graph, partitions, claims.constraints.policies[index])

    def _name(self, group: Group) -> str:
        count = self.counts[group.provider]
        self.counts[group.provider] += 1
        return f"{self.labels[group.provider]}_{count}"

    def _place(self, claims: Claims, k: int, owner: int, partition: str, whole: bool = False) -> None:
        """`whole`: the node is inside one that is taken whole, so what is inside of it is taken, too."""
        node = claims.nodes[k]
        reasons = tuple(self._reason(claims, k, index, owner) for index in range(len(self.labels)) if index != owner)
        rule, inserted = claims.constraints.rules.rule_for(owner, node), claims.constraints.changes.inserted.get(node, "")
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
    """The values that cross the border of a set of nodes of one graph."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self.inputs = _positions(claims.graph.inputs)
        self.outputs = _positions(claims.graph.outputs)
        self.readers: dict[Value, list[int]] = {}
        for k, values in enumerate(claims.reads):
            for value in values:
                self.readers.setdefault(value, []).append(k)

    def of(self, members: list[int]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Return the values that the nodes read from outside, and those that others read of theirs.

        O(inputs and outputs of the nodes).
        """
        inside, claims = set(members), self.claims
        produced = {value: None for k in members for value in claims.nodes[k].outputs if value is not None}
        read = dict.fromkeys([value for k in members for value in claims.reads[k]])
        inputs = [value for value in read if value.constant is None and value not in produced]
        outputs = [v for v in produced if v in self.outputs or not inside.issuperset(self.readers.get(v, ()))]
        return _in_order(inputs, self.inputs), _in_order(outputs, self.outputs)


def _positions(values: Sequence[Value]) -> dict[Value, int]:
    return {value: k for k, value in reversed(list(enumerate(values)))}


def _in_order(values: list[Value], position: dict[Value, int]) -> tuple[Value, ...]:
    """Sort values, those that have a position before the others."""
    return tuple(sorted(values, key=lambda value: position.get(value, len(position))))
