"""Two Transposes in a row become one, or none."""

import numpy as np

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule


@rule(op("Transpose", op("Transpose", "x", name="inner"), name="outer"), level="basic", counterparts=("TransposeOptimizer",))
def merge_transposes(rewriter: Rewriter, x: Value, inner: Node, outer: Node) -> Done | Skip:
    """Transpose(Transpose(x, p), q) becomes one Transpose, or x itself where q undoes p."""
    p, q = permutation(inner), permutation(outer)
    if p is None or q is None:
        return Skip(f"the rank of {x.name} is not known")
    perm = [p[axis] for axis in q]
    if perm == sorted(perm):
        return rewriter.replace(outer, x)
    if not rewriter.is_private(inner):
        return Skip(f"{inner.output.name} has other readers: two Transposes would stay two")
    return rewriter.replace(outer, rewriter.op("Transpose", x, perm=perm))


@rule(
    op(
        "Reshape", op("Transpose", op("Reshape", "x", "folded", name="inner"), name="transpose"), "shape", name="outer", since=5
    ),
    level="basic",
    private=True,
)
def transpose_without_reshapes(
    rewriter: Rewriter, x: Value, inner: Node, transpose: Node, outer: Node, **shapes: Value
) -> Done | Skip:
    """Transpose the last two axes as they are, instead of with the axes before them made one and apart again."""
    before, between, after = x.shape, inner.output.shape, outer.output.shape
    if before is None or between is None or after is None or permutation(transpose) != [0, 2, 1]:
        return Skip(f"{transpose} is not known to exchange the last two of three axes")
    if before[-2:] != between[-2:] or after[-2:] != (between[2], between[1]):
        return Skip(f"{inner} and {outer} are not known to make the axes before one, and apart again")
    if before[:-2] != after[:-2]:
        sizes = [dim if isinstance(dim, int) else -1 for dim in (*after[:-2], *before[-2:])]
        if sizes.count(-1) > 1 or 0 in sizes:
            return Skip(f"{outer.output.name} has more than one axis of an open size")
        x = rewriter.op("Reshape", x, rewriter.constant(np.array(sizes, np.int64)), version=outer.version)
    last = len(after) - 1
    return rewriter.replace(outer, rewriter.op("Transpose", x, perm=[*range(last - 1), last, last - 1]))


def permutation(node: Node) -> list[int] | None:
    """`perm` of a Transpose, axes reversed where it is left out; None where the rank is not known."""
    perm: list[int] | None = node.attr("perm") or None
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if perm is None and shape is not None:
        perm = list(range(len(shape)))[::-1]
    return perm
