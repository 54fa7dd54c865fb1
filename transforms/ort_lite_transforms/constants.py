"""Constant nodes become initialisers, before anything asks which values are weights.

Exports of Paddle keep every weight in a Constant node. A Constant that a graph returns stays a node.
"""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Graph, Node
from ort_lite.transform import Done, Rewriter, graph_pass

# attribute -> element type; `value` is an array already, a sparse one too.
_PLAIN = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": np.object_,
    "value_strings": np.object_,
}


@graph_pass(level="required")
def constants_to_initializers(graph: Graph, rewriter: Rewriter) -> int:
    """O(nodes); no array is copied."""
    count = 0
    for node in graph.all_nodes():
        if node.op_type == "Constant" and not node.domain:
            array = constant_array(node)
            if array is None:
                continue
            result = rewriter.fold(node, array)
            if isinstance(result, Done):
                count += 1
            else:
                rewriter.skip(node, result.reason)
    return count


def constant_array(node: Node) -> Array | None:
    """Return the array of a Constant node; None inside functions, where an attribute of the call stands for it."""
    for attribute in node.attributes.values():
        if attribute.ref:
            return None
        if attribute.name == "value":
            array: Array = attribute.value
            return array
        if attribute.name in _PLAIN:
            return np.array(attribute.value, _PLAIN[attribute.name])
    return None
