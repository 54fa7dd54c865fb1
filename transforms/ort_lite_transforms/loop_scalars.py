"""Bodies of loops that declare their iteration number or condition with one axis get them so, as in onnxruntime."""

import numpy as np

from ort_lite.graph import Graph, Names, Node, TensorType, Value
from ort_lite.transform import Rewriter, graph_pass


@graph_pass(level="required")
def reshape_loop_scalars(graph: Graph, rewriter: Rewriter) -> int:
    """Put a Reshape into each such body. O(nodes). Spec: ONNX Loop-21."""
    count = 0
    for node in list(graph.all_nodes()):
        if node.op_type == "Loop" and not node.domain:
            for body in node.subgraphs():
                count += _reshape_scalars(body, node.version)
    return count


def _reshape_scalars(body: Graph, version: int) -> int:
    names, first, count = Names(body), next(iter(body), None), 0
    for index, value in enumerate(body.inputs[:2]):
        if value.shape is None or len(value.shape) != 1:
            continue
        count += 1
        if first is None or not value.uses:  # at most passed on, and a condition may have one axis
            value.type = TensorType(value.dtype or "int64", ())
            continue
        scalar = Value(value.name, TensorType(value.dtype or "int64", ()))
        value.name = names(f"{value.name}_element")
        shape = body.add_initializer(Value(names(f"{value.name}_shape"), constant=np.array([1], np.int64)))
        body.insert_before(
            first, Node("Reshape", [scalar, shape], [value], version=version, name=names(f"{value.name}_Reshape"))
        )
        body.inputs[index] = scalar
    return count
