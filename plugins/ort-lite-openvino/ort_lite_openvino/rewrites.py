"""Rewrites of nodes that OpenVINO interprets differently from ONNX, into nodes that both interpret alike."""

from collections.abc import Callable, Mapping

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Graph, Names, Node, Value


def rewrite(graph: Graph) -> None:
    """Rewrite such nodes of a graph, bodies included."""
    fresh = Names(graph)
    for node in list(graph.all_nodes()):
        if not node.domain and node.op_type in _REWRITES:
            _REWRITES[node.op_type](graph, node, fresh)


def _threshold(graph: Graph, node: Node, fresh: Names) -> None:
    """Replace ThresholdedRelu by a choice between x and 0. OpenVINO multiplies by 0, which keeps signs, NaN and infinities."""
    x, y, home = node.inputs[0], node.output, node.graph
    assert x is not None and home is not None
    dtype = to_numpy(x.dtype or "")
    alpha = _constant(graph, fresh("alpha"), np.array(node.attr("alpha", 1.0), dtype))
    zero = _constant(graph, fresh("zero"), np.zeros((), dtype))
    node.replace_output(0, Value(""))
    is_greater = Node("Less", [alpha, x], [Value(fresh("greater"))], version=node.version, name=fresh("Less"))
    home.insert_before(node, is_greater)
    home.insert_before(node, Node("Where", [is_greater.output, x, zero], [y], version=node.version, name=fresh("Where")))
    home.remove(node)


def _zero_point(graph: Graph, node: Node, fresh: Names) -> None:
    """Add the zero point 0 where it is omitted before a second one: OpenVINO does not compile such a node."""
    x, *others = node.inputs
    if len(others) == 3 and others[1] is None and x is not None:
        node.replace_input(2, _constant(graph, fresh("zero"), np.zeros((), to_numpy(x.dtype or ""))))


def _constant(graph: Graph, name: str, array: Array) -> Value:
    return graph.add_initializer(Value(name, constant=array))


_REWRITES: Mapping[str, Callable[[Graph, Node, Names], None]] = {
    "ConvInteger": _zero_point,
    "MatMulInteger": _zero_point,
    "ThresholdedRelu": _threshold,
}
