"""Changes that assignment makes to a graph, so that each is made once, and `explain` can name them."""

from collections.abc import Collection, Iterable, Iterator

from ort_lite.graph.graph import Node


class Changes:
    """Nodes that the framework inserted, and nodes that it rewrote.

    `inserted` says of each node that the model does not have who inserted it, and why.
    """

    def __init__(self) -> None:
        self.inserted: dict[Node, str] = {}
        self._offered: set[Node] = set()
        self._restored: set[Node] = set()
        self._widened: set[Node] = set()

    def insert(self, nodes: Iterable[Node], why: str) -> None:
        """Record nodes that the framework inserted."""
        self.inserted.update((node, why) for node in nodes)

    def offer(self, node: Node) -> bool:
        """Record that a node is offered in the layout that its provider prefers. Return False if it was offered before."""
        first = node not in self._offered
        self._offered.add(node)
        return first

    def restore(self, nodes: Iterable[Node]) -> None:
        """Record nodes that nobody took channels-last, and that have their old layout again."""
        self._restored.update(nodes)

    def select_narrow(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes that were not given a wider element type yet."""
        return [node for node in nodes if node not in self._widened]

    def widen(self, nodes: Collection[Node]) -> None:
        """Record nodes that compute in a wider element type."""
        self._widened.update(nodes)

    def remarks(self) -> Iterator[str]:
        """Yield a line for each layout that nobody took."""
        yield from sorted(f"{node} is not taken channels-last: it is as it was" for node in self._restored)
