"""What shape inference knows to be numbers is a constant: Shape -> Gather -> Concat of a model with static shapes."""

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Graph
from ort_lite.inference import Info
from ort_lite.transform import Done, Rewriter, graph_pass


@graph_pass(level="basic")
def fold_known_contents(graph: Graph, rewriter: Rewriter) -> int:
    """O(nodes). Symbolic contents stay for the provider, which resolves them when it binds a shape."""
    count = 0
    for node in graph.all_nodes():
        if node in rewriter.stale:
            rewriter.refresh(node)
        if node.op_type == "Constant":  # a graph output, or it would be an initialiser
            continue
        arrays = [_array(rewriter.info(value)) for value in node.outputs if value is not None]
        known = [array for array in arrays if array is not None]
        if known and len(known) == len(arrays):
            result = rewriter.fold(node, *known)
            if isinstance(result, Done):
                count += 1
            else:
                rewriter.skip(node, result.reason)
    return count


def _array(info: Info) -> Array | None:
    """The contents, if they and the shape are numbers."""
    if info.contents is None or info.shape is None or info.dtype is None:
        return None
    shape = [dim for dim in info.shape if isinstance(dim, int)]
    items = [item for item in info.contents if isinstance(item, int)]
    if len(shape) < len(info.shape) or len(items) < len(info.contents):
        return None
    return np.array(items, to_numpy(info.dtype)).reshape(shape)
