"""The outline of a partition: everything that its programs depend on but the contents of their operands."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ort_lite.graph import Attr, Node, Value
from ort_lite.provider import Partition
from ort_lite_xla.contents import constants_of, nodes_inside


def outline(partition: Partition, operands: frozenset[Value]) -> bytes:
    """Return the nodes, types and constants of a partition as bytes. `operands` are the constants whose contents do not matter.

    Names of values do not matter either. O(nodes, and bytes of the other constants).
    """
    constants = constants_of(partition)
    made = (value for node in nodes_inside(partition.nodes) for value in node.outputs if value)
    values = (*partition.inputs, *constants, *made)
    numbers: dict[Value | None, int] = {None: -1}
    for value in values:
        numbers.setdefault(value, len(numbers))
    rows = [
        [(_row(value), value in partition.host_values) for value in partition.inputs],
        [(_row(value), None if value in operands else _as_printable(value.constant)) for value in constants],
        [_node(node, numbers) for node in partition.nodes],
        [(numbers[value], value in partition.host_values) for value in partition.outputs],
    ]
    return repr(rows).encode()


def _row(value: Value | None) -> str:
    return "" if value is None else str(value.type)


def _node(node: Node, numbers: dict[Value | None, int]) -> tuple[Any, ...]:
    attributes = sorted((each.name, each.type, _attribute(each, numbers)) for each in node.attributes.values())
    ends = ([numbers[value] for value in side] for side in (node.inputs, node.outputs))
    return (node.domain, node.op_type, node.version, attributes, *ends, [_row(value) for value in node.outputs])


def _attribute(attribute: Attr, numbers: dict[Value | None, int]) -> Any:
    """Return an attribute as something that prints with all its contents."""
    if attribute.type == "GRAPH":
        return [_node(node, numbers) for node in attribute.value], [numbers[value] for value in attribute.value.outputs]
    return _as_printable(attribute.value)


def _as_printable(value: Any) -> Any:
    """Return contents of an attribute or a constant as something that prints with all its contents."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_as_printable(item) for item in value]
    return str(value)
