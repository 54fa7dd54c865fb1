"""MatMulNBits of com.microsoft: weights of 2, 4 or 8 bits, which stay packed on the device."""

import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Node
from ort_lite_xla.along import left_rows
from ort_lite_xla.operators.activations import MICROSOFT
from ort_lite_xla.registry import FLOATS, INDICES, Array, XlaOp, lowering


def _check(node: Node) -> str | None:
    bits, size = node.attr("bits", 4), node.attr("block_size", 0)
    if bits not in (2, 4, 8) or node.attr("weight_prepacked", 0):
        return f"weights of {bits} bits, prepacked {node.attr('weight_prepacked', 0)}; there are 2, 4 and 8, not prepacked"
    return f"blocks of {size} codes, which are no whole bytes" if size < 1 or size * bits % 8 else None


@lowering(
    "MatMulNBits",
    domain=MICROSOFT,
    types=(FLOATS, frozenset({"uint8"}), FLOATS, FLOATS | {"uint8"}, INDICES, FLOATS),
    check=_check,
    along=left_rows,
)
def matmul_n_bits(
    op: XlaOp, a: Array, b: Array, scales: Array, zeros: Array = None, groups: Array = None, bias: Array = None
) -> Array:
    """Multiply a (..., K) by the transpose of (codes - zeros) * scales, (N, K). Spec: onnxruntime com.microsoft MatMulNBits-1.

    Each of the codes in a byte has a product of its own, with the columns of `a` that it meets: interleaving the codes would
    take longer. Sums are float32 and rounded once; weights are rounded to the type of `a`. `accuracy_level` has no effect.
    """
    n, k, bits, size = (op.attr(name, default) for name, default in (("N", 0), ("K", 0), ("bits", 4), ("block_size", 0)))
    blocks, share = -(-k // size), 8 // bits
    wide = jnp.promote_types(a.dtype, np.float32)
    packed, scales = b.reshape(n, blocks * size // share), scales.reshape(n, blocks).astype(wide)
    points = _points(zeros, n, blocks, bits).astype(wide)
    columns = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, blocks * size - k)])
    block = None if groups is None else jnp.pad(groups.reshape(-1), (0, blocks * size - k))
    y = jnp.zeros((*a.shape[:-1], n), wide) if bias is None else bias.astype(wide)
    for place in range(share):
        codes = ((packed >> np.uint8(place * bits)) & np.uint8((1 << bits) - 1)).astype(wide)
        if block is None:
            point, scale = (jnp.repeat(x, size // share, 1) for x in (points, scales))
        else:
            point, scale = (jnp.take(x, block[place::share], 1, mode="clip") for x in (points, scales))
        weights = ((codes - point) * scale).astype(a.dtype)
        y = y + jnp.einsum("...k,nk->...n", columns[..., place::share], weights, preferred_element_type=wide)
    return y.astype(a.dtype)


def _points(zeros: Array, n: int, blocks: int, bits: int) -> Array:
    """Return the zero points (n, blocks): codes, floats, or the middle."""
    if zeros is None:
        return np.full((n, blocks), 1 << (bits - 1), np.uint8)
    if zeros.dtype == np.uint8:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        codes = (zeros.reshape(n, -1, 1) >> shifts) & np.uint8((1 << bits) - 1)
        return codes.reshape(n, -1)[:, :blocks]
    return zeros.reshape(n, blocks)
