"""Placement rules in force: which providers each node may go to, and which rules could not be followed."""

from collections.abc import Iterable, Iterator, Sequence

from ort_lite.errors import PlacementError, format_error
from ort_lite.graph.graph import Graph, Node
from ort_lite.partition.placement import PlacementRule
from ort_lite.record import Record


class _Order(Record):
    """The providers that may have a node, and the first rule that says so."""

    providers: frozenset[int]
    rule: PlacementRule


class PlacementRules:
    """The placement rules of a session, applied to its graph.

    A hard rule always holds. A soft rule keeps within the hard ones, and holds until nobody that it names takes the node.
    """

    def __init__(self, labels: Sequence[str], rules: Sequence[PlacementRule]) -> None:
        self._labels, self._rules = labels, rules
        self._hard: dict[Node, _Order] = {}
        self._soft: dict[Node, _Order] = {}
        self._released: set[Node] = set()
        self._unfollowed: dict[str, None] = {}

    def apply(self, graph: Graph) -> None:
        """Match the rules with the nodes of the graph, all depths. O(nodes * rules).

        All hard rules that match a node hold; of the soft ones those that do not contradict one before them. Raises PlacementError
        for hard rules that contradict each other.
        """
        self._hard, self._soft, self._unfollowed = {}, {}, {}
        if not self._rules:
            return
        unused = dict.fromkeys(map(id, self._rules))
        for node in graph.all_nodes():
            matching = [rule for rule in self._rules if _matches(rule, node)]
            for rule in matching:
                unused.pop(id(rule), None)
            for rule in (rule for rule in matching if rule.hard):
                self._require(node, rule)
            for rule in (rule for rule in matching if not rule.hard):
                self._prefer(node, rule)
        for rule in self._rules:
            if id(rule) in unused:
                self._unfollowed[f"{rule} matches no node"] = None

    def _require(self, node: Node, rule: PlacementRule) -> None:
        providers, before = self._providers(rule), self._hard.get(node)
        if not providers:
            raise PlacementError(f"{node}: {rule} names no provider of the session").about(node)
        if before is None:
            self._hard[node] = _Order(providers, rule)
        elif before.providers & providers:
            self._hard[node] = _Order(before.providers & providers, before.rule)
        else:
            raise PlacementError(f"{node}: {before.rule} and {rule} contradict each other").about(node)

    def _prefer(self, node: Node, rule: PlacementRule) -> None:
        hard = self._hard.get(node)
        providers, before = self._providers(rule), self._soft.get(node, hard)
        if not providers:
            self._unfollowed[f"{rule} names no provider of the session"] = None
        elif before is None:
            self._soft[node] = _Order(providers, rule)
        elif before.providers & providers:
            self._soft[node] = _Order(before.providers & providers, rule if before is hard else before.rule)
        else:
            self._unfollowed[f"{rule} is not followed for {node}: {before.rule} comes first"] = None

    def _providers(self, rule: PlacementRule) -> frozenset[int]:
        wanted = set(rule.providers)
        return frozenset(k for k, label in enumerate(self._labels) if label in wanted or label.partition("#")[0] in wanted)

    def handle_graph_change(self) -> None:
        """Put soft rules in force again: a node that nobody took may find a provider now."""
        self._released.clear()

    def release(self, nodes: Iterable[Node]) -> bool:
        """Lift the soft rules of nodes that nobody took. Return whether there were any."""
        soft = {node for node in nodes if node in self._soft} - self._released
        self._released |= soft
        return bool(soft)

    def _order(self, node: Node) -> _Order | None:
        soft = self._soft.get(node)
        return self._hard.get(node) if soft is None or node in self._released else soft

    def obstacle(self, index: int, node: Node) -> str | None:
        """Return why a rule keeps the node from that provider, or None."""
        order = self._order(node)
        return None if order is None or index in order.providers else f"{order.rule} gives it to others"

    def obstacle_inside(self, index: int, node: Node) -> str | None:
        """Return why a rule keeps a node in one of its bodies, at any depth, from that provider, or None."""
        if not self._rules:
            return None
        inside = (inner for body in node.subgraphs() for inner in body.all_nodes())
        return next((f"{inner}: {why}" for inner in inside if (why := self.obstacle(index, inner)) is not None), None)

    def rule_for(self, index: int, node: Node) -> str:
        """Return the rule by which that provider has the node, or ""."""
        order = self._order(node)
        return str(order.rule) if order is not None and index in order.providers else ""

    def hard_rules(self, nodes: Iterable[Node]) -> list[str]:
        """Return the hard rules of nodes that nobody took, one line for each node that has one."""
        return [f"{node}: {self._hard[node].rule}" for node in nodes if node in self._hard]

    def remarks(self) -> Iterator[str]:
        """Yield a line for each rule that was not followed to the letter."""
        yield from self._unfollowed
        for node, order in self._soft.items():
            if node in self._released:
                yield f"{order.rule} gave way for {node}: nobody that it names takes it"


def _matches(rule: PlacementRule, node: Node) -> bool:
    try:
        return rule.matches(node)
    except Exception as error:
        raise PlacementError(f"{node}: {rule} cannot be asked about it: {format_error(error)}").about(node) from error
