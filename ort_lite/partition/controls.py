"""A user's limits on what a provider may claim: Policy's options from `min_subgraph_size` on.

Before it is asked, nodes behind an operator at which it stops and nodes that compute shapes are taken out; of what it claims,
partitions that are too small, too large or too many. What stands between nodes that dequantize and quantize stays with them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.options.policies import Policy
from ort_lite.partition.convex import Quotient
from ort_lite.plugins.plugins import traits
from ort_lite.provider.context_nodes import is_context

T = TypeVar("T")

CONTROLS = {
    "budget": "limit_nodes, limit_bytes or its own room",
    "stop": "partitioning_stop_ops",
    "cpu": "cpu_preferred_nodes",
    "small": "min_subgraph_size",
    "large": "max_subgraph_size",
    "many": "max_partitions",
}
"""By the code of the Reason with which a node is lost, what took it."""


def find_exclusions(graph: Graph, policy: Policy) -> dict[Node, tuple[str, str]]:
    """The nodes, all depths, that the provider is not asked about, each with code and detail of the Reason. O(nodes)."""
    found: dict[Node, tuple[str, str]] = {}
    if policy.partitioning_stop_ops:
        _stop(graph, frozenset(policy.partitioning_stop_ops), {}, None, found)
    if policy.cpu_preferred_nodes:
        for level in dict.fromkeys((graph, *(node.graph for node in graph.all_nodes() if node.graph is not None))):
            for node, why in _shape_nodes(level):
                found.setdefault(node, ("cpu", why))
    if found:
        for unit in qdq_units([*graph.all_nodes()]):
            first = next((found[node] for node in unit if node in found), None)
            if first is not None:
                lost = first[0], f"it is quantized with one of which holds: {first[1]}"
                found.update((node, lost) for node in unit if node not in found)
    return {node: why for node, why in found.items() if not is_context(node)}


def qdq_units(nodes: Sequence[Node]) -> list[list[Node]]:
    """DequantizeLinear, the operator that reads it, QuantizeLinear of its outputs: cut apart, it would compute in floating point.

    Units with a node in common are one. O(nodes + edges).
    """
    among, home = set(nodes), dict[Node, list[Node]]()
    for node in nodes:
        known = traits(node)
        if known.quantizes or known.dequantizes:
            continue
        before = [v.producer for v in _reads(node) if v.producer is not None and traits(v.producer).dequantizes]
        readers = [reader for v in node.outputs if v is not None for reader in v.readers]
        if before and readers and all(traits(reader).quantizes for reader in readers):
            joined = dict.fromkeys(
                inner for part in (node, *before, *readers) if part in among for inner in home.get(part, [part])
            )
            unit = [*joined]
            home.update((part, unit) for part in unit)
    return [*_different(home.values())]


def pieces(
    after: Mapping[int, Iterable[int]], sizes: Mapping[int, int], together: Iterable[Collection[int]], most: int
) -> tuple[list[list[int]], list[int]]:
    """A group cut into parts of `most` nodes or fewer, each convex, so that none needs a later one; and the units that are too large.

    `after` has, for each unit of a group in topological order, the units that read it; `together` says which share a part.
    """
    units = list(sizes)
    number = {unit: k for k, unit in enumerate(units)}
    quotient = Quotient([sorted({number[reader] for reader in after[unit] if reader != unit}) for unit in units])
    quotient.admit([sorted(number[unit] for unit in several if unit in number) for several in _different(together)])
    parts, large, left = list[list[int]](), list[int](), 0
    for group in quotient.order():
        members = [units[k] for k in quotient.members[group]]
        size = sum(sizes[unit] for unit in members)
        if size > most:
            large.extend(members)
        elif size <= left:
            parts[-1].extend(members)
            left -= size
        else:
            parts.append(members)
            left = most - size
    return parts, large


def _different(found: Iterable[T]) -> Iterable[T]:
    """Each object once."""
    return {id(one): one for one in found}.values()


def _reads(node: Node) -> Iterator[Value]:
    return (value for value in node.reads() if value is not None)


def _stop(
    graph: Graph, stops: frozenset[str], behind: dict[Value, Node], cause: Node | None, found: dict[Node, tuple[str, str]]
) -> Node | None:
    """Notes nodes of these operators and those that need their results, bodies included. `behind` has the values that come after such a
    node, and that node; `cause` is one before the whole graph. Returns the first one in the graph.
    """
    first = None
    for node in graph:
        own = node if node.operator in stops else None
        before = cause or next((behind[v] for v in _reads(node) if v in behind), None)
        within = [_stop(body, stops, behind, own or before, found) for body in node.subgraphs()]
        own = own or next(filter(None, within), None)
        stop = own or before
        if stop is None:
            continue
        first = first or own
        behind.update((value, stop) for value in node.outputs if value is not None)
        where = "stop at" if own is node else "stop inside, at" if own is not None else "stop before, at"
        found[node] = ("stop", f"its partitions {where} {stop}")
    return first


# Shapes

_SMALL = 100
"""Elements of a constant that a node which computes shapes may read."""

_LOW_PRECISION = ("float16", "bfloat16")


def _shape_nodes(graph: Graph) -> Iterator[tuple[Node, str]]:
    """Nodes that compute with results of Shape and Size alone, and with small constants and inputs of the graph.

    Shape itself, which would bring its input along, is one only where that is an input of the graph.
    """
    host: dict[Value, Node] = {}
    inputs = set(graph.inputs)
    for node in graph:
        source = node if traits(node).shape else _source(node, host, inputs)
        if source is None:
            continue
        host.update((value, source) for value in node.outputs if value is not None)
        if source is not node or all(value in inputs for value in _reads(node)):
            yield node, f"it computes a shape, from {source}: the CPU does that"


def _source(node: Node, host: Mapping[Value, Node], inputs: Collection[Value]) -> Node | None:
    """The Shape or Size by which a node computes a shape; None: it does something else."""
    found = None
    for k, value in enumerate(node.inputs):
        if value is None:
            continue
        if value.dtype is None or value.dtype in _LOW_PRECISION or value.dtype.startswith("float8"):
            return None
        if value in inputs or (value.constant is not None and value.constant.size <= _SMALL):
            continue
        if value not in host or k in traits(node).host:
            return None
        found = found or host[value]
    return None if any(True for _ in node.subgraphs()) else found
