"""Fusions by providers: the nodes of the partitions that they compiled, next to those that they were assigned."""

from collections.abc import Iterator, Mapping

from ort_lite.compile.fusing import Fused
from ort_lite.graph.graph import Node
from ort_lite.partition.assignment import Assignment
from ort_lite.provider.provider import Partition
from ort_lite.tools.view import document as page
from ort_lite.tools.view.graph_records import GraphNames, value_of
from ort_lite.tools.view.pictures import Form, Forms


def forms_after_compilation(
    parted: Mapping[str, Form],
    assignment: Assignment,
    names: GraphNames,
    fused: Mapping[str, Fused],
    forms: Forms,
    values: dict[str, page.ValueData],
) -> dict[str, Form]:
    """The form of each node once partitions were fused, by name. `values` receives what fusions made."""
    made = dict(parted)
    for partition in assignment.partitions:
        if (found := fused.get(partition.name)) is not None:
            copy = _names_of(found, partition, names)
            for node in _all(partition):
                del made[node.name]
            made.update((name, forms.of(node, copy)) for node, name in copy.nodes.items())
            values.update((key, value_of(value)) for value, key in copy.values.items() if value not in found.copies)
    return made


def _names_of(fused: Fused, partition: Partition, names: GraphNames) -> GraphNames:
    """Return the names of a copy: values that the partition has too are called as there."""
    graph, home = fused.partition.nodes[0].graph, partition.nodes[0].graph
    assert graph is not None and home is not None
    known = {copy: names.values[value] for value, copy in fused.copies.items()}
    known |= zip(fused.partition.outputs, names.keys(partition.outputs), strict=True)  # also where a fusion makes them anew
    return GraphNames(graph, names.paths[home], known, f"{partition.name}/")


def _all(partition: Partition) -> Iterator[Node]:
    """Its nodes and those of their bodies."""
    for node in partition.nodes:
        yield node
        for body in node.subgraphs():
            yield from body.all_nodes()


def list_fusions(fused: Fused, partition: Partition, keys: Mapping[str, str]) -> list[page.FusedData]:
    """The nodes that are made of others, each with those others in order. `keys`: of the compiled nodes, by name.

    A transform says which nodes went and which came: those that came are made of those that went.
    """
    order = {node.name: k for k, node in enumerate(_all(partition))}
    parts: dict[str, set[str]] = {}
    for change in fused.changes:
        gone = set[str]().union(*(parts.get(name, {name}) for name in change.removed))
        parts.update((name, gone) for name in change.added)
    return [
        {
            "name": keys[node.name],
            "operator": node.operator,
            "parts": sorted(parts[node.name] & order.keys(), key=order.__getitem__),
        }
        for node in fused.partition.nodes
        if parts.get(node.name)
    ]
