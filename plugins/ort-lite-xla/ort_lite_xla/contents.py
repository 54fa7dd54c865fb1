"""Values whose contents must be known while tracing, such as shapes and bounds of slices, and whether they are."""

from collections.abc import Iterable, Iterator

from ort_lite.graph import Graph, Node, Value
from ort_lite.provider import Partition
from ort_lite_xla.registry import find

SIZES = ("Shape", "Size")
"""Operators that need only the shape of their operand, which is always known."""


def nodes_inside(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes, and those of their bodies, which come before the node around them."""
    for node in nodes:
        for body in node.subgraphs():
            yield from nodes_inside(body)
        yield node


def constants_of(partition: Partition) -> list[Value]:
    """Return the constants that the nodes of a partition read, those of their bodies included."""
    bodies: Iterator[Graph] = (body for node in nodes_inside(partition.nodes) for body in node.subgraphs())
    own = (value for body in bodies for value in body.initializers.values() if value.constant is not None)
    return list(dict.fromkeys((*partition.constants, *own)))


def content_operands(node: Node) -> list[Value]:
    """Return the operands of a node whose contents its lowering needs."""
    found = find(node)
    indices = () if found is None else found.contents
    return [value for k in indices if k < len(node.inputs) and (value := node.inputs[k]) is not None]


def open_value(value: Value, seen: dict[Value, Value | None]) -> Value | None:
    """Return the value known only at run time that `value` depends on; None if it follows from constants and shapes.

    `seen` keeps answers between calls. O(nodes before the value), once.
    """
    stack = [value]
    while stack:
        current = stack[-1]
        if current in seen:
            stack.pop()
            continue
        before = _sources(current)
        if before is None:
            seen[current] = current
        elif waiting := [source for source in before if source not in seen]:
            stack.extend(waiting)
            continue
        else:
            seen[current] = next((found for source in before if (found := seen[source]) is not None), None)
        stack.pop()
    return seen[value]


def _sources(value: Value) -> list[Value] | None:
    """Return the values whose contents determine those of `value`; None if it cannot be computed while tracing."""
    if value.constant is not None:
        return []
    node = value.producer
    found = None if node is None else find(node)
    if node is None or found is None or not found.host:
        return None
    return [] if _is_size(node) else [operand for operand in node.inputs if operand is not None]


def _is_size(node: Node) -> bool:
    return not node.domain and node.op_type in SIZES


def collect_contents(nodes: Iterable[Node]) -> frozenset[Value]:
    """Return the values whose contents the nodes need while they are traced. The nodes are in topological order."""
    found: set[Value] = set()
    for node in reversed(list(nodes_inside(nodes))):
        found.update(content_operands(node))
        if any(value in found for value in node.outputs if value is not None) and not _is_size(node):
            found.update(value for value in node.inputs if value is not None)
    return frozenset(found)


def host_values(partition: Partition) -> list[Value]:
    """Return the inputs that must be known while tracing, and the outputs that are. The others are on the device."""
    needed = collect_contents(partition.nodes)
    known = needed.union(value for node in partition.nodes if _is_size(node) for value in node.outputs if value is not None)
    inputs = [value for value in partition.inputs if value in needed]
    return inputs + [value for value in partition.outputs if value in known]
