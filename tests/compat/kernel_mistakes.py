"""Mistakes that a kernel finds in a run: shapes that do not fit each other, indices out of range."""

from typing import Any

import numpy as np

from tests.compat.mistakes import Mistake, X, ints, ones, run

TYPES = {"float32": "float", "int64": "int64", "uint8": "uint8", "bool": "bool", "object": "string"}


def kernel(node: str, **feeds: Any) -> Mistake:
    """Run a model of one node whose inputs are the feeds. It knows the sizes of integers alone."""
    return run(f"({', '.join(map(_input, feeds, feeds.values()))}) => ({node.partition(' = ')[0]}) {{ {node} }}", **feeds)


def _input(name: str, array: Any) -> str:
    dims = map(str, array.shape) if array.dtype == np.int64 else (f"{name}_{k}" for k in range(array.ndim))
    return f"{TYPES[array.dtype.name]}[{', '.join(dims)}] {name}"


IMAGE = ones(1, 3, 8, 8)
KERNELS: dict[str, Mistake] = {
    "Gather": kernel("y = Gather(x, i)", x=X, i=ints(7)),
    "GatherND": kernel("y = GatherND(x, i)", x=X, i=ints(7).reshape(1, 1)),
    "GatherElements": kernel("y = GatherElements(x, i)", x=X, i=ints(7)),
    "ScatterND": kernel("y = ScatterND(x, i, u)", x=X, i=ints(7).reshape(1, 1), u=ones(1)),
    "ScatterElements": kernel("y = ScatterElements(x, i, u)", x=X, i=ints(7), u=ones(1)),
    "Add": kernel("y = Add(x, w)", x=X, w=ones(4)),
    "Mul 2d": kernel("y = Mul(x, w)", x=ones(2, 3), w=ones(2, 4)),
    "Pow": kernel("y = Pow(x, w)", x=X, w=ones(4)),
    "Where": kernel("y = Where(c, x, z)", c=np.ones(2, bool), x=X, z=ones(3)),
    "MatMul": kernel("y = MatMul(x, w)", x=ones(2, 3), w=ones(4, 5)),
    "MatMul batch": kernel("y = MatMul(x, w)", x=ones(2, 2, 3), w=ones(3, 3, 5)),
    "Gemm": kernel("y = Gemm(x, w)", x=ones(2, 3), w=ones(4, 5)),
    "Gemm bias": kernel("y = Gemm(x, w, b)", x=ones(2, 3), w=ones(3, 5), b=ones(4)),
    "Reshape": kernel("y = Reshape(x, s)", x=X, s=ints(2, 2)),
    "Reshape of an unknown size": kernel("y = Reshape(x, s)", x=X, s=ints(2, -1)),
    "Reshape two of an unknown size": kernel("y = Reshape(x, s)", x=X, s=ints(-1, -1)),
    "Concat": kernel("y = Concat<axis=0>(x, w)", x=ones(2, 3), w=ones(2, 4)),
    "Conv channels": kernel("y = Conv(x, w)", x=IMAGE, w=ones(4, 2, 3, 3)),
    "Conv kernel too large": kernel("y = Conv(x, w)", x=ones(1, 3, 2, 2), w=ones(4, 3, 3, 3)),
    "ConvTranspose": kernel("y = ConvTranspose(x, w)", x=IMAGE, w=ones(4, 2, 3, 3)),
    "MaxPool too large": kernel("y = MaxPool<kernel_shape=[5,5]>(x)", x=ones(1, 3, 2, 2)),
    "Squeeze": kernel("y = Squeeze(x, a)", x=ones(2, 3), a=ints(0)),
    "Squeeze axis range": kernel("y = Squeeze(x, a)", x=ones(2, 3), a=ints(5)),
    "Unsqueeze axis range": kernel("y = Unsqueeze(x, a)", x=ones(2, 3), a=ints(9)),
    "Expand": kernel("y = Expand(x, s)", x=X, s=ints(5)),
    "Slice step 0": kernel("y = Slice(x, s, e, a, t)", x=X, s=ints(0), e=ints(1), a=ints(0), t=ints(0)),
    "Slice axis": kernel("y = Slice(x, s, e, a)", x=X, s=ints(0), e=ints(1), a=ints(3)),
    "Split": kernel("y, z = Split(x, s)", x=X, s=ints(1, 1)),
    "TopK k": kernel("y, z = TopK(x, k)", x=X, k=ints(9)),
    "Tile": run("(float[N] x, int64[M] r) => (y) { y = Tile(x, r) }", x=X, r=ints(1, 2)),
    "Pad": run("(float[N] x, int64[M] r) => (y) { y = Pad(x, r) }", x=X, r=ints(1, 2, 3)),
    "OneHot": kernel("y = OneHot(x, d, v)", x=ints(1), d=ints(-3), v=ones(2)),
    "Div by zero int": kernel("y = Div(x, w)", x=ints(1), w=ints(0)),
    "BatchNormalization": kernel(
        "y = BatchNormalization(x, s, b, m, v)", x=ones(2, 3), s=ones(4), b=ones(4), m=ones(4), v=ones(4)
    ),
    "LayerNormalization": kernel("y = LayerNormalization(x, s)", x=ones(2, 3), s=ones(4)),
    "Einsum": kernel('y = Einsum<equation="ij,jk->ik">(x, w)', x=ones(2, 3), w=ones(4, 5)),
    "DepthToSpace": kernel("y = DepthToSpace<blocksize=2>(x)", x=ones(1, 3, 2, 2)),
    "Cast string": kernel("y = Cast<to=1>(x)", x=np.array(["a"], object)),
    "ArgMax empty": kernel("y = ArgMax<axis=0>(x)", x=ones(0, 2)),
    "ReduceSum axes": kernel("y = ReduceSum(x, a)", x=X, a=ints(4)),
    "LSTM": kernel("y, h, c = LSTM<hidden_size=2>(x, w, r)", x=ones(2, 1, 3), w=ones(1, 8, 4), r=ones(1, 8, 2)),
    "QuantizeLinear": kernel("y = QuantizeLinear<axis=1>(x, s, z)", x=ones(2, 3), s=ones(4), z=np.ones(4, np.uint8)),
    "Resize scales": kernel("y = Resize(x, , s)", x=ones(2, 3), s=ones(3)),
    "NonMaxSuppression": kernel("y = NonMaxSuppression(b, s)", b=ones(1, 3, 4), s=ones(1, 1, 5)),
    "ConstantOfShape": kernel("y = ConstantOfShape(s)", s=ints(-1, 2)),
    "Det": kernel("y = Det(x)", x=ones(2, 3)),
}
