"""The local search of CostStrategy: from the greedy assignment to one that costs less, move by move."""

from collections.abc import Iterable, Iterator, Sequence

from ort_lite.graph import Node
from ort_lite.partitioning.cost_model import CostModel, Prices
from ort_lite.partitioning.strategy import Again
from ort_lite.provider import CPU, Partition
from ort_lite.stages.assignment import Assignment

Bar = tuple[str, Node]
_LEAST, _MOST, _NODES = 24, 400, 400_000  # tries: one deals out all nodes anew


class Search:
    """A move is a set of nodes that a provider gives back. It is kept where the assignment without them costs less."""

    def __init__(self, model: CostModel, greedy: Assignment, again: Again, tries: int | None = None) -> None:
        self._prices = Prices(model, greedy.providers)
        self._again = again
        self.best, self.cost = greedy, self._prices.cost(greedy)
        self._moves: dict[frozenset[Bar], float] = {}  # those that were kept, with what each saved
        self._left = tries if tries is not None else max(_LEAST, min(_MOST, _NODES // (1 + len(greedy.placements))))
        self._label = {id(provider): label for label, provider in reversed(greedy.providers.items())}
        self._tried: set[frozenset[Bar]] = set()

    def result(self) -> Assignment:
        """The cheapest assignment that was found, each node that was given back with the reason."""
        self._give_back_at_once()
        while any([self._partitions(), self._borders(), self._neighbours(), self._providers(), self._take_again()]):
            pass
        made = self._again(self._reasons()) if self._moves else self.best
        assert made is not None, "the same nodes were given back before"
        return made

    # Moves

    def _give_back_at_once(self) -> None:
        """All partitions that seem too dear, in one move: where there are many, single ones would take too long."""
        dear = [p for p in self.best.partitions if self._gain(p) < 0]
        if len(dear) > 1:
            self._try(bar for partition in dear for bar in self._bars(partition, partition.nodes))

    def _partitions(self) -> bool:
        """Each alone, the one that gains least first."""
        return self._each([self._bars(p, p.nodes) for p in sorted(self.best.partitions, key=self._gain)])

    def _borders(self) -> bool:
        """Nodes that only read from outside their partition, or are only read outside."""
        moves = []
        for partition in self.best.partitions:
            if len(partition.nodes) > 1:
                moves += [self._bars(partition, [node]) for node in _edge(partition)]
        return self._each(moves)

    def _neighbours(self) -> bool:
        """Two partitions of one provider one after the other: what lies between them costs copies on both sides."""
        moves = []
        for level in self.best.levels:
            for label in self.best.providers:
                own = [p for p in level.partitions if self._label[id(p.provider)] == label]
                moves += [[*self._bars(a, a.nodes), *self._bars(b, b.nodes)] for a, b in zip(own, own[1:], strict=False)]
        return self._each(moves)

    def _providers(self) -> bool:
        """Everything that a provider has."""
        return self._each([
            [bar for p in self.best.partitions if self._label[id(p.provider)] == label for bar in self._bars(p, p.nodes)]
            for label in self.best.providers
        ])  # fmt: skip

    def _take_again(self) -> bool:
        """Undoes single moves: later ones may have made them wrong."""
        undone = False
        for move in list(self._moves):
            saved = self._moves.pop(move)
            if not self._evaluate(self._bars_of(self._moves)):
                self._moves[move] = saved
            else:
                undone = True
        return undone

    # Steps

    def _each(self, moves: Sequence[Sequence[Bar]]) -> bool:
        """Tries all, not one after the first success: a partition may be gone by then, and its nodes are tried again later."""
        return any([self._try(move) for move in moves])

    def _try(self, bars: Iterable[Bar]) -> bool:
        move = frozenset(bars) - self._bars_of(self._moves)
        before, wanted = self.cost, self._bars_of(self._moves) | move
        if not move or not self._evaluate(wanted):
            return False
        self._moves[move] = before - self.cost
        return True

    def _evaluate(self, bars: frozenset[Bar]) -> bool:
        """Whether the assignment without these is cheaper; then it is the best."""
        if self._left <= 0 or bars in self._tried:
            return False
        self._tried.add(bars)
        self._left -= 1
        made = self._again(dict.fromkeys(bars, ""))
        cost = self._prices.cost(made) if made is not None else self.cost
        if made is None or not cost < self.cost:
            return False
        self.best, self.cost = made, cost
        return True

    def _bars_of(self, moves: Iterable[frozenset[Bar]]) -> frozenset[Bar]:
        return frozenset(bar for move in moves for bar in move)

    def _bars(self, partition: Partition, nodes: Iterable[Node]) -> list[Bar]:
        """Not for nodes that a rule gives to the provider, nor for the last one, behind which there is nobody."""
        label = self._label[id(partition.provider)]
        if label == list(self.best.providers)[-1]:
            return []
        return [(label, node) for node in nodes if not self.best.placements[node].rule]

    # Estimates and reasons

    def _gain(self, partition: Partition) -> float:
        """What having the partition there saves, about: its nodes on the last provider, less all that it costs here."""
        label, last = self._label[id(partition.provider)], list(self.best.providers)[-1]
        node, overhead = self._prices.node, self._prices.overheads[label]
        gain = sum(node(last, one) - node(label, one) for one in partition.nodes) - overhead.launch
        if partition.provider.device != CPU:
            level = next(level for level in self.best.levels if partition in level.partitions)
            own = set(partition.outputs)
            gain -= sum(self._prices.copy(c) for c in level.copies if c.reader == partition.name or c.value in own)
        return gain

    def _reasons(self) -> dict[Bar, str]:
        found = {}
        for move, saved in self._moves.items():
            count = f"{len(move)} nodes" if len(move) > 1 else "the node"
            for bar in sorted(move, key=lambda bar: bar[1].name):
                found[bar] = f"transfer cost: starting, moving and computing {count} here would cost {saved * 1e6:.3g} us more"
        return found


def _edge(partition: Partition) -> Iterator[Node]:
    inside = set(partition.nodes)
    for node in partition.nodes:
        before = any(v is not None and v.producer in inside for v in (*node.inputs, *node.captures()))
        after = any(reader in inside for v in node.outputs if v is not None for reader in v.readers)
        if not (before and after):
            yield node
