"""Buckets: a padded program gives what an exact one gives, and dimensions for which that is not proved are not padded."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.padding import bucket

import ort_lite
from ort_lite.dtypes import Array

XLA = XLAExecutionProvider.name
SIZES = (1, 5, 6, 17)
BUCKETS = 3  # 1, 6 and 24: 5 and 6 share one
# Graphs whose open dimensions can all be padded
PADDED = {
    "elementwise": "(float[N,3] x) => (float[N,3] y) { a = Exp(x)  b = Log(a)  y = Div(b, a) }",
    "broadcast": "(float[N,3] x, float[N,1] z) => (float[N,3] y) { y = Add(x, z) }",
    "softmax": "(float[2,N] x) => (float[2,N] y) { l = Log(x)  y = Softmax(l) }",  # of infinities where there is padding
    "sum": "(float[N,3] x) => (float[1,3] y) <int64[1] a = {0}> { r = Reciprocal(x)  y = ReduceSum(r, a) }",
    "max": "(float[2,N] x) => (float[2,1] y) <int64[1] a = {1}> { n = Neg(x)  y = ReduceMax<axes = [1]>(n) }",
    "arg max": "(float[2,N] x) => (int64[2,1] y) { n = Neg(x)  y = ArgMax<axis = 1>(n) }",
    "product over it": "(float[3,N] x, float[N,2] z) => (float[3,2] y) { r = Reciprocal(x)  y = MatMul(r, z) }",
    "gemm over it": "(float[N,3] x, float[N,2] z) => (float[3,2] y) { r = Log(x)  y = Gemm<transA = 1>(r, z) }",
    "einsum": '(float[3,N] x, float[N,2] z) => (float[2,3] y) { r = Log(x)  y = Einsum<equation = "ij,jk->ki">(r, z) }',
    "attention": """(float[B,N,4] x) => (float[B,N,4] y) { t = Transpose<perm = [0, 2, 1]>(x)  s = MatMul(x, t)
        p = Softmax(s)  y = MatMul(p, x) }""",
    "heads": """(float[B,N,6] x) => (float[B,N,6] y) <int64[4] s = {0, 0, 2, 3}, int64[3] r = {0, 0, 6}> {
        h = Reshape(x, s)  t = Transpose<perm = [0, 2, 1, 3]>(h)  e = Exp(t)  u = Transpose<perm = [0, 2, 1, 3]>(e)
        y = Reshape(u, r) }""",
    "positions": """(float[N,2] x) => (float[N,2] y) <int64 zero = {0}, int64 one = {1}, int64[1] axis = {1}> {
        s = Shape(x)  n = Gather(s, zero)  r = Range(zero, n, one)  c = Cast<to = 1>(r)  u = Unsqueeze(c, axis)
        y = Add(x, u) }""",
    "rows of a table": """(int64[N] i) => (float[N,2] y) <float[4,2] t = {0, 1, 2, 3, 4, 5, 6, 7}> { y = Gather(t, i) }""",
    "the last row": "(float[N,2] x) => (float[1,2] y) <int64[1] i = {-1}> { e = Exp(x)  y = Gather(e, i) }",
    "zeros of its size": """(float[N,2] x) => (float[N,2] y) {
        s = Shape(x)  z = ConstantOfShape(s)  y = Sub(z, x) }""",
    "images": """(float[N,2,4,4] x, float[3,2,3,3] w) => (float[N,3,1,1] y) {
        c = Conv(x, w)  r = Relu(c)  y = GlobalAveragePool(r) }""",
    "running sums": "(float[N] x) => (float[N] y) <int64 a = {0}> { e = Exp(x)  y = CumSum(e, a) }",
    "quantised": "(float[N,3] x) => (uint8[N,3] y, float s, uint8 z) { e = Exp(x)  y, s, z = DynamicQuantizeLinear(e) }",
}
# Graphs that mix the elements of a dimension, or compute with its size
EXACT = {
    "mean": "(float[N,3] x) => (float[1,3] y) { y = ReduceMean<axes = [0]>(x) }",
    "size as a number": """(float[N,3] x) => (float[1,3] y) <int64[1] i = {0}> { s = Shape(x)  n = Gather(s, i)
        f = Cast<to = 1>(n)  t = ReduceMax<axes = [0]>(x)  y = Div(t, f) }""",
    "size as a result": "(float[N,3] x) => (int64[2] y) { e = Exp(x)  y = Shape(e) }",
    "flattened": "(float[N,M] x) => (float[K] y) <int64[1] s = {-1}> { y = Reshape(x, s) }",
    "joined": "(float[N,3] x) => (float[M,3] y) { y = Concat<axis = 0>(x, x) }",
    "reversed": "(float[N] x) => (float[N] y) <int64[1] s = {-1}, int64[1] e = {-9223372036854775808}, int64[1] a = {0}>"
    "{ y = Slice(x, s, e, a, s) }",
    "the last but one": "(float[N] x) => (float[M] y) <int64[1] s = {0}, int64[1] e = {-1}> { y = Slice(x, s, e) }",
    "summed from behind": "(float[N] x) => (float[N] y) <int64 a = {0}> { y = CumSum<reverse = 1>(x, a) }",
    "a convolution along it": "(float[1,1,N] x, float[1,1,3] w) => (float[1,1,N] y) { y = Conv<pads = [1, 1]>(x, w) }",
    "sorted": "(float[N] x) => (float[1] y, int64[1] i) <int64[1] k = {1}> { y, i = TopK(x, k) }",
}


def sessions(text: str) -> list[ort_lite.InferenceSession]:
    """With buckets and without."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}').SerializeToString()
    return [ort_lite.InferenceSession(model, providers=[(XLA, {"buckets": on})]) for on in (1, 0)]


def feeds(made: ort_lite.InferenceSession, sizes: dict[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    found = {}
    for value in made.get_inputs():
        shape = [sizes[size] if isinstance(size, str) else int(size or 0) for size in value.shape]
        ids = "int64" in value.type
        found[value.name] = rng.integers(-4, 4, shape) if ids else rng.uniform(0.1, 2, shape).astype(np.float32)
    return found


def executables(made: ort_lite.InferenceSession) -> Any:
    facts = made.explain().facts
    assert list(facts) == [f"{XLA}_0"], "not one partition"
    return facts[f"{XLA}_0"]["executables"]


def run_both(text: str) -> ort_lite.InferenceSession:
    """Runs sessions with and without buckets on all SIZES; returns the one with them."""
    padded, exact = sessions(text)
    for size in SIZES:
        x = feeds(padded, {"N": size, "M": 3, "B": 2})
        for a, b in zip(padded.run(None, x), exact.run(None, x), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.flags.c_contiguous and a.flags.writeable
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)
    return padded


@pytest.mark.parametrize("name", PADDED)
def test_sizes_share_a_program_and_the_result_is_the_same(name: str) -> None:
    assert executables(run_both(PADDED[name])) == BUCKETS


@pytest.mark.parametrize("name", EXACT)
def test_where_it_is_not_proved_each_size_has_its_program(name: str) -> None:
    assert executables(run_both(EXACT[name])) == len(SIZES)


def test_a_size_that_another_provider_makes_of_an_open_one_is_not_padded() -> None:
    text = """(float[N,3] x) => (float[M,3] y) <int64[4] p = {-1, 0, 2, 0}> {
        c = Pad<mode = "reflect">(x, p)  e = Exp(c)  y = Neg(e) }"""
    padded, exact = sessions(text)
    assert len(padded.explain().assignment.partitions) == 2
    for size in (5, 6, 7):
        x = feeds(padded, {"N": size})
        np.testing.assert_allclose(padded.run(None, x)[0], exact.run(None, x)[0], rtol=1e-6)


@pytest.mark.parametrize("product", ["MatMul(e, w)", "Gemm(e, w)", 'Einsum<equation = "ij,jk->ik">(e, w)'])
def test_an_open_dimension_that_equals_a_fixed_one_is_not_padded(product: str) -> None:
    padded, exact = sessions(f"(float[2,N] x, float[5,3] w) => (float[2,3] y) {{ e = Exp(x)  y = {product} }}")
    x = feeds(padded, {"N": 5})
    np.testing.assert_allclose(padded.run(None, x)[0], exact.run(None, x)[0], rtol=1e-6)


def test_buckets_grow_by_half_or_less() -> None:
    sizes = list(range(1, 3000))
    assert [bucket(size) for size in sizes[:17]] == [1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16, 24]
    assert all(size <= bucket(size) <= size * 1.5 for size in sizes)
    assert all(bucket(bucket(size)) == bucket(size) for size in sizes)
    assert bucket(0) == 0


def test_a_program_is_not_made_anew_for_the_same_shape() -> None:
    padded, exact = sessions(PADDED["softmax"])
    for _ in range(3):
        for made in (padded, exact):
            made.run(None, {"x": np.ones((2, 5), np.float32)})
    assert executables(padded) == executables(exact) == 1


def test_masks_do_not_let_padding_through_where_it_is_not_finite() -> None:
    padded, _ = sessions(PADDED["product over it"])
    (y,) = padded.run(None, {"x": np.ones((3, 5), np.float32), "z": np.ones((5, 2), np.float32)})
    assert y.tolist() == [[5, 5]] * 3  # 1 / 0 is in the sixth column


def test_two_open_dimensions_are_padded_each_to_its_bucket() -> None:
    padded, exact = sessions(PADDED["attention"])
    for batch, size in ((5, 7), (6, 8), (5, 8), (6, 7)):
        x = np.random.default_rng(batch * size).standard_normal((batch, size, 4)).astype(np.float32)
        np.testing.assert_allclose(padded.run(None, {"x": x})[0], exact.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
    assert (executables(padded), executables(exact)) == (1, 4)
