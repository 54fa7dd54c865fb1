"""Helpers for providers of accelerators: claims in units, groups of elementwise nodes, numeric options, versions of formats."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Node, Value
from ort_lite.provider.provider import Capability, ExecutionProvider, GraphView, Rejection
from ort_lite.record import Record
from ort_lite.shapes.dims import same


def claim_units(
    graph: GraphView,
    misfit: Callable[[Node], Rejection | None],
    unit: Callable[[Node, Collection[Node]], Sequence[Node]] = lambda node, free: [node],
) -> Iterator[Capability | Rejection]:
    """Return the answers of `get_capability`: one Capability per unit, and a Rejection for every other node.

    `misfit(node)` is why the accelerator cannot run it; None: it can. `unit(node, free)` lists the node and those of `free`, which no
    unit has so far, that are done in one with it: taken or lost together.
    """
    answers = {node: misfit(node) for node in graph}
    free = {node for node, wrong in answers.items() if wrong is None}
    for node, wrong in answers.items():
        if wrong is not None:
            yield wrong
        elif node in free:
            together = unit(node, free)
            free.difference_update(together)
            yield Capability(together)


claimed = claim_units
"""The name in earlier releases."""


def elementwise_groups(
    nodes: Iterable[Node],
    anchors: Callable[[Node], bool],
    elementwise: Callable[[Node], bool],
    max_operands: int | None = None,
) -> list[list[Node]]:
    """Return the nodes in groups that one generated kernel can compute: an anchor, then elementwise nodes of the same shape.

    `nodes` are in topological order, such as those of a partition; each is in one group, and the groups are in an order in
    which they can run. A node for which `anchors` is false stays alone unless it follows an anchor. A follower is the only
    reader of the result before it, which nothing outside the group needs, and has the same shape. A group reads at most
    `max_operands` values. O(nodes + edges).
    """
    order = {node: k for k, node in enumerate(nodes)}
    grouped: set[Node] = set()
    groups: list[list[Node]] = []
    for node in order:
        if node in grouped:
            continue
        group = [node]
        operands = _operands(node)
        while anchors(node):
            follower = _follower(group[-1])
            if follower is None or follower not in order or follower in grouped or not elementwise(follower):
                break
            operands |= _operands(follower) - {group[-1].output}
            if max_operands is not None and len(operands) > max_operands:
                break
            group.append(follower)
        grouped.update(group)
        groups.append(group)
    return sorted(groups, key=lambda group: order[group[-1]])


def _operands(node: Node) -> set[Value]:
    return {value for value in node.inputs if value is not None}


def _follower(node: Node) -> Node | None:
    """Return the only reader of a node's only output, if its result has the same shape."""
    readers = node.output.readers if len(node.outputs) == 1 else []
    if len(readers) != 1 or node.output.is_graph_output():
        return None
    reader = readers[0]
    if len(reader.outputs) != 1 or node.output.shape is None or reader.output.shape is None:
        return None
    before, after = node.output.shape, reader.output.shape
    return reader if len(before) == len(after) and all(map(same, before, after)) else None


def count(provider: ExecutionProvider, option: str, value: int | str) -> int:
    """Return a provider option as a number, 0 or more; users may write it as text. Raises ProviderError for others."""
    if not (str(value).isascii() and str(value).isdecimal()):
        raise ProviderError(f"{provider.name}: {option} is {value!r}; expected a number, 0 or more").about(
            provider=provider.name
        )
    return int(value)


class Format(Record):
    """The version of a format of saved programs, for `compatibility` and `check_compatibility`. Prints as "kind first.second".

    Increase `first` when older runtimes cannot run new programs, and `second` when something is added. A runtime runs programs
    with its own first number and at most its second.
    """

    kind: str
    first: int
    second: int

    def __str__(self) -> str:
        return f"{self.kind} {self.first}.{self.second}"

    def misfit(self, saved: str) -> str | None:
        """Return the reason why a program saved as `saved` cannot run here; None if it can."""
        start, _, second = saved.rpartition(".")
        if start == f"{self.kind} {self.first}" and second.isdecimal() and int(second) <= self.second:
            return None
        return f"it was compiled for {saved!r}; this runs {str(self)!r}"
