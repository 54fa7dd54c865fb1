"""Copy a partition's nodes to a graph of their own, for export or for compilation by another provider."""

from ort_lite.graph.graph import Graph, Value, clone_node
from ort_lite.graph.model import Names
from ort_lite.graph.released import check_there
from ort_lite.provider.provider import Partition


def subgraph(partition: Partition) -> Graph:
    """Return a copy of the partition as a graph with unique names; arrays are shared.

    Raises RuntimeException for a constant that was released.
    """
    return copy_nodes(partition)[0]


def copy_nodes(partition: Partition) -> tuple[Graph, dict[Value, Value], Names]:
    """Do the same as `subgraph`, and return the copy of each value and the names in use there."""
    made = [value for node in partition.nodes for value in node.outputs if value is not None]
    fresh = Names(Graph())
    copies = {value: Value(fresh(value.name), value.type) for value in (*partition.inputs, *made)}
    graph = Graph(partition.name, [copies[value] for value in partition.inputs])
    for value in partition.constants:
        check_there(value, f"running {partition.name} elsewhere")
        copies[value] = graph.add_initializer(Value(fresh(value.name), value.type, value.constant))
    for node in partition.nodes:
        graph.append(clone_node(node, copies))
    graph.set_outputs(copies[value] for value in partition.outputs)
    return graph, copies, fresh
