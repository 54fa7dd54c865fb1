"""Constraints of assignment beside what providers answer: rules, preferences, budgets, failed compiles. One file for each subject.

They live while one session is created. When a partition does not compile, nodes are assigned once more; what a provider answered about
a graph that looks the same to it holds.
"""

from collections.abc import Iterable, Mapping, Sequence

from ort_lite import log
from ort_lite.graph.graph import Graph, Node
from ort_lite.options.options import SessionOptions
from ort_lite.options.policies import Policy
from ort_lite.partition.answers import Answers
from ort_lite.partition.budgets import Budgets
from ort_lite.partition.changes import Changes
from ort_lite.partition.exclusions import Exclusions
from ort_lite.partition.placement import PlacementRule
from ort_lite.partition.placement_rules import PlacementRules
from ort_lite.partition.preferences import Preferences
from ort_lite.provider.ask import ask, labels_of
from ort_lite.provider.provider import ExecutionProvider, Resource


class Constraints:
    """The constraints of one session by subject. `labels` name the providers, in order."""

    def __init__(
        self,
        labels: Sequence[str],
        policies: Sequence[Policy],
        rules: Sequence[PlacementRule],
        resources: Sequence[Resource | None],
        remarks: Sequence[str],
    ) -> None:
        self.labels, self.policies = labels, policies
        self.rules = PlacementRules(labels, rules)
        self.preferences = Preferences(labels, policies)
        self.exclusions = Exclusions(labels)
        self.budgets = Budgets(resources)
        self.answers = Answers(labels)
        self.changes = Changes()
        self._remarks, self._cuts = remarks, dict[str, None]()

    def begin(self, graph: Graph) -> None:
        """Prepare for an assignment of all nodes. Raises PlacementError for hard rules that contradict each other."""
        self.budgets.refill()
        self._cuts.clear()
        self.preferences.apply(graph)
        self.rules.apply(graph)

    def handle_graph_change(self) -> None:
        """Ask providers again, and put in force again what gave way: nodes that nobody took may find a provider now."""
        self.rules.handle_graph_change()
        self.preferences.handle_graph_change()
        self.answers.forget()

    def release(self, nodes: Sequence[Node]) -> bool:
        """Lift what may give way for nodes that nobody took: soft rules and preferences. Return whether there was something."""
        return any([self.rules.release(nodes), self.preferences.release(nodes)])

    def cut(self, index: int, nodes: int, parts: int) -> None:
        """Record that `max_subgraph_size` made several partitions of a group."""
        limit = f"max_subgraph_size is {self.policies[index].max_subgraph_size}"
        self._cuts[f"{self.labels[index]}: {nodes} nodes that could be one partition are {parts}: {limit}"] = None

    def remarks(self) -> tuple[str, ...]:
        """Return a line for each constraint that was not followed to the letter, and each partition that one of them cut."""
        gave_way = (*self.rules.remarks(), *self.preferences.remarks())
        return (*self._remarks, *gave_way, *self._cuts, *self.changes.remarks())


def constraints_of(
    providers: Sequence[ExecutionProvider],
    policies: Sequence[Policy] = (),
    rules: Iterable[PlacementRule] = (),
    options: SessionOptions | None = None,
) -> Constraints:
    """Return the constraints of a session: placement rules, those of its config last; policies; and budgets.

    A provider's budget is the smaller of what its policy grants and what it has room for.
    """
    policies = policies or [Policy()] * len(providers)
    resources = [_resource(ask(p, "available_resource"), policy) for p, policy in zip(providers, policies, strict=True)]
    labels = labels_of(providers)
    by_layer, remarks = _layer_rules(options, dict(zip(labels, providers, strict=True)))
    return Constraints(labels, policies, [*rules, *by_layer], resources, remarks)


def _layer_rules(
    options: SessionOptions | None, providers: Mapping[str, ExecutionProvider]
) -> tuple[list[PlacementRule], list[str]]:
    """Return the placement rules of the session's config, and remarks on them. Raises InvalidArgument where they make no sense."""
    if options is None:
        return [], []
    rules, remarks = options.placement_rules(providers)
    for remark in remarks:
        log.warn(options, remark)
    return rules, remarks


def _resource(room: Resource | None, policy: Policy) -> Resource | None:
    def least(*limits: int | None) -> int | None:
        return min((limit for limit in limits if limit is not None), default=None)

    limit = Resource(
        least(policy.limit_nodes, room.nodes if room else None), least(policy.limit_bytes, room.nbytes if room else None)
    )
    return None if limit == Resource() else limit
