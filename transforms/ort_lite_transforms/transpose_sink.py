"""Transposes move behind elementwise operators, where they meet others and cancel, and let convolutions meet activations."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node, Value
from ort_lite.memory.recipes import derive
from ort_lite.transform import Done, Rewriter, Skip, constant, op, rule
from ort_lite_transforms.schemas import operators_with
from ort_lite_transforms.transpose_pair import permutation

MICROSOFT = "com.microsoft"
ELEMENTWISE, BROADCASTS = operators_with("elementwise"), operators_with("broadcasts")


@rule(
    op(ELEMENTWISE, op("Transpose", "x", name="transpose"), name="root"),
    op(operators_with("elementwise", MICROSOFT), op("Transpose", "x", name="transpose"), name="root", domain=MICROSOFT),
    level="basic",
    counterparts=("TransposeOptimizer",),
    private=True,
)
def sink_transpose_below_unary(rewriter: Rewriter, x: Value, transpose: Node, root: Node) -> Done | Skip:
    """f(Transpose(x)) is Transpose(f(x)); further operands (Clip's limits) are scalars."""
    y = rewriter.op(root.op_type, x, *root.inputs[1:], domain=root.domain, version=root.version, like=root)
    return rewriter.replace(root, rewriter.op("Transpose", y, perm=permutation(transpose)))


@rule(
    op(BROADCASTS, op("Transpose", "a", name="left"), op("Transpose", "b", name="right"), name="root", since=7),
    level="basic",
    counterparts=("TransposeOptimizer",),
    private=True,
)
def sink_two_transposes(rewriter: Rewriter, a: Value, b: Value, left: Node, right: Node, root: Node) -> Done | Skip:
    """f(Transpose(a, p), Transpose(b, p)) is Transpose(f(a, b), p): one Transpose instead of two."""
    perm = permutation(left)
    if perm is None or perm != permutation(right):
        return Skip("their axes are permuted differently")
    if len(root.inputs) != 2:
        return Skip(f"{root} has {len(root.inputs)} operands")
    return rewriter.replace(root, rewriter.op("Transpose", rewriter.op(root.op_type, a, b, like=root), perm=perm))


@rule(
    op(BROADCASTS, op("Transpose", "x", name="transpose"), constant("other"), name="root", since=7),
    op(BROADCASTS, constant("other"), op("Transpose", "x", name="transpose"), name="root", since=7),
    level="basic",
    counterparts=("TransposeOptimizer",),
    private=True,
)
def sink_transpose_below_constant(rewriter: Rewriter, x: Value, transpose: Node, other: Value, root: Node) -> Done | Skip:
    """f(Transpose(x), c) is Transpose(f(x, c')), c' being c with its axes put back. c must not widen the result."""
    perm, array = permutation(transpose), rewriter.array(other)
    result = transpose.output.shape
    if perm is None or array is None or result is None or len(root.inputs) != 2:
        return Skip(f"the rank of {x.name} is not known")
    padded = (1,) * (len(perm) - array.ndim) + array.shape
    if len(padded) != len(perm) or any(size not in (1, dim) for size, dim in zip(padded, result, strict=True)):
        return Skip(f"{other.name} may widen the result")
    moved = (
        other
        if array.size == 1 and array.ndim <= 1
        else rewriter.constant(derive(_permute_back, array, padded, tuple(perm)), other.name)
    )
    operands = (x, moved) if root.inputs[1] is other else (moved, x)
    y = rewriter.op(root.op_type, *operands, like=root)
    return rewriter.replace(root, rewriter.op("Transpose", y, perm=perm))


def _permute_back(array: Array, padded: tuple[int, ...], perm: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(array.reshape(padded).transpose(np.argsort(perm)))
