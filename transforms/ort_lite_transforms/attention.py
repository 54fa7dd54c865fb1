"""Scaled dot-product attention that exporters wrote out becomes one Attention."""

import math
from collections.abc import Iterator

import numpy as np

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule
from ort_lite.transform.patterns import Pattern
from ort_lite_transforms.transpose_pair import permutation

_PRODUCT = op("MatMul", "a", "b", name="product")
_SCALED = (
    _PRODUCT,
    op("Mul", _PRODUCT, "factor", name="scaled", commutative=True),
    op("Div", _PRODUCT, "divisor", name="scaled"),
)
_MASKED = tuple(op("Add", scores, "mask", name="masked", commutative=True) for scores in _SCALED)


def _patterns() -> Iterator[Pattern]:
    """Yield softmax(scores) @ v, with and without PyTorch's guard for rows of which every key is masked."""
    for scores in (*_MASKED, *_SCALED):
        weights = op("Softmax", scores, name="softmax")
        yield op("MatMul", op("Where", op("IsNaN", weights), 0.0, weights, name="guard"), "v", name="root")
        yield op("MatMul", weights, "v", name="root")


@rule(*_patterns(), level="extended", counterparts=("AttentionFusion",), private=True)
def compose_attention(
    rewriter: Rewriter,
    a: Value,
    b: Value,
    v: Value,
    product: Node,
    softmax: Node,
    root: Node,
    scaled: Node | None = None,
    factor: Value | None = None,
    divisor: Value | None = None,
    masked: Node | None = None,
    mask: Value | None = None,
    guard: Node | None = None,
) -> Done | Skip:
    """softmax(scale * q @ transpose(k) + mask) @ v over (B, H, S, D), of opset 23, whatever the model imports.

    Attention gives 0 where all keys of a row are masked, softmax NaN: without the guard, the mask must have finite numbers.
    """
    if a.dtype != "float32" or any(value.shape is None or len(value.shape) != 4 for value in (a, b, v)):
        return Skip(f"{a.name}, {b.name} and {v.name} are not known to be float32 of rank 4")
    if softmax.attr("axis", -1 if softmax.version >= 13 else 1) not in (-1, 3):
        return Skip(f"{softmax} is not over the last axis")
    scale = _scale(rewriter, factor, divisor)
    if scale is None:
        return Skip(f"{scaled} is by no constant number")
    for node in (scaled, masked):
        if node is not None and node.output.shape != product.output.shape:
            return Skip(f"{node} is not known to have the shape of the scores")
    if mask is not None and guard is None and not _is_finite(rewriter, mask):
        return Skip(f"{mask.name} may have infinite elements")
    k = _keys_before_transpose(rewriter, b)
    if k is None:
        return Skip(f"{b.name} is no transpose")
    if reason := _disagreement(a, k, v, mask):
        return Skip(reason)
    y = rewriter.op("Attention", a, k, v, mask, version=max(23, root.version), scale=scale)
    return rewriter.replace(root, y)


def _scale(rewriter: Rewriter, factor: Value | None, divisor: Value | None) -> float | None:
    """Return the factor of the scores; None if it is not known, or 0, which Attention takes for its default."""
    number = 1.0 if factor is divisor is None else rewriter.number(factor or divisor)
    if not isinstance(number, float) or not math.isfinite(number) or not number:
        return None
    return number if divisor is None else 1 / number


def _keys_before_transpose(rewriter: Rewriter, b: Value) -> Value | None:
    """Return the keys of which b is the transpose; None for what no Transpose makes."""
    node = b.producer
    if node is None or node.op_type != "Transpose" or node.domain or node.graph is not rewriter.graph:
        return None
    perm, x = permutation(node), node.inputs[0]
    if perm is None or x is None:
        return None
    perm = [*perm[:2], perm[3], perm[2]]
    return x if perm == [0, 1, 2, 3] else rewriter.op("Transpose", x, perm=perm)


def _disagreement(q: Value, k: Value, v: Value, mask: Value | None) -> str:
    """Return why Attention does not take the operands, or ""."""
    assert q.shape is not None and v.shape is not None
    if k.shape is None or k.shape[:2] != q.shape[:2] or v.shape[:2] != q.shape[:2] or v.shape[2] != k.shape[2]:
        return f"{q.name}, {k.name} and {v.name} are not known to have the same batch, heads and keys"
    if mask is not None and (mask.dtype != q.dtype or not mask.shape or mask.shape[-1] != k.shape[2]):
        return f"{mask.name} is not known to have a number for each key"
    return ""


_DEPTH = 16
"""Nodes through which a mask is followed to its constants."""
_MOVES = frozenset({"Expand", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})


def _is_finite(rewriter: Rewriter, value: Value | None, depth: int = _DEPTH) -> bool:
    """Return True if the elements are finite: chosen among constants that are, and moved."""
    array = rewriter.array(value)
    if array is not None:
        return array.dtype.kind == "f" and bool(np.isfinite(array).all())
    node = None if value is None else value.producer
    if node is None or node.domain or not depth:
        return False
    if node.op_type in _MOVES or node.op_type == "Gather":
        return _is_finite(rewriter, node.inputs[0], depth - 1)
    return node.op_type == "Where" and all(_is_finite(rewriter, branch, depth - 1) for branch in node.inputs[1:])
