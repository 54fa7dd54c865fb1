"""Mistakes that a kernel finds in a run: shapes that do not fit each other, indices out of range."""

import numpy as np

from tests.compat.mistakes import Mistake, X, ints, ones, run

KERNELS: dict[str, Mistake] = {
    "Gather": run("(float[N] x, int64[M] i) => (float[K] y) { y = Gather(x, i) }", x=X, i=ints(7)),
    "GatherND": run("(float[N] x, int64[M,1] i) => (float[K] y) { y = GatherND(x, i) }", x=X, i=ints(7).reshape(1, 1)),
    "GatherElements": run("(float[N] x, int64[M] i) => (float[K] y) { y = GatherElements(x, i) }", x=X, i=ints(7)),
    "ScatterND": run(
        "(float[N] x, int64[M,1] i, float[M] u) => (float[K] y) { y = ScatterND(x, i, u) }",
        x=X,
        i=ints(7).reshape(1, 1),
        u=ones(1),
    ),
    "ScatterElements": run(
        "(float[N] x, int64[M] i, float[M] u) => (float[K] y) { y = ScatterElements(x, i, u) }", x=X, i=ints(7), u=ones(1)
    ),
    "Add": run("(float[N] x, float[M] w) => (float[K] y) { y = Add(x, w) }", x=X, w=ones(4)),
    "Mul 2d": run("(float[N,M] x, float[A,B] w) => (float[K,L] y) { y = Mul(x, w) }", x=ones(2, 3), w=ones(2, 4)),
    "Pow": run("(float[N] x, float[M] w) => (float[K] y) { y = Pow(x, w) }", x=X, w=ones(4)),
    "Where": run(
        "(bool[N] c, float[M] x, float[K] z) => (float[L] y) { y = Where(c, x, z) }", c=np.ones(2, bool), x=X, z=ones(3)
    ),
    "MatMul": run("(float[A,B] x, float[C,D] w) => (float[E,F] y) { y = MatMul(x, w) }", x=ones(2, 3), w=ones(4, 5)),
    "MatMul batch": run(
        "(float[Z,A,B] x, float[Y,C,D] w) => (float[X,E,F] y) { y = MatMul(x, w) }", x=ones(2, 2, 3), w=ones(3, 3, 5)
    ),
    "Gemm": run("(float[A,B] x, float[C,D] w) => (float[E,F] y) { y = Gemm(x, w) }", x=ones(2, 3), w=ones(4, 5)),
    "Gemm bias": run(
        "(float[A,B] x, float[C,D] w, float[E] b) => (float[F,G] y) { y = Gemm(x, w, b) }",
        x=ones(2, 3),
        w=ones(3, 5),
        b=ones(4),
    ),
    "Reshape": run("(float[N] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) }", x=X, s=ints(2, 2)),
    "Reshape of an unknown size": run("(float[N] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) }", x=X, s=ints(2, -1)),
    "Reshape two of an unknown size": run(
        "(float[N] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) }", x=X, s=ints(-1, -1)
    ),
    "Concat": run("(float[A,B] x, float[C,D] w) => (float[E,F] y) { y = Concat<axis=0>(x, w) }", x=ones(2, 3), w=ones(2, 4)),
    "Conv channels": run(
        "(float[N,C,H,W] x, float[O,D,K,L] w) => (float[A,B,P,Q] y) { y = Conv(x, w) }", x=ones(1, 3, 8, 8), w=ones(4, 2, 3, 3)
    ),
    "Conv kernel too large": run(
        "(float[N,C,H,W] x, float[O,D,K,L] w) => (float[A,B,P,Q] y) { y = Conv(x, w) }", x=ones(1, 3, 2, 2), w=ones(4, 3, 3, 3)
    ),
    "ConvTranspose": run(
        "(float[N,C,H,W] x, float[O,D,K,L] w) => (float[A,B,P,Q] y) { y = ConvTranspose(x, w) }",
        x=ones(1, 3, 8, 8),
        w=ones(4, 2, 3, 3),
    ),
    "MaxPool too large": run(
        "(float[N,C,H,W] x) => (float[A,B,P,Q] y) { y = MaxPool<kernel_shape=[5,5]>(x) }", x=ones(1, 3, 2, 2)
    ),
    "Squeeze": run("(float[A,B] x, int64[1] a) => (float[C] y) { y = Squeeze(x, a) }", x=ones(2, 3), a=ints(0)),
    "Squeeze axis range": run("(float[A,B] x, int64[1] a) => (float[C] y) { y = Squeeze(x, a) }", x=ones(2, 3), a=ints(5)),
    "Unsqueeze axis range": run(
        "(float[A,B] x, int64[1] a) => (float[C,D,E] y) { y = Unsqueeze(x, a) }", x=ones(2, 3), a=ints(9)
    ),
    "Expand": run("(float[N] x, int64[1] s) => (float[C] y) { y = Expand(x, s) }", x=X, s=ints(5)),
    "Slice step 0": run(
        "(float[N] x, int64[1] s, int64[1] e, int64[1] a, int64[1] t) => (float[C] y) { y = Slice(x, s, e, a, t) }",
        x=X,
        s=ints(0),
        e=ints(1),
        a=ints(0),
        t=ints(0),
    ),
    "Slice axis": run(
        "(float[N] x, int64[1] s, int64[1] e, int64[1] a) => (float[C] y) { y = Slice(x, s, e, a) }",
        x=X,
        s=ints(0),
        e=ints(1),
        a=ints(3),
    ),
    "Split": run("(float[N] x, int64[2] s) => (float[C] y, float[D] z) { y, z = Split(x, s) }", x=X, s=ints(1, 1)),
    "TopK k": run("(float[N] x, int64[1] k) => (float[C] y, int64[C] z) { y, z = TopK(x, k) }", x=X, k=ints(9)),
    "Tile": run("(float[N] x, int64[M] r) => (float[C] y) { y = Tile(x, r) }", x=X, r=ints(1, 2)),
    "Pad": run("(float[N] x, int64[M] r) => (float[C] y) { y = Pad(x, r) }", x=X, r=ints(1, 2, 3)),
    "OneHot": run(
        "(int64[N] x, int64[1] d, float[2] v) => (float[C,D] y) { y = OneHot(x, d, v) }", x=ints(1), d=ints(-3), v=ones(2)
    ),
    "Div by zero int": run("(int64[N] x, int64[N] w) => (int64[N] y) { y = Div(x, w) }", x=ints(1), w=ints(0)),
    "BatchNormalization": run(
        "(float[N,C] x, float[A] s, float[A] b, float[A] m, float[A] v) => "
        "(float[N,C] y) { y = BatchNormalization(x, s, b, m, v) }",
        x=ones(2, 3),
        s=ones(4),
        b=ones(4),
        m=ones(4),
        v=ones(4),
    ),
    "LayerNormalization": run(
        "(float[N,C] x, float[A] s) => (float[N,C] y) { y = LayerNormalization(x, s) }", x=ones(2, 3), s=ones(4)
    ),
    "Einsum": run(
        '(float[A,B] x, float[C,D] w) => (float[E,F] y) { y = Einsum<equation="ij,jk->ik">(x, w) }', x=ones(2, 3), w=ones(4, 5)
    ),
    "DepthToSpace": run("(float[N,C,H,W] x) => (float[A,B,P,Q] y) { y = DepthToSpace<blocksize=2>(x) }", x=ones(1, 3, 2, 2)),
    "Cast string": run("(string[N] x) => (float[N] y) { y = Cast<to=1>(x) }", x=np.array(["a"], object)),
    "ArgMax empty": run("(float[N,M] x) => (int64[C,D] y) { y = ArgMax<axis=0>(x) }", x=ones(0, 2)),
    "ReduceSum axes": run("(float[N] x, int64[1] a) => (float[C] y) { y = ReduceSum(x, a) }", x=X, a=ints(4)),
    "LSTM": run(
        "(float[S,B,I] x, float[D,H,I2] w, float[D,H,J] r) => (float[A,P,C,E] y) { y, h, c = LSTM<hidden_size=2>(x, w, r) }",
        x=ones(2, 1, 3),
        w=ones(1, 8, 4),
        r=ones(1, 8, 2),
    ),
    "QuantizeLinear": run(
        "(float[N,M] x, float[K] s, uint8[K] z) => (uint8[N,M] y) { y = QuantizeLinear<axis=1>(x, s, z) }",
        x=ones(2, 3),
        s=ones(4),
        z=np.ones(4, np.uint8),
    ),
    "Resize scales": run("(float[A,B] x, float[M] s) => (float[C,D] y) { y = Resize(x, , s) }", x=ones(2, 3), s=ones(3)),
    "NonMaxSuppression": run(
        "(float[A,B,C] b, float[D,E,F] s) => (int64[G,H] y) { y = NonMaxSuppression(b, s) }", b=ones(1, 3, 4), s=ones(1, 1, 5)
    ),
    "ConstantOfShape": run("(int64[N] s) => (float[A,B] y) { y = ConstantOfShape(s) }", s=ints(-1, 2)),
    "Det": run("(float[A,B] x) => (float y) { y = Det(x) }", x=ones(2, 3)),
}
