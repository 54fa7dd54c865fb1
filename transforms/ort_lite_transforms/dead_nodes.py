"""Nodes whose results nobody reads, and initialisers that nobody reads, go."""

from ort_lite.graph import Graph
from ort_lite.transform import Rewriter, all_graphs, graph_pass


@graph_pass(level="basic")
def remove_dead_nodes(graph: Graph, rewriter: Rewriter) -> int:
    """O(nodes). What a rewrite leaves behind is removed at once; this finds what was dead in the model."""
    count = 0
    for body in list(all_graphs(graph)):
        count += rewriter.discard(*body)
    for body in all_graphs(graph):
        overridable = set(body.inputs)
        unread = [v for v in body.initializers.values() if not (v.uses or v.is_graph_output() or v in overridable)]
        for value in unread:
            del body.initializers[value.name]
    return count
