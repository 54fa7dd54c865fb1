"""Values that shape inference knows to be numbers become constants: Shape -> Gather -> Concat of a model with static shapes.

onnxruntime folds a Shape whose dimensions are all numbers, and what is computed from it. A Gather of the one number among free
dimensions is a transform of its own, which leaves saved models alone: tools that fuse attention match Shape and Gather.
"""

from collections.abc import Iterable

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Graph, Node
from ort_lite.inference import Info
from ort_lite.transform import Done, Rewriter, graph_pass


@graph_pass(level="basic", counterparts=("ConstantFolding",))
def fold_shapes(graph: Graph, rewriter: Rewriter) -> int:
    """Fold Shape nodes whose results are numbers. O(nodes)."""
    return _fold((node for node in graph.all_nodes() if node.op_type == "Shape" and not node.domain), rewriter)


@graph_pass(level="basic")
def fold_known_contents(graph: Graph, rewriter: Rewriter) -> int:
    """Fold all other nodes whose results are numbers. O(nodes).

    Symbolic contents stay for the provider, which resolves them when it binds a shape.
    """
    return _fold((node for node in graph.all_nodes() if node.op_type != "Shape" or node.domain), rewriter)


def _fold(nodes: Iterable[Node], rewriter: Rewriter) -> int:
    count = 0
    for node in nodes:
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
