"""MatMul + Add of matrices becomes Gemm; an Add after a Gemm becomes its bias."""

import numpy as np

from ort_lite.dtypes import FLOATS, Array
from ort_lite.graph import Node, Value
from ort_lite.shapes import Shape, same
from ort_lite.transform import Done, Rewriter, Skip, constant, op, rule


@rule(
    op("Add", op("MatMul", "a", "b", name="product"), "bias", name="sum", since=7, commutative=True),
    level="basic",
    counterparts=("MatMulAddFusion",),
    private=True,
)
def fuse_matmul_bias(rewriter: Rewriter, a: Value, b: Value, bias: Value, product: Node, sum: Node) -> Done | Skip:
    """Gemm takes matrices alone, and a bias that does not widen the result."""
    if a.shape is None or b.shape is None or (len(a.shape), len(b.shape)) != (2, 2):
        return Skip(f"{a.name} and {b.name} are not known to be matrices")
    if a.dtype not in FLOATS:
        return Skip(f"{a.dtype} is no floating-point type")
    if not _fits(bias.shape, product.output.shape):
        return Skip(f"{bias.name} is not known to fit into the product")
    return rewriter.replace(sum, rewriter.op("Gemm", a, b, bias))


@rule(
    op("Add", op("Gemm", "a", "b", None, name="gemm", since=11), "term", name="sum", commutative=True),
    op("Add", op("Gemm", "a", "b", constant("c"), name="gemm", since=7), constant("term"), name="sum", commutative=True),
    level="basic",
    counterparts=("GemmSumFusion",),
    private=True,
)
def fuse_gemm_bias(
    rewriter: Rewriter, a: Value, b: Value, term: Value, gemm: Node, sum: Node, c: Value | None = None
) -> Done | Skip:
    """Gemm(a, b) + t is Gemm(a, b, t); two constant biases are added.

    Integers overflow in other places where alpha or beta are not 1.
    """
    if a.dtype not in FLOATS:
        return Skip(f"{a.dtype} is no floating-point type")
    if not _fits(term.shape, gemm.output.shape):
        return Skip(f"{term.name} is not known to fit into the product")
    if c is None:
        return rewriter.replace(sum, rewriter.op("Gemm", a, b, term, like=gemm, beta=1.0))
    old, more = rewriter.array(c), rewriter.array(term)
    assert old is not None and more is not None
    total: Array = np.asarray(old * gemm.attr("beta", 1.0) + more).astype(old.dtype)
    return rewriter.replace(sum, rewriter.op("Gemm", a, b, rewriter.constant(total, c.name), like=gemm, beta=1.0))


def _fits(bias: Shape | None, result: Shape | None) -> bool:
    """Return True if the bias broadcasts into the result without widening it, for all values of the free dimensions."""
    if bias is None or result is None or len(bias) > len(result):
        return False
    own = result[len(result) - len(bias) :]
    return all(same(dim, 1) or same(dim, size) for dim, size in zip(bias, own, strict=True))
