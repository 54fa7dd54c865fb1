"""Nodes whose inputs are all constant are computed now, within a limit of memory."""

import math

import numpy as np

from ort_lite.dtypes import Array, itemsize
from ort_lite.graph import Graph, Node
from ort_lite.transform import Done, Rewriter, graph_pass
from ort_lite_transforms.folding_ops import FOLDERS, NotFoldable
from ort_lite_transforms.quantized_operands import stays_quantized

_VIEWS = frozenset(
    {"ConstantOfShape", "Expand", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Split", "Transpose"}
)


@graph_pass(level="basic", counterparts=("ConstantFolding",))
def fold_constants(graph: Graph, rewriter: Rewriter) -> int:
    """One pass in graph order, so that what a folded node feeds is folded too. O(nodes + elements computed).

    A result of more than `rewriter.fold_limit` bytes stays to be computed unless it is no larger than the node's operands,
    or a view of them outside of bodies: int8 weights that a Cast would blow up stay int8. So do those that are dequantised for
    products in integers.
    """
    count = 0
    for node in graph.all_nodes():
        if node in rewriter.stale:
            rewriter.refresh(node)
        if node.op_type not in FOLDERS or node.domain or not node.inputs:
            continue
        arrays = [rewriter.array(value) for value in node.inputs]
        if any(array is None and value is not None for array, value in zip(arrays, node.inputs, strict=True)):
            continue
        reason = _fold(node, arrays, rewriter)
        if reason:
            rewriter.skip(node, reason)
        else:
            count += 1
    return count


def _fold(node: Node, arrays: list[Array | None], rewriter: Rewriter) -> str:
    """Why it was not folded, or nothing."""
    if any(array is not None and array.dtype.kind == "O" for array in arrays):
        return "strings"
    if node.op_type == "DequantizeLinear" and stays_quantized(rewriter, node):
        return "products of integers read it"
    before, after = sum(map(_held, arrays)), _nbytes(node)
    is_view = node.op_type in _VIEWS and node.graph is rewriter.graph  # a body may never run: there need be no room for it
    if after > max(before, rewriter.fold_limit) and not is_view:
        return f"its {after} bytes are more than its operands' {before} and the limit of {rewriter.fold_limit}"
    try:
        with np.errstate(all="ignore"):
            found = FOLDERS[node.op_type](node, *arrays)
    except NotFoldable as error:
        return str(error)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        return f"NumPy refuses: {error}"  # the provider says what is wrong, should the node ever run
    outputs = [found] if isinstance(found, (np.ndarray, np.generic)) else list(found)
    result = rewriter.fold(node, *(np.asarray(output) for output in outputs))
    return "" if isinstance(result, Done) else result.reason


def _held(array: Array | None) -> int:
    """Bytes of memory behind an array: a broadcast view of one element holds one element."""
    if array is None:
        return 0
    elements = math.prod(size for size, stride in zip(array.shape, array.strides, strict=True) if stride)
    return int(elements * array.itemsize)


def _nbytes(node: Node) -> int:
    """Size of the results as inferred; operators that can make much of little check it themselves where it is not known."""
    total = 0
    for value in node.outputs:
        if value is not None and value.dtype is not None and value.shape is not None:
            sizes = [dim for dim in value.shape if isinstance(dim, int)]
            if len(sizes) == len(value.shape):
                total += math.prod(sizes) * itemsize(value.dtype)
    return total
