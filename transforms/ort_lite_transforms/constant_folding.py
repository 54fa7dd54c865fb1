"""Nodes whose inputs are all constant are computed now, within a budget of memory and work."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ort_lite.dtypes import Array, itemsize
from ort_lite.graph import Graph, Node
from ort_lite.memory.recipes import note
from ort_lite.native.checkpoint import checkpoint
from ort_lite.transform import Done, Rewriter, graph_pass
from ort_lite.transform.budget import bytes_in_memory
from ort_lite_transforms.folding_ops import FOLDERS, NotFoldable, is_view
from ort_lite_transforms.quantized_operands import serves_integer_products

_READS_NO_ELEMENTS = frozenset({"Shape", "Size"})
_READS_SOME_ELEMENTS = frozenset({"Gather"})
_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "Sum", "Where"})
_PRODUCTS = frozenset({"MatMul", "Gemm"})
_MULTIPLIED_AT_ONCE = 16
"""Multiplications of a product that take about as long as an elementwise operator takes for an element."""
_COMPARISONS = frozenset({"And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"})


@graph_pass(level="basic", counterparts=("ConstantFolding",))
def fold_constants(graph: Graph, rewriter: Rewriter) -> int:
    """One pass in graph order, so that what a folded node feeds is folded too. O(nodes + elements computed).

    A result of more than `rewriter.fold_limit` bytes stays to be computed unless it is no larger than the node's operands,
    or a view of them outside of bodies: int8 weights that a Cast would blow up stay int8. So do those that are dequantised for
    products in integers, and what exceeds the rewriter's budget.
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
    """Why it was not folded, or nothing. A checkpoint."""
    checkpoint()
    given = [array for array in arrays if array is not None]
    if any(array.dtype.kind == "O" for array in given):
        return "strings"
    if node.op_type == "DequantizeLinear" and serves_integer_products(rewriter, node):
        return "products of integers read it"
    before = (
        bytes_in_memory(given[0]) if len(given) == 1 else sum({id(array): bytes_in_memory(array) for array in given}.values())
    )
    view = is_view(node.op_type, given) and node.graph is rewriter.graph  # a body may never run: there need be no room for it
    try:
        elements, after = _result(node, given)
        if after > max(before, rewriter.fold_limit) and not view:
            return f"its {after} bytes are more than its operands' {before} and the limit of {rewriter.fold_limit}"
        if reason := _refusal(rewriter, view, after, 0 if view else _work(node, given, elements), before):
            return reason
        made = _compute(node, arrays)
    except NotFoldable as error:
        return str(error)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        return f"NumPy refuses: {error}"  # the provider says what is wrong, should the node ever run
    for k, array in enumerate(made):
        note(array, partial(_compute_one, node, arrays, k), arrays)
    return _insert_results(node, made, after, view, before, rewriter)


def _compute(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    """Return the outputs of a node."""
    with np.errstate(all="ignore"):
        found = FOLDERS[node.op_type](node, *arrays)
    outputs = [found] if isinstance(found, (np.ndarray, np.generic)) else list(found)
    return [np.asarray(output) for output in outputs]


def _compute_one(node: Node, arrays: Sequence[Array | None], k: int) -> Array:
    return _compute(node, arrays)[k]


def _refusal(rewriter: Rewriter, view: bool, nbytes: int, work: int, held: int) -> str:
    """Why results of so many bytes are not within the budget, or "" once they are counted."""
    return rewriter.budget.refusal_of_view(nbytes, held) if view else rewriter.budget.refusal(nbytes, work, held)


def _insert_results(node: Node, made: Sequence[Array], counted: int, view: bool, before: int, rewriter: Rewriter) -> str:
    """Put the results into the graph. Those that are larger than inference knew are counted first."""
    nbytes = sum(array.nbytes for array in made)
    if nbytes > max(before, rewriter.fold_limit) and not view:
        return f"its {nbytes} bytes are more than its operands' {before} and the limit of {rewriter.fold_limit}"
    if nbytes > counted and (reason := _refusal(rewriter, view, nbytes - counted, nbytes - counted, before)):
        return reason
    result = rewriter.fold(node, *made)
    return "" if isinstance(result, Done) else result.reason


def _result(node: Node, given: Sequence[Array]) -> tuple[int, int]:
    """Elements and bytes of the results, as inferred. What inference does not know is taken from the operands: most results are no
    larger. Operators that make much of little look at it themselves.
    """
    elements = nbytes = 0
    for value in node.outputs:
        if value is None:
            continue
        sizes = [dim for dim in value.shape or () if isinstance(dim, int)]
        if value.shape is not None and len(sizes) == len(value.shape):
            count = math.prod(sizes)
        elif node.op_type in _ARITHMETIC | _COMPARISONS:
            count = math.prod(np.broadcast_shapes(*(array.shape for array in given)))
        elif node.op_type == "Gather":
            axis = node.attr("axis", 0)
            count = given[1].size * (given[0].size // max(1, given[0].shape[axis]))
        elif node.op_type in _PRODUCTS:
            raise NotFoldable("the size of its result is not known")
        elif node.op_type == "NonZero":
            count = given[0].size * max(1, given[0].ndim)
        else:
            count = sum(array.size for array in given) if node.op_type == "Concat" else given[0].size
        elements += count
        nbytes += count * itemsize(value.dtype or "float32")
    return elements, nbytes


def _work(node: Node, given: Sequence[Array], elements: int) -> int:
    """Return the elements that folding reads and writes, of which results have `elements`."""
    if node.op_type in _READS_NO_ELEMENTS:
        return elements
    read = sum(array.size for array in (given[1:] if node.op_type in _READS_SOME_ELEMENTS else given))
    if node.op_type not in _PRODUCTS:
        return elements + read
    k = given[0].shape[0 if node.attr("transA", 0) else -1] if given[0].ndim else 1
    return elements + read + elements * k // _MULTIPLIED_AT_ONCE
