"""The result of partitioning, as frozen data: the provider of each node, and why no other provider runs it.

An Assignment prints as a table, one line a node, bodies indented below their node:

    node   operator  runs on                   partition                   why not the others
    conv1  Conv      SampleExecutionProvider   SampleExecutionProvider_0
    nms    NonMax..  CPUExecutionProvider      CPUExecutionProvider_0      SampleExecutionProvider declined type: float16
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.partition.budgets import nbytes
from ort_lite.plugins.rooms import hook
from ort_lite.provider.provider import DataTransfer, Device, ExecutionProvider, Partition
from ort_lite.record import Record, asdict, field

COLUMNS = ("node", "operator", "runs on", "partition", "why not the others")


class Reason(Record):
    """Why a provider does not run a node. `verdict` is "declined", with the provider's own code, or "lost".

    Codes of lost nodes: "earlier" (an earlier provider takes it), "cycle", "size" (its group is too small), "body" (a node
    inside belongs to another provider), "overlap" (a node in two capabilities), "contract" (the capability is wrong), "rule"
    (a placement rule), "compile" (the provider could not compile it), "transfer" (starting and moving would cost more than it
    gains), and those of an option of partitioning, which `ort_lite.partition.controls` lists.
    """

    provider: str
    verdict: str
    code: str
    detail: str

    def __str__(self) -> str:
        return f"declined {self.code}: {self.detail}" if self.verdict == "declined" else f"{self.verdict}: {self.detail}"


class Placement(Record):
    """A node, the partition that runs it, and a Reason for every provider that does not.

    `rule` is the placement rule by which the provider has it; `inserted` says who put a node into the graph that the model
    does not have, and why ("" for the model's own).
    """

    node: Node
    provider: str
    partition: str
    reasons: tuple[Reason, ...]
    rule: str = ""
    inserted: str = ""


class Hop(Record):
    """One move of a value between two memories. `narrows`: its int64 elements are int32 in the one that is not the CPU's."""

    transfer: DataTransfer
    source: Device
    destination: Device
    narrows: bool = False


class Copy(Record):
    """A value that crosses to another device, in one hop or through the CPU, before `reader`: a partition, or "output"."""

    value: Value
    hops: tuple[Hop, ...]
    reader: str

    def __str__(self) -> str:
        way = " -> ".join(str(device) for device in (self.hops[0].source, *(hop.destination for hop in self.hops)))
        return f"copy {self.value.name!r} {way} for {self.reader}"


class Apart(Record):
    """Two partitions of one provider that cannot be one: `through` needs the first one and is needed by the second."""

    first: str
    second: str
    through: Node

    def __str__(self) -> str:
        return f"{self.second} is apart from {self.first}: joined they would make a cycle through {self.through}"


class Level(Record):
    """One graph: the main one (`path` is ""), or the body of a control-flow node ("If 'a'.then_branch").

    `partitions` are in the order in which they run; a partition's copies come just before it. Inputs, captures and outputs of a
    body are on the CPU but for those `on_device`, which are in the memory of a provider.
    """

    graph: Graph
    path: str
    partitions: tuple[Partition, ...]
    copies: tuple[Copy, ...]
    apart: tuple[Apart, ...]
    on_device: Mapping[Value, ExecutionProvider] = field(default_factory=dict)


def label_of(providers: Mapping[str, ExecutionProvider], provider: ExecutionProvider) -> str:
    """Return a provider's name in an assignment; an instance that is listed twice has its first name."""
    return next(label for label, known in providers.items() if known is provider)


class Assignment(Record):
    """The main graph's level first, then those of its bodies in the order of the nodes; placements in the same order.

    Bodies that a provider takes whole have no level: their nodes are in the partition of the control-flow node.
    `providers` are the providers in order, by the names that the assignment uses for them.
    """

    LATER = frozenset({"graph", "levels", "placements"})
    graph: Graph
    providers: Mapping[str, ExecutionProvider]
    levels: tuple[Level, ...]
    placements: Mapping[Node, Placement]
    remarks: tuple[str, ...] = ()
    """What became of placement rules that were not followed to the letter."""

    def of(self, node: Node) -> Placement:
        """Raises KeyError for a node that the graph does not have."""
        return self.placements[node]

    def label(self, partition: Partition) -> str:
        """The name of the provider that has the partition."""
        return label_of(self.providers, partition.provider)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions of all levels, in order."""
        return tuple(partition for level in self.levels for partition in level.partitions)

    def why_not(self, node: Node) -> str:
        """Return the reasons why other providers do not run the node, as one line."""
        return "; ".join(f"{reason.provider} {reason}" for reason in self.placements[node].reasons)

    def rows(self) -> Iterator[tuple[int, Placement]]:
        """Every node with the depth of its graph, bodies after their node."""
        yield from self._rows(self.graph, 0)

    def _rows(self, graph: Graph, depth: int) -> Iterator[tuple[int, Placement]]:
        for node in graph:
            yield depth, self.placements[node]
            for body in node.subgraphs():
                yield from self._rows(body, depth + 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain data: the same for the same model and providers."""
        return {"providers": list(self.providers), "levels": [_level(level) for level in self.levels], "nodes": self._nodes()}

    def _nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "node": place.node.name,
                "operator": place.node.operator,
                "depth": depth,
                "provider": place.provider,
                "partition": place.partition,
                "reasons": [asdict(reason) for reason in place.reasons],
                "rule": place.rule,
                "inserted": place.inserted,
            }
            for depth, place in self.rows()
        ]

    def to_json(self, indent: int | None = 2) -> str:
        """Return the assignment as JSON."""
        import json

        return json.dumps(self.as_dict(), indent=indent)

    def __str__(self) -> str:
        return "\n".join([align_columns([COLUMNS, *self.table()]), *self.notes()])

    def table(self) -> list[tuple[str, ...]]:
        """A row of COLUMNS for each node."""
        return [
            ("  " * depth + place.node.name, place.node.operator, place.provider, place.partition, self._about(place))
            for depth, place in self.rows()
        ]

    def _repr_html_(self) -> str:
        """Render the number of nodes per provider and, on demand, the table."""
        counts = dict.fromkeys(self.providers, 0)
        for place in self.placements.values():
            counts[place.provider] += 1
        said = ", ".join(f"{label} {count}" for label, count in counts.items())
        table: str = hook("folded")(f"{len(self.placements)} nodes: {said}", COLUMNS, self.table())
        notes: str = hook("noted")("notes on copies, partitions and rules", self.notes())
        return table + notes

    def _about(self, place: Placement) -> str:
        said = [f"inserted: {place.inserted}"] * bool(place.inserted) + [f"by {place.rule}"] * bool(place.rule)
        return "; ".join([*said, *filter(None, [self.why_not(place.node)])])

    def notes(self) -> list[str]:
        """Copies at borders, which partitions of one provider cannot be one, and remarks on placement rules."""
        between = [
            f"in {level.path}: {note}" if level.path else str(note)
            for level in self.levels
            for note in (*level.copies, *level.apart)
        ]
        return [*between, *self.remarks]


GivenBack = Mapping[tuple[str, Node], str]
"""What providers shall not have, by their label in the assignment, and why: the detail of its Reason ("transfer")."""

Again = Callable[[GivenBack], Assignment | None]
"""The greedy assignment without what is given back; None where a node would be left or a rule broken. O(nodes + edges)."""


def align_columns(rows: list[tuple[str, ...]]) -> str:
    """Columns side by side, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def _level(level: Level) -> dict[str, Any]:
    return {
        "graph": level.path,
        "partitions": [_partition(partition) for partition in level.partitions],
        "copies": [
            {
                "value": copy.value.name,
                "bytes": _bytes(copy.value),
                "route": [str(copy.hops[0].source), *(str(hop.destination) for hop in copy.hops)],
                "by": [type(hop.transfer).__name__ for hop in copy.hops],
                "reader": copy.reader,
            }
            for copy in level.copies
        ],
        "apart": [{"first": a.first, "second": a.second, "through": a.through.name} for a in level.apart],
    }


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "name": partition.name,
        "device": str(partition.provider.device),
        "nodes": [node.name for node in partition.nodes],
        "inputs": [value.name for value in partition.inputs],
        "outputs": [value.name for value in partition.outputs],
        "host_values": [v.name for v in (*partition.inputs, *partition.outputs) if v in partition.host_values],
        "bytes": {value.name: _bytes(value) for value in (*partition.inputs, *partition.outputs)},
    }


def _bytes(value: Value) -> int | str | None:
    """A number, an expression in the model's free dimensions, or None where the type says too little."""
    size = nbytes(value)
    return size if size is None or isinstance(size, int) else str(size)
