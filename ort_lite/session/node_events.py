"""Profiles as onnxruntime writes them: an event of category Node for each node of a run.

A step runs a whole partition, and a kernel may compute several nodes. The time of such an event is divided among its nodes in
proportion to their estimated costs, as measured costs are (`ort_lite.tools.verify.measure`): the sums by operator and in total are then
those of the events, and no node gets all the time of its neighbors. `args["share_of"]` names the event where that was done.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ort_lite.execute.trace import STEP, Trace
from ort_lite.graph.graph import Node
from ort_lite.log.events import Event
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.cost.cost_model import CostModel, Prices
from ort_lite.provider.provider import Partition
from ort_lite.session.node_times import groups_of


def node_events(trace: Trace, assignment: Assignment, since: int = 0) -> Iterator[Event]:
    """Yield the Node events of the steps that began `since` then.

    Each node of the main graph has one event a run, of no length where it does no work. Nodes of bodies have one for each kernel that
    ran, and none where their provider records no kernels. O(events log events).
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
    """The kernels that each step ran, by its id: those inside of it in its thread. A device may work longer: its kernels belong to the
    last step of its provider that began before them.
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
    """Divides the time of events among nodes."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment, self._prices = assignment, Prices(CostModel(), assignment.providers)
        self._index = {node: index for index, node in enumerate(assignment.placements)}

    def events(
        self, step: Event, partition: Partition, kernels: Sequence[Event], groups: Mapping[str, Sequence[Node]]
    ) -> Iterator[Event]:
        """Yield those of one step."""
        if not kernels:
            yield from self._shares(partition.nodes, step, step.end - step.begin)
            return
        totals: dict[str, int] = {}
        for kernel in kernels:
            totals[kernel.name] = totals.get(kernel.name, 0) + kernel.end - kernel.begin
        main, ends = set(partition.nodes), dict[Node, int]()
        for kernel in kernels:
            group = groups[kernel.name]
            if main.isdisjoint(group):  # of a body, which may run many times
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
