"""An estimate of the memory that a run needs, from shapes alone."""

from collections.abc import Iterable

from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.partition.cost.work import Sizes, nbytes
from ort_lite.record import Record
from ort_lite.transform.contract import all_graphs


class MemoryNeed(Record):
    """Bytes that a run needs at given sizes: weights, inputs, and results that are alive at the same time at the worst node.

    `unknown` counts values whose size only a run tells; they are not in the sums. Fusions and aliases need less than `results`,
    temporary buffers of kernels more.
    """

    weights: int
    inputs: int
    results: int
    worst_node: str
    unknown: int

    @property
    def total(self) -> int:
        """The sum of weights, inputs and results, in bytes."""
        return self.weights + self.inputs + self.results


def memory_need(graph: Graph, size: Sizes) -> MemoryNeed:
    """Return the memory that a run of a graph needs. `size` is as `sizes_of` returns it. O(nodes), bodies included."""
    weights = sum(
        int(getattr(value.constant, "nbytes", 0)) for body in all_graphs(graph) for value in body.initializers.values()
    )
    inputs = [value for value in graph.inputs if value.constant is None]
    peak, node = _peak(graph, size)
    every = [*inputs, *_results(node for body in all_graphs(graph) for node in body)]
    return MemoryNeed(
        weights, sum(_bytes(v, size) or 0 for v in inputs), peak, node, sum(_bytes(v, size) is None for v in every)
    )


def _results(nodes: Iterable[Node]) -> list[Value]:
    return [value for node in nodes for value in node.outputs if value is not None]


def _peak(graph: Graph, size: Sizes) -> tuple[int, str]:
    """Return the most bytes of results that are alive at a node, with those inside of its bodies, and the node's name."""
    nodes = list(graph)
    last = {value: len(nodes) for value in graph.outputs}
    for step, node in enumerate(nodes):
        for value in _uses(node):
            last[value] = max(last.get(value, 0), step)
    alive, peak, worst = 0, 0, ""
    ends: dict[int, int] = {}
    for step, node in enumerate(nodes):
        for value in _results([node]):
            found = _bytes(value, size) or 0
            alive += found
            end = last.get(value, step)
            ends[end] = ends.get(end, 0) + found
        inside = max((_peak(body, size)[0] for body in node.subgraphs()), default=0)
        if alive + inside > peak:
            peak, worst = alive + inside, node.name
        alive -= ends.pop(step, 0)
    return peak, worst


def _uses(node: Node) -> list[Value]:
    found = [value for value in node.inputs if value is not None]
    for body in node.subgraphs():
        found += [value for inner in body.all_nodes() for value in inner.inputs if value is not None]
        found += body.outputs
    return found


def _bytes(value: Value, size: Sizes) -> int | None:
    """Return the size of a tensor, or None if it is not known."""
    if value.shape is None:
        return None
    try:
        return nbytes(value, size)
    except KeyError:
        return None
