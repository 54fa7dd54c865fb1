"""MatMul and Gemm: any shapes, against NumPy in double precision."""

import numpy as np
from hypothesis import strategies as st

from tests.conformance.drawing import HOWS, SEEDS, How, Shape, broadcastable, drawn, numbers
from tests.conformance.random_models import check

SIZES = st.sampled_from([0, 1, 2, 3, 5, 8, 17, 33])
TYPES = st.sampled_from(["float32", "float32", "int32", "float64"])


@st.composite
def products(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """Shapes that MatMul takes: batches that broadcast, vectors on either side."""
    m, k, n = draw(SIZES), draw(SIZES), draw(SIZES)
    before = draw(st.sampled_from([((), ())]) | broadcastable(2).filter(lambda both: max(map(len, both)) < 4))
    a: Shape = (k,) if draw(st.integers(0, 5)) == 0 else (*before[0], m, k)
    b: Shape = (k,) if draw(st.integers(0, 5)) == 0 else (*before[1], k, n)
    return a, b


@drawn(40, case=products(), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_matmul(case: tuple[Shape, Shape], dtype: str, seed: int, how: How) -> None:
    a, b = numbers(case[0], dtype, seed), numbers(case[1], dtype, seed + 1)
    wide = "float64" if dtype == "float32" else dtype
    check("MatMul", [a, b], [np.asarray(a.astype(wide) @ b.astype(wide)).astype(dtype)], how, atol=1e-4)


@drawn(
    30,
    m=SIZES,
    k=SIZES,
    n=SIZES,
    flip=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    dtype=TYPES,
    seed=SEEDS,
    how=HOWS,
    factors=st.tuples(st.sampled_from([1.0, 0.5, 0.0, -2.0]), st.sampled_from([1.0, 0.0, 2.0])),
    bias=st.sampled_from(["none", "all", "row", "column", "one", "vector", "scalar"]),
)
def test_gemm(
    m: int, k: int, n: int, flip: tuple[int, int], dtype: str, seed: int, how: How, factors: tuple[float, float], bias: str
) -> None:
    alpha, beta = factors if dtype.startswith("float") else (1.0, 1.0)
    shape = {"all": (m, n), "row": (1, n), "column": (m, 1), "one": (1, 1), "vector": (n,), "scalar": ()}.get(bias)
    a, b = numbers((m, k), dtype, seed), numbers((k, n), dtype, seed + 1)
    c = None if shape is None else numbers(shape, dtype, seed + 2)
    wanted = alpha * (a.astype(np.float64) @ b) + (0 if c is None else beta * c.astype(np.float64))
    flipped = [np.ascontiguousarray(x.T) if turn else x for x, turn in zip((a, b), flip, strict=True)]
    check(
        "Gemm",
        [*flipped, c],
        [np.asarray(wanted).astype(dtype)],
        how,
        transA=flip[0],
        transB=flip[1],
        alpha=alpha,
        beta=beta,
        atol=1e-4,
    )
