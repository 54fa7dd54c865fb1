"""One graph level while providers are asked: what is claimed, by whom, in which groups, and why the rest is not."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.partition.assignment import Reason
from ort_lite.partition.constraints import Constraints
from ort_lite.partition.convex import Quotient, join
from ort_lite.provider.ask import format_answer
from ort_lite.provider.context_nodes import is_context
from ort_lite.provider.provider import Capability, ExecutionProvider, GraphView, Rejection
from ort_lite.record import Record

Joined = tuple[list[int], int | None]
"""A group of groups that become one, and a node that keeps it apart from the one before."""

Lost = tuple[str, str]
"""Code and detail of a Reason."""


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

    def __init__(self, graph: Graph, path: str, constraints: Constraints) -> None:
        self.graph, self.path, self.constraints, self.labels = graph, path, constraints, constraints.labels
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

    def levels(self) -> Iterator["Claims"]:
        """Yield the graphs with partitions of their own, each before its bodies. A body that a provider takes whole has none."""
        yield self
        for node, bodies in self.bodies.items():
            if node not in self.whole:
                for body in bodies:
                    yield from body.levels()

    def find_unclaimed_nodes(self) -> list[Node]:
        """Return the nodes, at all levels, that no provider takes."""
        return [claims.nodes[k] for claims in self.levels() for k, owner in enumerate(claims.taken_by) if owner is None]

    # Asking

    def ask(self, index: int, provider: ExecutionProvider, rules: ShapeRules) -> None:
        """Takes what the provider claims of the nodes that nobody has claimed, in maximal convex groups."""
        free = {k for k, owner in enumerate(self.taken_by) if owner is None}
        if not free:
            return
        for k in free:
            why = self.constraints.rules.obstacle(index, self.nodes[k])
            if why is not None:
                self._refuse(index, [k], "lost", "rule", why)
            elif (preferred := self.constraints.preferences.obstacle(index, self.nodes[k])) is not None:
                self._refuse(index, [k], "lost", *preferred)
        open_ = {k for k in free if index not in self.reasons[k]}
        claimed = frozenset(node for k, node in enumerate(self.nodes) if k not in open_)
        split = frozenset(node for node in self.bodies if self.inside(node) - {index})
        view = GraphView(self.graph, claimed, rules, split)
        answers = self.constraints.answers.of(index, provider, view)
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
                f"{self.labels[index]}: get_capability returned {format_answer(answer)}; expected nodes, and a number of them as "
                "`minimum`"
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
            if capability.whole and (why := self.constraints.rules.obstacle_inside(index, node)) is not None:
                return "rule", f"inside it is {why}"
        excluded = self.constraints.exclusions.obstacle(index, capability.nodes)
        if excluded is not None:
            return excluded
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
        if not self.constraints.budgets.limits(index):
            return dict(sorted(units.items()))
        kept = dict[int, Unit]()
        together = self._groups_by_qdq_unit(units)
        for g in sorted(units):
            if g in together:
                several = together.pop(g)
                why = self.constraints.budgets.take(index, [self.nodes[k] for each in several for k in units[each].nodes])
                for each in several:
                    together.pop(each, None)
                    if why is None:
                        kept[each] = units[each]
                    else:
                        self._give_up(index, each, units[each], "budget", why)
        return {g: kept[g] for g in sorted(kept)}

    def _groups_by_qdq_unit(self, units: Mapping[int, Unit]) -> dict[int, list[int]]:
        """Return, by group, the groups that hold parts of a QDQ unit, itself among them (see `qdq_units`). O(nodes + edges)."""
        from ort_lite.partition.controls import qdq_units

        home = {self.nodes[k]: g for g, unit in units.items() for k in unit.nodes}
        found = {g: [g] for g in units}
        for several in qdq_units([node for node in self.nodes if node in home]):
            first = home[several[0]]
            for g in (home[node] for node in several):
                if found[g] is not found[first]:
                    found[first].extend(found[g])
                    found.update(dict.fromkeys(found[g], found[first]))
        return found

    def _give_up(self, index: int, group: int, unit: Unit, code: str, detail: str) -> None:
        self._refuse(index, unit.nodes, "lost", code, detail)
        if len(unit.nodes) > 1:
            self.quotient.dissolve(group)

    def _form_groups(self, index: int, units: dict[int, Unit]) -> None:
        """Joins units as far as possible and allowed. A group that is not wanted gives its units back, and all join anew."""
        together = self._groups_by_qdq_unit(units) if self.constraints.policies[index].shapes_partitions else {}
        while True:
            joined, lost = self._join_groups(index, units, together)
            lost = lost or self._too_small(index, units, joined) or self._too_many(index, units, joined)
            if not lost:
                break
            for g, (code, why) in lost.items():
                for other in together.get(g, [g]):
                    unit = units.pop(other, None)
                    if unit is not None:
                        self._give_up(index, other, unit, code, why)
                        self.constraints.budgets.give_back(index, [self.nodes[k] for k in unit.nodes])
        before: Group | None = None
        for parts, through in joined:
            group = Group(index, [units[g].capability for g in parts])
            if before is not None and through is not None:
                group.apart = (before, through)
            self._take(group, parts)
            before = group

    def _join_groups(
        self, index: int, units: Mapping[int, Unit], together: Mapping[int, list[int]]
    ) -> tuple[list[Joined], dict[int, Lost]]:
        """The groups that units can be, each with what keeps it apart from the one before; and units larger than a group may be."""
        joined: list[Joined] = [*join(self.quotient, {g for g, unit in units.items() if unit.capability.merge})]
        joined += [([g], None) for g, unit in units.items() if not unit.capability.merge]
        most = self.constraints.policies[index].max_subgraph_size
        if most is None:
            return joined, {}
        from ort_lite.partition.controls import pieces

        made, lost, was_cut = list[Joined](), dict[int, Lost](), False
        for parts, through in joined:
            size = self._count(parts)
            if size <= most or self._is_saved(units, parts):
                made.append((parts, None if was_cut else through))
                was_cut = False
                continue
            cut, large = pieces(
                self._after(parts), {g: self._count([g]) for g in parts}, map(together.__getitem__, parts), most
            )
            for g in large:
                stay = self._count(other for other in together[g] if other in units)
                lost[g] = ("large", f"{_nodes(stay)} stay together, max_subgraph_size is {most}")
            made.extend((piece, None) for piece in cut)
            was_cut = True
            self.constraints.cut(index, size, len(cut))
        return made, lost

    def _after(self, parts: list[int]) -> dict[int, set[int]]:
        """Return, by group, those of `parts` that read its results."""
        group, inside = self.quotient.group, set(parts)
        return {
            g: {group[reader] for k in self.quotient.members[g] for reader in self.quotient.after[k]} & inside - {g}
            for g in parts
        }

    def _count(self, parts: Iterable[int]) -> int:
        return sum(len(self.quotient.members[g]) for g in parts)

    def _is_saved(self, units: Mapping[int, Unit], parts: list[int]) -> bool:
        """Return True for a partition that was compiled earlier, which no other provider can run."""
        return is_context(self.nodes[units[parts[0]].nodes[0]])

    def _too_small(self, index: int, units: Mapping[int, Unit], joined: Iterable[Joined]) -> dict[int, Lost]:
        found = dict[int, Lost]()
        least = self.constraints.policies[index].min_subgraph_size or 0
        for parts, _ in joined:
            size = self._count(parts)
            for g in parts:
                if size < units[g].capability.minimum:
                    found[g] = ("size", f"group too small: {_nodes(size)}, takes {units[g].capability.minimum} or more")
                elif size < least and not self._is_saved(units, parts):
                    found[g] = ("small", f"group too small: {_nodes(size)}, min_subgraph_size is {least}")
        return found

    def _too_many(self, index: int, units: Mapping[int, Unit], joined: Iterable[Joined]) -> dict[int, Lost]:
        """The smallest groups beyond the number that is allowed; of equal ones the last."""
        most = self.constraints.policies[index].max_partitions
        if most is None:
            return {}
        wanted = [parts for parts, _ in joined if not self._is_saved(units, parts)]
        if len(wanted) <= most:
            return {}
        wanted.sort(key=self._count, reverse=True)
        why = f"{len(wanted)} partitions, max_partitions is {most}: larger ones come first"
        return {g: ("many", why) for parts in wanted[most:] for g in parts}

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


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count > 1 else ''}"


def _reads(node: Node) -> tuple[Value, ...]:
    return tuple(dict.fromkeys([value for value in node.reads() if value is not None]))
