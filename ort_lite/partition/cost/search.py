"""The local search of CostStrategy: from the greedy assignment to one that costs less, move by move."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from ort_lite.graph.graph import Node, Value
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.partition.assignment import Again, Assignment
from ort_lite.partition.cost.cost_model import CostModel, Prices
from ort_lite.provider.provider import CPU, Capability, Device, GraphView, Partition
from ort_lite.provider.unchanged import capabilities

Bar = tuple[str, Node]
Move = frozenset[Bar]
_LEAST, _MOST, _NODES = 8, 100, 10_000  # tries: one deals out all nodes anew
_PEELS = 50


class Search:
    """A move is a set of nodes that a provider gives back. It is kept where the assignment without them costs less.

    What a move saves is estimated first, from the nodes and values that it touches; those that cannot help are not tried.
    """

    def __init__(self, model: CostModel, greedy: Assignment, again: Again, tries: int | None = None) -> None:
        self._prices = Prices(model, greedy.providers)
        self._weights = self._prices.weights(greedy.graph)
        self._again = again
        self.best, self.cost = greedy, self._prices.cost(greedy)
        self._moves: dict[Move, float] = {}  # those that were kept, with what each saved
        self._left = tries if tries is not None else max(_LEAST, min(_MOST, _NODES // (1 + len(greedy.placements))))
        self._last = list(greedy.providers)[-1]
        self._tried: set[Move] = set()
        self._takers = _takers(greedy)

    def result(self) -> Assignment:
        """The cheapest assignment that was found, each node that was given back with the reason."""
        self._give_back_at_once()
        passes = (self._partitions, self._borders, self._pockets, self._neighbours, self._providers)
        while sum(self._each(moves()) for moves in passes) + self._take_again():
            pass
        if not self._moves:
            return self.best
        made = self._again(self._reasons())
        assert made is not None, "the same nodes were given back before"
        return made

    # Moves

    def _give_back_at_once(self) -> None:
        """Release all partitions that seem too expensive in one move; with many, single moves would take too long.

        Once with parts of partitions, once with whole ones alone; the cheaper assignment counts.
        """
        before, greedy = self.cost, self.best.partitions
        for some in [[dear(partition) for partition in greedy] for dear in (self._dear, self._dear_whole)]:
            parts = {part: saves for part, saves in some if part}
            if parts and self._evaluate(self._unite(parts)):
                scale = (before - self.cost) / sum(parts.values())
                self._moves = {part: saves * scale for part, saves in parts.items()}

    def _dear_whole(self, partition: Partition) -> tuple[Move, float]:
        whole = self._move(partition, partition.nodes)
        saves = self._saves(whole) + self._prices.overheads[self._prices.label(partition)].launch if whole else 0.0
        return (whole, saves) if saves > 0 else (frozenset(), 0.0)

    def _dear(self, partition: Partition) -> tuple[Move, float]:
        """All of a partition, what can be peeled off from its borders, or pockets in its midst: what seems to save the most."""
        pockets, saves = list[Move](), 0.0
        for pocket in self._pockets_of(partition):
            gain = self._saves(pocket) - self._launches(pocket)
            if gain > 0:
                pockets.append(pocket)
                saves += gain
        offers = [self._dear_whole(partition), self._peel(partition), (self._unite(pockets), saves)]
        return max(offers, key=lambda offer: offer[1])

    def _peel(self, partition: Partition) -> tuple[Move, float]:
        """Border nodes that are dear, and those that are at the border then."""
        peeled, rest, total = set[Node](), list(partition.nodes), 0.0
        for _ in range(_PEELS):
            moves = {node: self._move(partition, [node]) for node in _edge(rest)}
            found = {node: self._saves(move, peeled) for node, move in moves.items() if move}
            dear = [node for node, saves in found.items() if saves > 0]
            if not dear:
                break
            total += sum(found[node] for node in dear)
            peeled.update(dear)
            rest = [node for node in rest if node not in peeled]
        return self._move(partition, [node for node in partition.nodes if node in peeled]), total

    def _partitions(self) -> list[Move]:
        return [self._move(p, p.nodes) for p in self.best.partitions]

    def _borders(self) -> list[Move]:
        """Nodes that only read from outside their partition, or are only read outside."""
        return [self._move(p, [node]) for p in self.best.partitions if len(p.nodes) > 1 for node in _edge(p.nodes)]

    def _pockets(self) -> list[Move]:
        return [pocket for partition in self.best.partitions for pocket in self._pockets_of(partition)]

    def _pockets_of(self, partition: Partition) -> list[Move]:
        """Nodes that are dear there, each with those beside it that are as well."""
        label, price = self._prices.label(partition), self._prices.node
        dear = [node for node in partition.nodes if price(label, node) > price(self._elsewhere(label, node), node)]
        return [move for pocket in _components(dear) if (move := self._move(partition, pocket))]

    def _neighbours(self) -> list[Move]:
        """Two partitions of one provider one after the other: what lies between them costs copies on both sides."""
        moves = []
        for level in self.best.levels:
            for label in self.best.providers:
                own = [self._move(p, p.nodes) for p in level.partitions if self._prices.label(p) == label]
                moves += [a | b for a, b in pairwise(own)]
        return moves

    def _providers(self) -> list[Move]:
        """Propose to release everything that a provider has."""
        moves = {label: list[Move]() for label in self.best.providers}
        for p in self.best.partitions:
            moves[self._prices.label(p)].append(self._move(p, p.nodes))
        return [self._unite(several) for several in moves.values()]

    def _move(self, partition: Partition, nodes: Iterable[Node]) -> Move:
        """Without nodes that a rule gives to the provider, and those that nobody after it takes."""
        label = self._prices.label(partition)
        able = (node for node in nodes if not self.best.placements[node].rule and self._later(label, node))
        return frozenset((label, node) for node in able)

    # Steps

    def _each(self, moves: Sequence[Move]) -> bool:
        """Tries those that may save something, the most first. A node may have been given back by then: that is no matter."""
        saves = {move: self._saves(move) + self._launches(move) for move in moves if move}
        promising = [move for move in sorted(saves, key=saves.__getitem__, reverse=True) if saves[move] > 0]
        return sum(map(self._try, promising)) > 0

    def _try(self, bars: Move) -> bool:
        before, known = self.cost, self._unite(self._moves)
        if bars <= known or not self._evaluate(known | bars):
            return False
        self._moves[bars - known] = before - self.cost
        return True

    def _take_again(self) -> bool:
        """Undoes single moves: later ones may have made them wrong."""
        undone = False
        for move in list(self._moves):
            saved = self._moves.pop(move)
            if self._evaluate(self._unite(self._moves)):
                undone = True
            else:
                self._moves[move] = saved
        return undone

    def _evaluate(self, bars: Move) -> bool:
        """Return True if the assignment without these is cheaper; it is then the best."""
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

    def _unite(self, moves: Iterable[Move]) -> Move:
        return frozenset(bar for move in moves for bar in move)

    # Estimates and reasons

    def _later(self, label: str, node: Node) -> list[str]:
        """The providers after that one which take the node."""
        takers = self._takers.get(node, [])
        return takers[takers.index(label) + 1 :] if label in takers else takers

    def _elsewhere(self, label: str, node: Node) -> str:
        """The later provider where the node costs least."""
        return min(self._later(label, node) or [label], key=lambda later: self._prices.node(later, node))

    def _launches(self, move: Move) -> float:
        """Return the most that a move can save in launches: at best two partitions fewer start."""
        return max(self._prices.overheads[label].launch for label, _ in move) + self._prices.overheads[self._last].launch

    def _saves(self, move: Move, already: AbstractSet[Node] = frozenset()) -> float:
        """Seconds, were the nodes to go elsewhere, and others as well `already`; but for the starts of partitions."""
        saved = 0.0
        bars = sorted(move, key=lambda bar: bar[1].name)
        for label, node in bars:
            weight = self._weights[node.graph] if node.graph is not None else 1.0
            saved += weight * (self._prices.node(label, node) - self._prices.node(self._elsewhere(label, node), node))
        if any(provider.device != CPU for provider in self.best.providers.values()):
            moved = already | {node for _, node in bars}
            touched = dict.fromkeys(value for _, node in bars for value in _around(node))
            saved += sum(self._copies(value, already) - self._copies(value, moved) for value in touched)
        return saved

    def _copies(self, value: Value, moved: AbstractSet[Node]) -> float:
        """Return the copies of a value to all memories that read it, in the value's graph; bodies read on the CPU."""
        graph = value.producer.graph if value.producer is not None else None
        home = self._device(value.producer, moved) if value.producer is not None else CPU
        there = {self._device(node, moved) if node.graph is graph or graph is None else CPU for node in value.readers}
        there |= {CPU} if value.is_graph_output() else set()
        weight = self._weights.get(graph, 1.0) if graph is not None else 1.0
        return weight * sum(self._prices.moving(value, home, device) for device in sorted(there, key=str) if device != home)

    def _device(self, node: Node, moved: AbstractSet[Node]) -> Device:
        place = self.best.placements.get(node)
        label = self._last if place is None else place.provider
        return self.best.providers[self._elsewhere(label, node) if node in moved else label].device

    def _reasons(self) -> dict[Bar, str]:
        found = {}
        for move, saved in self._moves.items():
            count = f"{len(move)} nodes" if len(move) > 1 else "the node"
            why = f"transfer cost: starting, moving and computing {count} here would cost {saved * 1e6:,.1f} us more"
            found.update(dict.fromkeys(move, why))
        return found


def _around(node: Node) -> Iterator[Value]:
    """Return the values that a node reads and computes, without constants."""
    return (v for v in (*node.inputs, *node.captures(), *node.outputs) if v is not None and v.constant is None)


def _takers(greedy: Assignment) -> dict[Node, list[str]]:
    """Return, for each node of a level, the providers that had it or would claim it if everything were theirs, in order.

    Those before the one that had it declined it, and were not offered more.
    """
    order = list(greedy.providers)
    found: dict[Node, list[str]] = {}
    for level in greedy.levels:
        owners = {node: greedy.placements[node].provider for node in level.graph}
        found.update((node, [label]) for node, label in owners.items())
        for label in order[1:]:
            view = GraphView(level.graph, rules=level.partitions[0].rules if level.partitions else ShapeRules(()))
            for answer in capabilities(greedy.providers[label], view, label):
                for node in answer.nodes if isinstance(answer, Capability) else ():
                    if node in owners and order.index(owners[node]) < order.index(label) and label not in found[node]:
                        found[node].append(label)
    return found


def _components(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the nodes connected by reading each other, directly or through others of them."""
    inside, found, seen = set(nodes), list[list[Node]](), set[Node]()
    for first in nodes:
        pocket, stack = list[Node](), [first]
        while stack:
            node = stack.pop()
            if node in inside and node not in seen:
                seen.add(node)
                pocket.append(node)
                stack += [v.producer for v in node.inputs if v is not None and v.producer is not None]
                stack += [reader for v in node.outputs if v is not None for reader in v.readers]
        if pocket:
            found.append(pocket)
    return found


def _edge(nodes: Sequence[Node]) -> Iterator[Node]:
    """Return the nodes that read none of the others, or that none of the others reads."""
    inside = set(nodes)
    for node in nodes:
        before = any(v is not None and v.producer in inside for v in node.reads())
        after = any(reader in inside for v in node.outputs if v is not None for reader in v.readers)
        if not (before and after):
            yield node
