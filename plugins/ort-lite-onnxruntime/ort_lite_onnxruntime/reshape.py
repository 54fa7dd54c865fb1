"""Reshape of empty tensors: onnxruntime cannot resolve -1 next to a dimension of length 0, which shape inference can."""

import numpy as np

from ort_lite.graph import Graph, Names, Node, Value


def settle(graph: Graph) -> None:
    """Replace the shapes of Reshape nodes by inferred ones: numbers, and -1 for at most one unknown dimension. Bodies included."""
    fresh = Names(graph)
    for node in list(graph.all_nodes()):
        sizes = _sizes(node)
        if sizes is not None:
            shape = Value(fresh("shape"), constant=np.array(sizes, np.int64))
            node.replace_input(1, graph.add_initializer(shape))


def _sizes(node: Node) -> list[int] | None:
    """Return the inferred sizes, or None to leave the node as it is. A size of 0 would be read as "copy from the input"."""
    shape = node.output.shape if not node.domain and node.op_type == "Reshape" else None
    if shape is None or len(node.inputs) < 2 or node.inputs[1] is None or 0 in shape:
        return None
    sizes = [dim if isinstance(dim, int) else -1 for dim in shape]
    return sizes if sizes.count(-1) <= 1 else None
