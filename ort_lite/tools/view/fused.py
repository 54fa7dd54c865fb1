"""Fusions by providers: the nodes of their compiled partitions, next to the nodes that they were assigned."""

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
    dims: Mapping[str, int],
) -> dict[str, Form]:
    """Return the form of each node after fusion, by name. Values that fusions created are added to `values`."""
    made = dict(parted)
    for partition in assignment.partitions:
        if (found := fused.get(partition.name)) is not None:
            copy = _names_of(found, partition, names)
            for node in _all(partition):
                del made[node.name]
            made.update((name, forms.of(node, copy)) for node, name in copy.nodes.items())
            values.update((key, value_of(value, dims)) for value, key in copy.values.items() if value not in found.copies)
    return made


def _names_of(fused: Fused, partition: Partition, names: GraphNames) -> GraphNames:
    """Return the names for a copy of a partition. Values that the partition also has keep their names."""
    graph, home = fused.partition.nodes[0].graph, partition.nodes[0].graph
    assert graph is not None and home is not None
    known = {copy: names.values[value] for value, copy in fused.copies.items()}
    known |= zip(fused.partition.outputs, names.keys(partition.outputs), strict=True)  # also where a fusion makes them anew
    return GraphNames(graph, names.paths[home], known, f"{partition.name}/")


def _all(partition: Partition) -> Iterator[Node]:
    """Return the nodes of a partition and of their bodies."""
    for node in partition.nodes:
        yield node
        for body in node.subgraphs():
            yield from body.all_nodes()


def list_fusions(fused: Fused, partition: Partition, keys: Mapping[str, str]) -> list[page.FusedData]:
    """Return the fused nodes, each with the nodes that it replaces, in order. `keys` are those of the compiled nodes by name."""
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
