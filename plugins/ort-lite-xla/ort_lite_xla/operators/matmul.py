"""Matrix products."""

import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Node
from ort_lite_xla import along
from ort_lite_xla.along import Mixed, PaddedDims
from ort_lite_xla.operators.activations import MICROSOFT, PARAMETERS, activate
from ort_lite_xla.operators.widening import in_float32
from ort_lite_xla.registry import FLOATS, Array, PaddingMask, XlaOp, lowering

WIDE = FLOATS | {"int32", "int64", "uint32", "uint64"}


@lowering("MatMul", types=WIDE, along=along.matmul)
def matmul(op: XlaOp, a: Array, b: Array) -> Array:
    """Multiply as NumPy's matmul does. Spec: ONNX MatMul-13."""
    return jnp.matmul(a, b)


def _plain_batch(node: Node) -> str | None:
    moved = [name for name in ("transBatchA", "transBatchB") if node.attr(name, 0)]
    return f"{moved[0]} is not supported" if moved else None


@lowering("FusedMatMul", domain=MICROSOFT, types=FLOATS, check=_plain_batch)
@in_float32
def fused_matmul(op: XlaOp, a: Array, b: Array) -> Array:
    """Return alpha * A * B; attributes transpose the last two dimensions of either. Spec: onnxruntime com.microsoft FusedMatMul-1."""
    a = jnp.swapaxes(a, -1, -2) if op.attr("transA", 0) else a
    b = jnp.swapaxes(b, -1, -2) if op.attr("transB", 0) else b
    return jnp.matmul(a, b) * np.array(op.attr("alpha", 1.0)).astype(a.dtype)


@lowering("Gemm", since=7, types=WIDE, along=along.gemm)
def gemm(op: XlaOp, a: Array, b: Array, c: Array = None) -> Array:
    """Return alpha * A * B + beta * C, with A and B transposed as the attributes say. Spec: ONNX Gemm-13."""
    alpha, beta = op.attr("alpha", 1.0), op.attr("beta", 1.0)
    product = jnp.matmul(a.T if op.attr("transA", 0) else a, b.T if op.attr("transB", 0) else b)
    product = product if alpha == 1 else (product * alpha).astype(product.dtype)
    return product if c is None else product + (c if beta == 1 else (c * beta).astype(product.dtype))


@lowering(
    "FusedGemm",
    domain=MICROSOFT,
    types=FLOATS,
    along=along.gemm,
    check=lambda node: None if node.attr("activation") in PARAMETERS else f"activation {node.attr('activation')!r}",
)
@in_float32
def fused_gemm(op: XlaOp, a: Array, b: Array, c: Array = None) -> Array:
    """Apply an activation to Gemm. Spec: onnxruntime com.microsoft FusedGemm-1."""
    given = [op.attr(name) for name in ("activation_alpha", "activation_beta")]
    return activate(op.attr("activation"), gemm(op, a, b, c), *(value for value in given if value is not None))


def _contract(dims: PaddedDims) -> list[PaddingMask]:
    """Mask padded dimensions that are summed over with zeros."""
    dims.refuse_taint()
    left, arrow, right = dims.node.attr("equation").replace(" ", "").partition("->")
    if not arrow or "." in left:
        raise Mixed("its equation is implicit or has an ellipsis")
    padded = {
        name
        for term, sizes in zip(left.split(","), dims.operands, strict=True)
        for name, size in zip(term, sizes or (), strict=True)
        if isinstance(size, str)
    }
    return [
        PaddingMask(k, axis, "zero")
        for k, term in enumerate(left.split(","))
        for axis, name in enumerate(term)
        if name in padded and name not in right
    ]


@lowering("Einsum", since=12, types=WIDE, along=_contract)
def einsum(op: XlaOp, *operands: Array) -> Array:
    """Sum products over the indices that the result lacks. Spec: ONNX Einsum-12."""
    return jnp.einsum(op.attr("equation").replace(" ", ""), *operands)


@lowering("Det", since=11, types=frozenset({"float32", "float64"}), along=along.only_first())
def det(op: XlaOp, x: Array) -> Array:
    """Return the determinants over the last two dimensions. Spec: ONNX Det-22."""
    return jnp.linalg.det(x)
