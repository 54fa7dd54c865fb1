"""Nodes that a provider claims and does not get: those that it failed to compile, and those that a strategy takes from it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ort_lite.errors import InvalidArgument
from ort_lite.graph.graph import Node


class Exclusions:
    """Pairs of provider and node, each with code and detail of the Reason."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._index = {label: k for k, label in enumerate(labels)}
        self._failed: dict[tuple[int, Node], str] = {}
        self._given_back: dict[tuple[int, Node], str] = {}

    def exclude(self, label: str, nodes: Iterable[Node], detail: str) -> None:
        """Keep the provider from nodes of a partition that it could not compile."""
        self._failed.update(((self._index[label], node), detail) for node in nodes)

    @contextmanager
    def giving_back(self, nodes: Mapping[tuple[str, Node], str]) -> Iterator[None]:
        """Inside, keep providers from these nodes, for these reasons. Raises InvalidArgument for an unknown label."""
        for label, node in nodes:
            if label not in self._index or not isinstance(node, Node):
                known = ", ".join(self._index)
                raise InvalidArgument(f"given back is {node} of {label!r}; expected a node, and one of {known}")
        self._given_back = {(self._index[label], node): why for (label, node), why in nodes.items()}
        try:
            yield
        finally:
            self._given_back = {}

    def obstacle(self, index: int, nodes: Iterable[Node]) -> tuple[str, str] | None:
        """Return code and detail of the Reason for which the provider does not get these nodes together, or None."""
        for code, pairs in (("compile", self._failed), ("transfer", self._given_back)):
            if pairs:
                detail = next((why for node in nodes if (why := pairs.get((index, node))) is not None), None)
                if detail is not None:
                    return code, detail
        return None
