"""The int64 values known to fit the 32 bits in which OpenVINO computes: those that come from shapes and small constants."""

import numpy as np

from ort_lite.graph import Node, Value

_SIZES = frozenset({"ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "Shape", "Size"})
_KEEPS_NAMES = """
Abs Add Cast Ceil Concat CumSum Div Equal Expand Flatten Floor Gather Identity Max Min Mod Mul Neg Range ReduceMax ReduceMin
ReduceProd ReduceSum Reshape Round Slice Split Sqrt Squeeze Sub Sum Tile Transpose Unsqueeze Where
"""
_KEEPS = frozenset(_KEEPS_NAMES.split())
_LIMIT = 2**31


class Bounds:
    """The small values of a graph, found by visiting its nodes in order.

    Tensor sizes are small, and so are values derived from them.
    """

    def __init__(self) -> None:
        self._small: set[Value] = set()

    def visit(self, node: Node) -> None:
        """Record which outputs of a node are small. Call it for each node in topological order."""
        outputs = [value for value in node.outputs if value is not None]
        if node.op_type in _SIZES or (node.op_type in _KEEPS and all(map(self.is_small, filter(None, node.inputs)))):
            self._small.update(outputs)
        elif node.op_type == "TopK":
            self._small.update(outputs[1:])

    def is_small(self, value: Value) -> bool:
        """Return True if the value's numbers are known to fit 32 bits."""
        if value.constant is not None:
            return fits(value)
        return value in self._small or value.dtype == "bool"


def fits(value: Value) -> bool:
    """Return True if a constant's numbers fit 32 bits. Large float tensors are not searched and count as too wide."""
    array = value.constant
    if array is None or array.dtype.kind not in "iuf":
        return array is not None and array.dtype.kind == "b"
    if array.dtype.kind == "f" and array.size > 64:
        return False
    return not array.size or bool(np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0) < _LIMIT)
