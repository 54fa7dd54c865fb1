"""Nodes that a provider's policy would rather see on others: it is not asked about them, as long as somebody else takes them."""

from collections.abc import Iterable, Iterator, Sequence

from ort_lite.graph.graph import Graph, Node
from ort_lite.options.policies import Policy


class Preferences:
    """The meaning of each provider's `partitioning_stop_ops` and `cpu_preferred_nodes` for the nodes of a graph."""

    def __init__(self, labels: Sequence[str], policies: Sequence[Policy]) -> None:
        self._labels, self._policies = labels, policies
        self._others: dict[int, dict[Node, tuple[str, str]]] | None = None
        """By provider, the nodes for others, with code and detail of the Reason; None: the graph was not looked at."""
        self._released: set[Node] = set()

    def apply(self, graph: Graph) -> None:
        """Look at the graph, unless that was done since it changed. O(nodes) for each provider that prefers others."""
        if self._others is not None:
            return
        self._others = {}
        some = [k for k, policy in enumerate(self._policies) if policy.prefers_others]
        if some:
            from ort_lite.partition.controls import find_exclusions

            self._others = {k: find_exclusions(graph, self._policies[k]) for k in some}

    def handle_graph_change(self) -> None:
        """Look at the graph anew, and prefer others again."""
        self._others = None
        self._released.clear()

    def release(self, nodes: Iterable[Node]) -> bool:
        """Ask all providers about nodes that nobody took. Return whether some were not asked before."""
        preferred = set[Node]().union(*(self._others or {}).values())
        new = {node for node in nodes if node in preferred} - self._released
        self._released |= new
        return bool(new)

    def obstacle(self, index: int, node: Node) -> tuple[str, str] | None:
        """Return code and detail of the Reason for which the provider is not asked about the node, or None."""
        if not self._others or node in self._released:
            return None
        return self._others.get(index, {}).get(node)

    def remarks(self) -> Iterator[str]:
        """Yield a line for each node that only the provider itself takes."""
        if not self._others:
            return
        from ort_lite.partition.controls import CONTROLS

        for index, preferred in self._others.items():
            for node, (code, _) in preferred.items():
                if node in self._released:
                    yield f"{CONTROLS[code]} of {self._labels[index]} gave way for {node}: nobody else takes it"
