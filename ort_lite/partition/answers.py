"""Answers of providers to `get_capability`, kept while a session is created: nobody is asked twice about what looks the same."""

from collections.abc import Sequence

from ort_lite.graph.graph import Graph
from ort_lite.log.events import Span, no_span
from ort_lite.provider.context_nodes import is_context, owner_of
from ort_lite.provider.provider import Capability, ExecutionProvider, GraphView, Rejection
from ort_lite.provider.unchanged import capabilities

Answer = Capability | Rejection


class Answers:
    """Asks providers, and remembers the last view of each graph and the answers to it."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels
        self.span: Span = no_span
        self._known: dict[tuple[int, Graph], tuple[GraphView, list[Answer]]] = {}

    def forget(self) -> None:
        """Ask everybody again: the graph has changed."""
        self._known.clear()

    def of(self, index: int, provider: ExecutionProvider, view: GraphView) -> list[Answer]:
        """Return what the provider says to the view."""
        known = self._known.get((index, view.graph))
        if known is None or known[0] != view:
            known = self._known[index, view.graph] = (view, self._observe(index, provider, view))
        return known[1]

    def _observe(self, index: int, provider: ExecutionProvider, view: GraphView) -> list[Answer]:
        if self.span is no_span:
            return self._ask(index, provider, view)
        with self.span("get_capability", provider=self.labels[index], offered=len(view)) as facts:
            answers = self._ask(index, provider, view)
            facts["claimed"] = len({node for answer in answers if isinstance(answer, Capability) for node in answer.nodes})
        return answers

    def _ask(self, index: int, provider: ExecutionProvider, view: GraphView) -> list[Answer]:
        """Ask the provider. A partition that was compiled and saved goes back to its provider, by itself: nobody is asked about it."""
        contexts = [node for node in view.graph if is_context(node) and node not in view.claimed]
        if contexts:
            view = view.replace(claimed=view.claimed | set(contexts))
        label = self.labels[index]
        saved: list[Answer] = []
        for node in contexts:
            owner, why = owner_of(node, self.labels)
            mine = owner == label
            saved.append(
                Capability([node], merge=False) if mine else Rejection(node, "source", why or f"it was compiled by {owner}")
            )
        return [*saved, *capabilities(provider, view, label)]
