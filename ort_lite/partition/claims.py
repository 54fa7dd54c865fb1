"""One graph level while providers are asked: what is claimed, by whom, in which groups, and why the rest is not."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.inference.rules import ShapeRules
from ort_lite.partition.assignment import Reason
from ort_lite.partition.constraints import Constraints
from ort_lite.partition.convex import Quotient, join
from ort_lite.provider.ask import shown
from ort_lite.provider.context_nodes import is_context, owner_of
from ort_lite.provider.provider import Capability, ExecutionProvider, GraphView, Rejection
from ort_lite.provider.unchanged import capabilities
from ort_lite.record import Record

_QDQ = ("DequantizeLinear", "QuantizeLinear")


class Unit(Record):
    """A capability that holds so far: its nodes by number."""

    capability: Capability
    nodes: tuple[int, ...]


class Group(Record, frozen=False):
    """Nodes of one provider that become a partition. `apart` is why it is not one with the provider's group before."""

    provider: int
    capabilities: list[Capability]
    apart: tuple["Group", int] | None = None


class Claims:
    """The nodes of one graph by number, their dependencies, and what providers took of them so far."""

    def __init__(self, graph: Graph, path: str, labels: Sequence[str], constraints: Constraints | None = None) -> None:
        self.graph, self.path, self.labels = graph, path, labels
        self.constraints = constraints if constraints is not None else Constraints(labels)
        self.nodes = graph.nodes
        self.number = {node: k for k, node in enumerate(self.nodes)}
        self.reads: list[tuple[Value, ...]] = [_reads(node) for node in self.nodes]
        after: list[list[int]] = [[] for _ in self.nodes]
        for k, values in enumerate(self.reads):
            for value in values:
                if value.producer is not None and value.producer.graph is graph:
                    after[self.number[value.producer]].append(k)
        self.quotient = Quotient(after)
        self.bodies: dict[Node, list[Claims]] = {}
        self.groups: dict[int, Group] = {}
        self.taken_by: list[int | None] = [None] * len(self.nodes)
        self.reasons: list[dict[int, Reason]] = [{} for _ in self.nodes]
        self.whole: dict[Node, Group] = {}

    # Asking

    def ask(self, index: int, provider: ExecutionProvider, rules: ShapeRules) -> None:
        """Takes what the provider claims of the nodes that nobody has claimed, in maximal convex groups."""
        free = {k for k, owner in enumerate(self.taken_by) if owner is None}
        if not free:
            return
        for k in free:
            why = self.constraints.ruled_out(index, self.nodes[k])
            if why is not None:
                self._refuse(index, [k], "lost", "rule", why)
        open_ = {k for k in free if index not in self.reasons[k]}
        claimed = frozenset(node for k, node in enumerate(self.nodes) if k not in open_)
        split = frozenset(node for node in self.bodies if self.inside(node) - {index})
        view = GraphView(self.graph, claimed, rules, split)
        answers = self.constraints.answers(index, view, partial(_answers, provider, self.labels, index))
        self._form_groups(index, self._affordable(index, self._convex(index, self._units(index, answers, open_, split))))
        for k in free:
            if self.taken_by[k] is None and index not in self.reasons[k]:
                self._refuse(index, [k], "declined", "silent", "gave no answer")

    def inside(self, node: Node) -> set[int]:
        """The providers that have claimed a node inside a control-flow node."""
        found: set[int] = set()
        for body in self.bodies.get(node, ()):
            found.update(owner for owner in body.taken_by if owner is not None)
            for inner in body.bodies:
                found |= body.inside(inner)
        return found

    def _units(
        self, index: int, answers: Iterable[Capability | Rejection], free: Collection[int], split: Collection[Node]
    ) -> list[Unit]:
        """The capabilities that keep the contract; of two with a common node the first one holds."""
        units, used = list[Unit](), set[int]()
        for answer in answers:
            self._check(index, answer)
            if isinstance(answer, Rejection):
                k = self.number.get(answer.node)
                if k is not None and k in free:
                    self._refuse(index, [k], "declined", answer.code, answer.detail)
                continue
            nodes = sorted({self.number[node] for node in answer.nodes if node in self.number})
            wrong = self._wrong(index, answer, nodes, free, used, split)
            if wrong is not None:
                self._refuse(index, [k for k in nodes if k in free and k not in used], "lost", *wrong)
            elif nodes:
                used.update(nodes)
                units.append(Unit(answer, tuple(nodes)))
        return units

    def _check(self, index: int, answer: Capability | Rejection) -> None:
        """Raises ProviderError for an answer that holds something else than nodes."""
        found: Any = answer
        if isinstance(answer, Rejection):
            right = isinstance(found.node, Node)
        else:
            right = isinstance(found.minimum, int) and _are_nodes(found.nodes)
        if not right:
            raise ProviderError(
                f"{self.labels[index]}: get_capability returned {shown(answer)}; expected nodes, and a number of them as `minimum`"
            )

    def _wrong(
        self,
        index: int,
        capability: Capability,
        nodes: list[int],
        free: Collection[int],
        used: set[int],
        split: Collection[Node],
    ) -> tuple[str, str] | None:
        for node in capability.nodes:
            if node not in self.number:
                return "contract", f"the capability holds {node}, which is not in this graph"
            if self.number[node] not in free:
                return "contract", f"the capability holds {node}, which is claimed already"
            if capability.whole and node in split:
                return "body", f"a node inside {node} belongs to another provider"
            if capability.whole and (why := self.constraints.ruled_out_inside(index, node)) is not None:
                return "rule", f"inside it is {why}"
        failed = self.constraints.failed(index, capability.nodes)
        if failed is not None:
            return "compile", failed
        back = self.constraints.given_back(index, capability.nodes)
        if back is not None:
            return "transfer", back
        shared = next((k for k in nodes if k in used), None)
        return None if shared is None else ("overlap", f"{self.nodes[shared]} is in an earlier capability too")

    # Groups

    def _convex(self, index: int, units: list[Unit]) -> dict[int, Unit]:
        """Contracts each unit that leaves the graph without a cycle; by group."""
        groups, lost = self.quotient.admit([unit.nodes for unit in units])
        for k, through in lost:
            self._refuse(index, units[k].nodes, "lost", "cycle", f"cycle through {self.nodes[through]}")
        gone = {k for k, _ in lost}
        return dict(zip(groups, (unit for k, unit in enumerate(units) if k not in gone), strict=True))

    def _affordable(self, index: int, units: dict[int, Unit]) -> dict[int, Unit]:
        """The units that fit the provider's budget, in topological order; those that compute in integers together all or none."""
        if not self.constraints.has_budget(index):
            return dict(sorted(units.items()))
        kept = dict[int, Unit]()
        together = self._quantized(units)
        for g in sorted(units):
            if g in together:
                several = together.pop(g)
                why = self.constraints.afford(index, [self.nodes[k] for each in several for k in units[each].nodes])
                for each in several:
                    together.pop(each, None)
                    if why is None:
                        kept[each] = units[each]
                    else:
                        self._give_up(index, each, units[each], "budget", why)
        return {g: kept[g] for g in sorted(kept)}

    def _quantized(self, units: Mapping[int, Unit]) -> dict[int, list[int]]:
        """By group, the groups that hold the parts of a QDQ unit, itself among them: DequantizeLinear, the operator that reads it,
        QuantizeLinear of its outputs. Cut apart, the operator would compute in floating point. O(nodes + edges).
        """
        home = {k: g for g, unit in units.items() for k in unit.nodes}
        found = {g: [g] for g in units}
        for k, node in enumerate(self.nodes):
            if k not in home or node.op_type in _QDQ:
                continue
            before = [v.producer for v in self.reads[k] if v.producer is not None and v.producer.op_type == "DequantizeLinear"]
            readers = [reader for v in node.outputs if v is not None for reader in v.readers]
            after = [reader for reader in readers if reader.op_type == "QuantizeLinear"]
            if before and readers and len(after) == len(readers):
                parts = [home[number] for other in (*before, *after) if (number := self.number.get(other, -1)) in home]
                for g in parts:
                    if found[g] is not found[home[k]]:
                        found[home[k]].extend(found[g])
                        found.update(dict.fromkeys(found[g], found[home[k]]))
        return found

    def _give_up(self, index: int, group: int, unit: Unit, code: str, detail: str) -> None:
        self._refuse(index, unit.nodes, "lost", code, detail)
        if len(unit.nodes) > 1:
            self.quotient.dissolve(group)

    def _form_groups(self, index: int, units: dict[int, Unit]) -> None:
        """Joins units as far as possible. A group below the minimum of a unit gives that unit back, and all join anew."""
        while True:
            joined = join(self.quotient, {g for g, unit in units.items() if unit.capability.merge})
            small = self._too_small(units, [parts for parts, _ in joined])
            if not small:
                break
            for g, size in small:
                unit = units.pop(g)
                self._give_up(index, g, unit, "size", _size(size, unit.capability.minimum))
                self.constraints.give_back(index, [self.nodes[k] for k in unit.nodes])
        before: Group | None = None
        for parts, through in joined:
            group = Group(index, [units[g].capability for g in parts])
            if before is not None and through is not None:
                group.apart = (before, through)
            self._take(group, parts)
            before = group
        for g, unit in units.items():
            if not unit.capability.merge:
                self._take(Group(index, [unit.capability]), [g])

    def _too_small(self, units: Mapping[int, Unit], joined: list[list[int]]) -> list[tuple[int, int]]:
        alone = [[g] for g, unit in units.items() if not unit.capability.merge]
        found = list[tuple[int, int]]()
        for parts in (*joined, *alone):
            size = sum(len(self.quotient.members[g]) for g in parts)
            found.extend((g, size) for g in parts if g in units and size < units[g].capability.minimum)
        return found

    def _take(self, group: Group, parts: list[int]) -> None:
        made = self.quotient.contract(parts)
        self.groups[made] = group
        for k in self.quotient.members[made]:
            self.taken_by[k] = group.provider
        for capability in group.capabilities:
            if capability.whole:
                self.whole.update((node, group) for node in capability.nodes if node in self.bodies)

    # Reasons

    def _refuse(self, index: int, nodes: Iterable[int], verdict: str, code: str, detail: str) -> None:
        reason = Reason(self.labels[index], verdict, code, detail)
        for k in nodes:
            self.reasons[k].setdefault(index, reason)


def _are_nodes(given: Any) -> bool:
    """A look at each: what is no node has no place in the tables of a graph."""
    try:
        return all(isinstance(node, Node) for node in given)
    except TypeError:
        return False


def _answers(provider: ExecutionProvider, labels: Sequence[str], index: int, view: GraphView) -> list[Capability | Rejection]:
    contexts = [node for node in view if is_context(node)]
    if contexts:  # compiled partitions that were saved: their provider gets them back, each by itself, and nobody is asked
        view = view.replace(claimed=view.claimed | set(contexts))
    saved = [_saved(node, labels, labels[index]) for node in contexts]
    return [*saved, *capabilities(provider, view, labels[index])]


def _saved(node: Node, labels: Sequence[str], label: str) -> Capability | Rejection:
    owner, why = owner_of(node, labels)
    if owner == label:
        return Capability([node], merge=False)
    return Rejection(node, "source", why or f"it was compiled by {owner}")


def _size(size: int, minimum: int) -> str:
    return f"group too small: {size} node{'s' if size > 1 else ''}, takes {minimum} or more"


def _reads(node: Node) -> tuple[Value, ...]:
    return tuple(dict.fromkeys([value for value in node.reads() if value is not None]))
