"""Node events for profiles, as onnxruntime writes them: one event of category Node per node and run.

A step runs a whole partition, and a kernel may compute several nodes. The time of such an event is divided among its nodes in
proportion to their estimated costs, as `ort_lite.tools.verify.measure` does. So the sums per operator and in total equal those
of the events, and no node gets the time of its neighbors. `args["share_of"]` names the divided event.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ort_lite.execute.trace import STEP, Trace
from ort_lite.graph.graph import Node
from ort_lite.log.events import Event
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.cost.cost_model import CostModel, Prices
from ort_lite.plugins.plugins import traits
from ort_lite.provider.provider import Partition


def node_events(trace: Trace, assignment: Assignment, since: int = 0) -> Iterator[Event]:
    """Yield the Node events of the steps that began at `since` or later. O(events log events).

    Each node of the main graph has one event per run, of zero length if it does no work. Nodes of bodies have one per kernel
    that ran, and none if their provider records no kernels.
    """
    division = _Division(assignment)
    main = {partition.name: partition for partition in assignment.levels[0].partitions}
    steps = [event for event in trace.events if event.kind == "Step" and event.begin >= since and _name(event) in main]
    kernels = [event for event in trace.events if event.kind == "Kernel"]
    groups = groups_of({kernel.name: str(kernel.args.get("op_name", "")) for kernel in kernels}, assignment)
    inside = _inside(steps, kernels)
    for step in steps:
        yield from division.events(step, main[_name(step)], inside[id(step)], groups)


def _name(event: Event) -> str:
    return event.name.removesuffix(STEP)


def _inside(steps: Sequence[Event], kernels: Iterable[Event]) -> dict[int, list[Event]]:
    """Return the kernels of each step by the step's id: those within it, in its thread.

    A device may work longer than the step: its kernels belong to the last step of its provider that began before them.
    """
    found: dict[int, list[Event]] = {id(step): [] for step in steps}
    by_thread: dict[int, list[Event]] = {}
    by_provider: dict[str, list[Event]] = {}
    for step in sorted(steps, key=lambda step: step.begin):
        by_thread.setdefault(step.thread, []).append(step)
        by_provider.setdefault(_provider(step), []).append(step)
    for kernel in kernels:
        own = by_thread.get(kernel.thread)
        candidates = by_provider.get(_provider(kernel), []) if own is None else own
        last = bisect_right(candidates, kernel.begin, key=lambda step: step.begin)
        if last and (own is None or kernel.end <= candidates[last - 1].end):
            found[id(candidates[last - 1])].append(kernel)
    return found


def _provider(event: Event) -> str:
    return str(event.args.get("provider", "")).partition("#")[0]


class _Division:
    """A divider of event times among nodes."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment, self._prices = assignment, Prices(CostModel(), assignment.providers)
        self._index = {node: index for index, node in enumerate(assignment.placements)}

    def events(
        self, step: Event, partition: Partition, kernels: Sequence[Event], groups: Mapping[str, Sequence[Node]]
    ) -> Iterator[Event]:
        """Yield the Node events of one step."""
        if not kernels:
            yield from self._shares(partition.nodes, step, step.end - step.begin)
            return
        totals: dict[str, int] = {}
        for kernel in kernels:
            totals[kernel.name] = totals.get(kernel.name, 0) + kernel.end - kernel.begin
        main, ends = set(partition.nodes), dict[Node, int]()
        for kernel in kernels:
            group = groups[kernel.name]
            if main.isdisjoint(group):  # part of a body, which may run many times
                yield from self._shares(group, kernel, kernel.end - kernel.begin)
            elif ends.keys().isdisjoint(group):  # a node may have several kernels
                ends.update(dict.fromkeys(group, kernel.end))
                yield from self._shares(group, kernel, totals[kernel.name])
        moment = step.begin
        for node in partition.nodes:
            moment = max(moment, ends.get(node, moment))
            if node not in ends:
                yield self._event(node, step, moment, moment)

    def _shares(self, nodes: Sequence[Node], whole: Event, length: int) -> Iterator[Event]:
        """Yield an event for each of the nodes that ran as `whole`, one after the other."""
        costs = [self._prices.node(self._assignment.of(node).provider, node) for node in nodes] if len(nodes) > 1 else [1.0]
        total, sum_, begin = sum(costs), 0.0, whole.begin
        more = {"share_of": _name(whole)} if len(nodes) > 1 else {}
        for place, (node, cost) in enumerate(zip(nodes, costs, strict=False)):
            sum_ += cost
            end = whole.begin + round(length * (sum_ / total if total else (place + 1) / len(nodes)))
            yield self._event(node, whole, begin, end, **more)
            begin = end

    def _event(self, node: Node, whole: Event, begin: int, end: int, **more: str) -> Event:
        provider = self._assignment.providers[self._assignment.of(node).provider].name
        args = {"op_name": node.op_type, "provider": provider, "node_index": str(self._index[node]), **more}
        if begin < end and "kernel" in whole.args:
            args["kernel"] = str(whole.args["kernel"])
        return Event(node.name + STEP, begin, end, args, whole.thread, "Node")


# The nodes behind an event


def nodes_by_partition(assignment: Assignment) -> dict[str, list[Node]]:
    """Return the nodes of each partition, including the bodies that it claims as a whole."""
    found: dict[str, list[Node]] = {}
    for node, place in assignment.placements.items():
        found.setdefault(place.partition, []).append(node)
    return found


def groups_of(operators: Mapping[str, str], assignment: Assignment) -> dict[str, list[Node]]:
    """Return the nodes behind each event, by the event's name; an empty list for work that a provider inserted.

    All nodes of an event belong to one partition. `operators` maps the events' names to their operators.
    """
    groups: dict[str, list[Node]] = {name: [] for name in operators}
    for nodes in nodes_by_partition(assignment).values():
        groups |= {name: found for name, found in _parts(operators, nodes).items() if found}
    return groups


def _parts(operators: Mapping[str, str], nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """Return the nodes of one partition behind each event.

    A node that no event is named after belongs to the event of a node that reads it, unless it only moves data.
    """
    known = {node.name: node for node in reversed(nodes)}
    groups = {name: [known[part] for part in _names(name, operator, known)] for name, operator in operators.items()}
    owner = {node: group for group in groups.values() for node in group}
    for node in reversed(nodes):
        if node not in owner and not traits(node).moves:
            readers = [
                owner[reader] for value in node.outputs if value is not None for reader in value.readers if reader in owner
            ]
            if readers:
                readers[0].insert(0, node)
                owner[node] = readers[0]
    return groups


def _names(name: str, operator: str, known: Mapping[str, Node]) -> list[str]:
    """Return the names of the nodes that were fused into an event's node.

    Such a name consists of the nodes' names joined by "+", or of the fused operator and the last node's name.
    """
    unmade = name.removeprefix(f"{operator}_")
    return _split_name(name.split("+"), known) or ([unmade] if unmade in known else [])


def _split_name(pieces: Sequence[str], known: Mapping[str, Node]) -> list[str]:
    """Return the known names that the pieces consist of, in order; a name may span several pieces. Empty if there is no match.

    A piece may be a node that was itself fused: an operator and its last node's name.
    """
    for stop in range(len(pieces), 0, -1):
        joined, rest = "+".join(pieces[:stop]), pieces[stop:]
        first = joined if joined in known else joined.partition("_")[2]
        if first in known and (found := _split_name(rest, known) if rest else [first]):
            return [first, *found] if rest else found
    return []
