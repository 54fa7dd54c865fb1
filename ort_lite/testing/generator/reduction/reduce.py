"""The search for a small model that fails."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from ort_lite.testing.generator.reduction import graphs
from ort_lite.testing.generator.reduction.evaluate import Evaluate, evaluate, values_of
from ort_lite.testing.generator.reduction.graphs import Candidate, Feeds
from ort_lite.testing.generator.reduction.operands import smaller_operands
from ort_lite.testing.generator.reduction.protos import without_functions

T = TypeVar("T")
Fails = Callable[[Any, Feeds], bool]
"""(model, feeds) -> whether the model still fails in the same way."""


def reduce(model: Any, feeds: Feeds, fails: Fails, run: Evaluate = evaluate, seconds: float = 60.0) -> Candidate:
    """Return the smallest model found in time for which `fails` returns True, and its feeds.

    `run` computes intermediate values, which replace the nodes that are removed.
    """
    search = _Reduction(model, feeds, fails, run, time.monotonic() + seconds)
    while search.round():
        pass
    search.shrink()
    return search.model, search.feeds


class _Reduction:
    """The smallest failing model so far."""

    def __init__(self, model: Any, feeds: Feeds, fails: Fails, run: Evaluate, end: float) -> None:
        self.model, self.feeds = graphs.prune(graphs.copy(model), feeds)
        self._fails, self._run, self._end = fails, run, end

    def round(self) -> bool:
        """Try everything that removes nodes. Returns True if another round may help."""
        before = self._size()
        self._drop_outputs()
        self._drop_nodes()
        self._inline_functions()
        self._unfold_bodies()
        self._drop_outputs()
        self._bypass_nodes()
        return self._size() < before and not self._late()

    def shrink(self) -> None:
        """Try changes that keep the nodes: fewer attributes, and fewer and smaller operands."""
        self._drop_attributes()
        self._try_all(lambda: smaller_operands(self.model, self.feeds))

    def _size(self) -> tuple[int, int, int]:
        nodes = [node for graph in graphs.all_graphs(self.model.graph) for node in graph.node]
        inner = sum(len(function.node) for function in self.model.functions)
        return len(nodes) + inner, len(self.model.graph.output), sum(len(node.input) for node in nodes)

    def _late(self) -> bool:
        return time.monotonic() > self._end

    def _try(self, candidate: Candidate | None) -> bool:
        """Take the candidate if it fails."""
        if candidate is None or self._late() or not self._fails(*candidate):
            return False
        self.model, self.feeds = candidate
        return True

    def _try_all(self, candidates: Callable[[], Iterator[Candidate | None]]) -> None:
        """Take candidates one after the other. Each success starts again with those of the smaller model."""
        while any(self._try(candidate) for candidate in candidates()):
            pass

    # --- outputs
    def _drop_outputs(self) -> None:
        names = [value.name for value in self.model.graph.output]
        if len(names) > 1 and not any(
            self._try(graphs.with_outputs(self.model, self.feeds, {name})) for name in (names if len(names) <= 8 else ())
        ):
            _minimize(names, lambda left: self._try(graphs.with_outputs(self.model, self.feeds, left)), self._late)

    # --- nodes
    def _drop_nodes(self) -> None:
        """Remove nodes in halves, quarters and so on, and single ones in every possible way."""
        values = values_of(self.model, self.feeds, self._run)

        def keep(left: Collection[str]) -> bool:
            nodes = self.model.graph.node
            removed = {index for index, node in enumerate(nodes) if _key(node) not in left}
            styles = ("fixed", "constant", "open") if len(removed) == 1 else ("fixed", "constant")
            if not removed or len(removed) == len(nodes):
                return not removed
            return any(self._try(graphs.without_nodes(self.model, self.feeds, removed, values, style)) for style in styles)

        _minimize([_key(node) for node in self.model.graph.node], keep, self._late)

    def _bypass_nodes(self) -> None:
        def candidates() -> Iterator[Candidate | None]:
            for index, graph in enumerate(graphs.all_graphs(self.model.graph)):
                for position, node in enumerate(graph.node):
                    for operand in dict.fromkeys(node.input):
                        if operand and node.output and node.output[0]:
                            yield graphs.bypass(self.model, self.feeds, index, position, operand)

        self._try_all(candidates)

    # --- functions and bodies
    def _inline_functions(self) -> None:
        if self.model.functions:
            self._try(graphs.prune(without_functions(self.model), self.feeds))

    def _unfold_bodies(self) -> None:
        if not any(graphs.bodies(node) for node in self.model.graph.node):
            return
        values = values_of(self.model, self.feeds, self._run)

        def candidates() -> Iterator[Candidate | None]:
            for node in self.model.graph.node:
                for body, formals in graphs.formals_of(node, values):
                    yield graphs.unfold(self.model, self.feeds, body, formals)

        self._try_all(candidates)

    # --- attributes and optional operands
    def _drop_attributes(self) -> None:
        def candidates() -> Iterator[Candidate | None]:
            for index, node in enumerate(self.model.graph.node):
                for position in range(len(node.attribute)):
                    other = graphs.copy(self.model)
                    del other.graph.node[index].attribute[position]
                    yield graphs.prune(other, self.feeds)
                for position, name in enumerate(node.input):
                    if name:
                        other = graphs.copy(self.model)
                        _drop_input(other.graph.node[index], position)
                        yield graphs.prune(other, self.feeds)

        self._try_all(candidates)


def _key(node: Any) -> str:
    return next((name for name in node.output if name), "")


def _drop_input(node: Any, position: int) -> None:
    names = [*node.input]
    names[position] = ""
    while names and not names[-1]:
        names.pop()
    del node.input[:]
    node.input.extend(names)


def _minimize(items: Sequence[T], keep: Callable[[Collection[T]], bool], late: Callable[[], bool]) -> None:
    """Drop chunks of items, from halves to single ones, as long as `keep` accepts the others."""
    left = list(items)
    size = max(len(left) // 2, 1)
    while left and not late():
        at, dropped = len(left), False
        while at > 0:
            others = [*left[: max(at - size, 0)], *left[at:]]
            if others and keep(others):
                left, dropped = others, True
            at -= size
        if size == 1 and not dropped:
            return
        size = max(size // 2, 1)
