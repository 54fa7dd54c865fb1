"""The constraints under which nodes are dealt out, beside what providers answer: placement rules, budgets, compiles that failed.

They live as long as one session is being made: when a compile fails the nodes are dealt out once more, and what a provider
answered about a graph that looks the same to it holds.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ort_lite.dtypes import itemsize
from ort_lite.errors import InvalidArgument, PlacementError, told
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.types import TensorType
from ort_lite.log.events import Span, no_span
from ort_lite.options.policies import Policy
from ort_lite.partition.placement import PlacementRule
from ort_lite.provider.provider import Capability, GraphView, Rejection, Resource
from ort_lite.record import Record
from ort_lite.shapes.dims import product
from ort_lite.shapes.expr import Dim

Answers = list[Capability | Rejection]


class _Order(Record):
    """What the rules say of one node: the providers that may have it, and the first rule that says so."""

    providers: frozenset[int]
    rule: PlacementRule


class Constraints:
    """`labels` name the providers; `resources` are what each has room for, None: no limit; `policies` are what the user
    says of each, `remarks` of rules what is known already.

    `inserted` says of nodes that the framework put into the graph who did it and why.
    """

    def __init__(
        self,
        labels: Sequence[str],
        rules: Sequence[PlacementRule] = (),
        resources: Sequence[Resource | None] = (),
        policies: Sequence[Policy] = (),
        remarks: Sequence[str] = (),
    ) -> None:
        self.labels, self.rules = labels, rules
        self.policies = policies or [Policy()] * len(labels)
        self._controlled: dict[int, dict[Node, tuple[str, str]]] | None = None
        self.span: Span = no_span
        self._remarks, self._cut = remarks, dict[str, None]()
        self.inserted: dict[Node, str] = {}
        self._put_back: set[Node] = set()
        self._laid_out: set[Node] = set()
        self.kept_off: frozenset[str] = frozenset()
        """Labels of providers to which no strategy may move a node."""
        self._given_back: dict[tuple[int, Node], str] = {}
        self.resources = resources
        self._accounts: dict[int, _Account] = {}
        self._hard: dict[Node, _Order] = {}
        self._soft: dict[Node, _Order] = {}
        self._released: set[Node] = set()
        self._unfollowed: dict[str, None] = {}
        self._failed: dict[tuple[int, Node], str] = {}
        self._answers: dict[tuple[int, Graph], tuple[GraphView, Answers]] = {}

    def begin(self, graph: Graph) -> None:
        """Everything is dealt out anew. Raises PlacementError for hard rules that contradict each other."""
        self._accounts = {k: _Account(r) for k, r in enumerate(self.resources) if r is not None}
        self._cut = {}
        if self._controlled is None:
            self._controlled = self._preferences(graph)
        if self.rules:
            self._unfollowed = {}
            self._hard, self._soft = _orders(graph, self.rules, self.labels, self._unfollowed)

    def graph_changed(self) -> None:
        """Nodes that nobody took may find one now: soft rules hold again, and providers are asked again."""
        self._released.clear()
        self._answers.clear()
        self._controlled = None

    def remarks(self) -> tuple[str, ...]:
        """What became of rules that were not followed to the letter, and of layouts that nobody took."""
        released = [node for node in self._soft if node in self._released]
        gave_way = (f"{self._soft[node].rule} gave way for {node}: nobody that it names takes it" for node in released)
        back = (f"{node} is not taken channels-last: it is as it was" for node in self._put_back)
        return (*self._remarks, *self._unfollowed, *gave_way, *self._gave_way(), *self._cut, *sorted(back))

    # Changes of the graph

    def note_inserted(self, nodes: Iterable[Node], why: str) -> None:
        """The framework put these nodes into the graph."""
        self.inserted.update((node, why) for node in nodes)

    def note_put_back(self, nodes: Iterable[Node]) -> None:
        """Nobody took these nodes in the layout they were offered in."""
        self._put_back.update(nodes)

    def first_offer(self, node: Node) -> bool:
        """Whether the node was never offered in the layout that a provider prefers: once is enough."""
        offered = node in self._laid_out
        self._laid_out.add(node)
        return not offered

    # Rules

    def _order(self, node: Node) -> _Order | None:
        """What holds for the node: the soft rule, which keeps within the hard ones, as long as it can."""
        soft = self._soft.get(node)
        return self._hard.get(node) if soft is None or node in self._released else soft

    def ruled_out(self, index: int, node: Node) -> str | None:
        """Why a rule keeps the node from that provider; None: no rule does."""
        order = self._order(node)
        return None if order is None or index in order.providers else f"{order.rule} gives it to others"

    def ruled_out_inside(self, index: int, node: Node) -> str | None:
        """The same for the nodes of its bodies, all depths."""
        if not self.rules:
            return None
        inside = (inner for body in node.subgraphs() for inner in body.all_nodes())
        return next((f"{inner}: {why}" for inner in inside if (why := self.ruled_out(index, inner)) is not None), None)

    def rule_of(self, node: Node, index: int) -> str:
        """The rule by which that provider has the node; "": none."""
        order = self._order(node)
        return str(order.rule) if order is not None and index in order.providers else ""

    def release(self, left: Iterable[Node]) -> bool:
        """Lifts the soft rules of nodes that nobody took, and what a policy prefers for them. False: there is nothing of it."""
        controlled = set[Node]().union(*(self._controlled or {}).values())
        soft = {node for node in left if node in self._soft or node in controlled} - self._released
        self._released |= soft
        return bool(soft)

    def hard_rules(self, left: Iterable[Node]) -> list[str]:
        """Of nodes that nobody took: the hard rules that keep them from others."""
        return [f"{node}: {self._hard[node].rule}" for node in left if node in self._hard]

    # What policies prefer

    def kept_off_by(self, index: int, node: Node) -> tuple[str, str] | None:
        """Code and detail of the Reason for which the provider is not asked about the node; None: it is."""
        if not self._controlled or node in self._released:
            return None
        return self._controlled.get(index, {}).get(node)

    def _preferences(self, graph: Graph) -> dict[int, dict[Node, tuple[str, str]]]:
        """By provider, the nodes that it is not asked about."""
        some = [k for k, policy in enumerate(self.policies) if policy.prefers_others]
        if not some:
            return {}
        from ort_lite.partition.controls import kept_off

        return {k: kept_off(graph, self.policies[k]) for k in some}

    def note_cut(self, index: int, nodes: int, parts: int) -> None:
        """A group of a provider became several partitions."""
        limit = f"max_subgraph_size is {self.policies[index].max_subgraph_size}"
        self._cut[f"{self.labels[index]}: {nodes} nodes that could be one partition are {parts}: {limit}"] = None

    def _gave_way(self) -> Iterator[str]:
        if not self._controlled:
            return
        from ort_lite.partition.controls import CONTROLS

        for index, controlled in self._controlled.items():
            for node, (code, _) in controlled.items():
                if node in self._released:
                    yield f"{CONTROLS[code]} of {self.labels[index]} gave way for {node}: nobody else takes it"

    # Failed compiles

    def bar(self, index: int, nodes: Iterable[Node], detail: str) -> None:
        """The provider could not compile a partition of these nodes: it gets none of them again."""
        self._failed.update(((index, node), detail) for node in nodes)

    def failed(self, index: int, nodes: Iterable[Node]) -> str | None:
        if not self._failed:
            return None
        return next((why for node in nodes if (why := self._failed.get((index, node))) is not None), None)

    # What a strategy gives back

    @contextmanager
    def without(self, given_back: Mapping[tuple[str, Node], str]) -> Iterator[None]:
        """Inside, providers do not get these nodes, for these reasons. Raises InvalidArgument for a label that none of them has."""
        index = {label: k for k, label in enumerate(self.labels)}
        for label, node in given_back:
            if label not in index or not isinstance(node, Node):
                raise InvalidArgument(
                    f"given back is {node} of {label!r}; expected a node, and one of {', '.join(self.labels)}"
                )
        self._given_back = {(index[label], node): why for (label, node), why in given_back.items()}
        try:
            yield
        finally:
            self._given_back = {}

    def given_back(self, index: int, nodes: Iterable[Node]) -> str | None:
        if not self._given_back:
            return None
        return next((why for node in nodes if (why := self._given_back.get((index, node))) is not None), None)

    # Budgets

    def has_budget(self, index: int) -> bool:
        return index in self._accounts

    def afford(self, index: int, nodes: Collection[Node]) -> str | None:
        """Takes what the nodes need from the provider's budget; or says why they do not fit."""
        account = self._accounts.get(index)
        return None if account is None else account.take(nodes)

    def give_back(self, index: int, nodes: Collection[Node]) -> None:
        if index in self._accounts:
            self._accounts[index].give_back(nodes)

    # Answers

    def answers(self, index: int, view: GraphView, ask: Callable[[GraphView], Answers]) -> Answers:
        """What the provider said to a view that shows the same; else `ask` is called."""
        known = self._answers.get((index, view.graph))
        if known is None or known[0] != view:
            known = self._answers[index, view.graph] = (view, self._asked(index, view, ask))
        return known[1]

    def _asked(self, index: int, view: GraphView, ask: Callable[[GraphView], Answers]) -> Answers:
        if self.span is no_span:
            return ask(view)
        with self.span("get_capability", provider=self.labels[index], offered=len(view)) as facts:
            answers = ask(view)
            facts["claimed"] = len({node for answer in answers if isinstance(answer, Capability) for node in answer.nodes})
        return answers


class _Account:
    """What is left of a Resource. A constant counts once."""

    def __init__(self, resource: Resource) -> None:
        self._limit = resource
        self._nodes = self._outputs = self._constants = 0
        self._readers: dict[Value, int] = {}

    def take(self, nodes: Collection[Node]) -> str | None:
        limit, constants, outputs = self._limit, _constants(nodes), _outputs(nodes)
        new = sum(value.constant.nbytes for value in constants if value.constant is not None and value not in self._readers)
        used = self._outputs + self._constants
        if limit.nodes is not None and self._nodes + len(nodes) > limit.nodes:
            return f"over budget: {self._nodes} of {limit.nodes} nodes are taken"
        if limit.nbytes is not None and used + outputs + new > limit.nbytes:
            return f"over budget: {outputs + new} bytes, {limit.nbytes - used} of {limit.nbytes} are left"
        self._nodes, self._outputs, self._constants = self._nodes + len(nodes), self._outputs + outputs, self._constants + new
        for value in constants:
            self._readers[value] = self._readers.get(value, 0) + 1
        return None

    def give_back(self, nodes: Collection[Node]) -> None:
        self._nodes, self._outputs = self._nodes - len(nodes), self._outputs - _outputs(nodes)
        for value in _constants(nodes):
            self._readers[value] -= 1
            if not self._readers[value] and value.constant is not None:
                del self._readers[value]
                self._constants -= value.constant.nbytes


def _constants(nodes: Collection[Node]) -> set[Value]:
    return {value for node in nodes for value in node.inputs if value is not None and value.constant is not None}


def _outputs(nodes: Collection[Node]) -> int:
    sizes = (nbytes(value) for node in nodes for value in node.outputs if value is not None)
    return sum(size for size in sizes if isinstance(size, int))


def nbytes(value: Value) -> Dim | None:
    """Bytes of a tensor, symbolic where its shape is; None where type or rank is unknown, and for strings."""
    if not isinstance(value.type, TensorType) or value.type.shape is None or not itemsize(value.type.dtype):
        return None
    return product(value.type.shape) * itemsize(value.type.dtype)


def _orders(
    graph: Graph, rules: Sequence[PlacementRule], labels: Sequence[str], remarks: dict[str, None]
) -> tuple[dict[Node, _Order], dict[Node, _Order]]:
    """What hard rules allow, and what soft ones prefer of that. O(nodes * rules).

    All hard rules that match a node hold; of the soft ones those that do not contradict one before them.
    """
    unused = dict.fromkeys(map(id, rules))
    hard: dict[Node, _Order] = {}
    soft: dict[Node, _Order] = {}
    for node in graph.all_nodes():
        matching = [rule for rule in rules if _matches(rule, node)]
        for rule in matching:
            unused.pop(id(rule), None)
        for rule in (rule for rule in matching if rule.hard):
            hard[node] = _both(hard.get(node), rule, labels, node)
        for rule in (rule for rule in matching if not rule.hard):
            _prefer(soft, hard.get(node), rule, labels, node, remarks)
    for rule in rules:
        if id(rule) in unused:
            remarks[f"{rule} matches no node"] = None
    return hard, soft


def _matches(rule: PlacementRule, node: Node) -> bool:
    try:
        return rule.matches(node)
    except Exception as error:
        raise PlacementError(f"{node}: {rule} cannot be asked about it: {told(error)}").about(node) from error


def _both(order: _Order | None, rule: PlacementRule, labels: Sequence[str], node: Node) -> _Order:
    providers = _indices(rule, labels)
    if not providers:
        raise PlacementError(f"{node}: {rule} names no provider of the session").about(node)
    if order is None:
        return _Order(providers, rule)
    if not order.providers & providers:
        raise PlacementError(f"{node}: {order.rule} and {rule} contradict each other").about(node)
    return _Order(order.providers & providers, order.rule)


def _prefer(
    soft: dict[Node, _Order],
    hard: _Order | None,
    rule: PlacementRule,
    labels: Sequence[str],
    node: Node,
    remarks: dict[str, None],
) -> None:
    providers, before = _indices(rule, labels), soft.get(node, hard)
    if not providers:
        remarks[f"{rule} names no provider of the session"] = None
    elif before is None:
        soft[node] = _Order(providers, rule)
    elif before.providers & providers:
        soft[node] = _Order(before.providers & providers, rule if before is hard else before.rule)
    else:
        remarks[f"{rule} is not followed for {node}: {before.rule} comes first"] = None


def _indices(rule: PlacementRule, labels: Sequence[str]) -> frozenset[int]:
    wanted = set(rule.providers)
    return frozenset(k for k, label in enumerate(labels) if label in wanted or label.partition("#")[0] in wanted)
