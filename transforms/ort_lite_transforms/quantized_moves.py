"""Between two operators in integers, elements are moved as integers: DequantizeLinear goes behind what only moves them, where a
QuantizeLinear undoes it.
"""

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Node, Value
from ort_lite.memory.recipes import derive
from ort_lite.transform import Done, Rewriter, Skip, op, rule
from ort_lite_transforms.activations import parameters
from ort_lite_transforms.folding_ops import FOLDERS, NotFoldable
from ort_lite_transforms.quantized_operands import (
    MOVES,
    Quantized,
    alike,
    behind,
    find_quantized_input,
    find_quantized_output,
    moves,
)

_DEQUANTIZE = (op("DequantizeLinear", name="inner"), op("DequantizeLinear", name="inner", domain="com.microsoft"))


@rule(
    *(op(MOVES, before, name="root") for before in _DEQUANTIZE), level="basic", counterparts=("QDQSelectorActionTransformer",)
)
def move_integers(rewriter: Rewriter, inner: Node, root: Node) -> Done | Skip:
    """f(DequantizeLinear(x)) is DequantizeLinear(f(x)); scales are above 0, so that the largest element stays the largest."""
    after = behind(root, find_quantized_input(rewriter, inner.output, root.graph))
    if isinstance(after, str):
        return Skip(after)
    if not moves(root):
        return Skip(f"{root} has no form for bytes")
    moved = _fold(rewriter, root, after.x)
    if moved is None:
        moved = rewriter.op(root.op_type, after.x, *root.inputs[1:], like=root)
    return rewriter.replace(root, _dequantize(rewriter, inner, moved, after))


def _fold(rewriter: Rewriter, node: Node, x: Value) -> Value | None:
    """Apply the node to constant integers x."""
    arrays = [rewriter.array(value) for value in (x, *node.inputs[1:])]
    if node.op_type not in FOLDERS or any(array is None for array in arrays):
        return None
    try:
        return rewriter.constant(derive(_move, node, *arrays), x.name)
    except (NotFoldable, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError):
        return None  # the provider says what is wrong, should the node ever run


@rule(
    *(op("Concat", before, name="root") for before in _DEQUANTIZE),
    level="basic",
    counterparts=("QDQSelectorActionTransformer",),
)
def join_integers(rewriter: Rewriter, inner: Node, root: Node) -> Done | Skip:
    """Concat of integers that all stand for the same numbers."""
    parts = [find_quantized_input(rewriter, value, root.graph) for value in root.inputs]
    form = alike(parts)
    if isinstance(form, str):
        return Skip(form)
    joined = rewriter.op("Concat", *(part.x for part in parts if isinstance(part, Quantized)), like=root)
    return rewriter.replace(root, _dequantize(rewriter, inner, joined, form))


def _dequantize(rewriter: Rewriter, like: Node, x: Value, form: Quantized) -> Value:
    axis = form.axis if form.axis is not None or "axis" not in like.attributes else like.attr("axis")
    return rewriter.op(
        "DequantizeLinear", x, form.scale, form.zero, domain=like.domain, version=like.version, like=like, axis=axis
    )


@rule(
    *(op("QuantizeLinear", before, name="root") for before in _DEQUANTIZE),
    level="basic",
    counterparts=("QDQSelectorActionTransformer",),
)
def keep_integers(rewriter: Rewriter, inner: Node, root: Node) -> Done | Skip:
    """Quantised as it was before it was dequantised, a tensor has the same integers: a byte times a float, over it, rounds back."""
    before, after = find_quantized_input(rewriter, inner.output, root.graph), find_quantized_output(rewriter, root)
    if isinstance(before, str) or isinstance(after, str) or not before.like(after):
        return Skip("scale and zero point are others")
    return rewriter.replace(root, before.x)


@rule(op("QuantizeLinear", op(("Relu", "Clip"), "x", name="limit"), name="root"), level="basic", private=True)
def saturate_once(rewriter: Rewriter, x: Value, limit: Node, root: Node) -> Done | Skip:
    """Limits at or beyond those of the integers are what QuantizeLinear saturates to by itself."""
    found = find_quantized_output(rewriter, root)
    if isinstance(found, str) or x.dtype != "float32":
        return Skip(found if isinstance(found, str) else f"{x.dtype}, takes float32")
    limits = [0.0, np.inf] if limit.op_type == "Relu" else parameters(rewriter, limit)
    if isinstance(limits, str):
        return Skip(f"the limits of {limit} are not constant")
    info = np.iinfo(to_numpy(found.x.dtype or "int8"))
    low, high = (_level(found, bound) for bound in limits)
    if np.any(low > info.min) or np.any(high < info.max):
        return Skip(f"{limit} limits more than the integers do")
    return rewriter.replace(root, rewriter.op("QuantizeLinear", x, *root.inputs[1:], like=root))


def _level(found: Quantized, bound: float) -> Array:
    """The integers that stand for the bound, were they not saturated."""
    with np.errstate(over="ignore"):
        return np.asarray(np.rint(np.float32(bound) / found.steps) + found.points.astype(np.float32))


def _move(node: Node, *arrays: Array) -> Array:
    return np.ascontiguousarray(FOLDERS[node.op_type](node, *arrays))
