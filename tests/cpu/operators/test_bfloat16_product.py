"""MatMul, Gemm and FusedMatMul of bfloat16 in models: by instructions for bfloat16 on CPUs that have them, else in float32."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto, helper

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.native.cpu import host, parse_target

NAMES = ("x86-64-v2", "x86-64-v4", "znver4", "sapphirerapids")
HERE = [name for name in NAMES if parse_target(name).runs_on(host())] or ["host"]
FAST = [name for name in HERE if name != "host" and parse_target(name).has_bfloat16_products]
HEADER = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> main'


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(bfloat16)


def session(text: str, target: str, constants: dict[str, Array] | None = None, threads: int = 1) -> ort_lite.InferenceSession:
    """Return a session for a graph as text; `constants` are bfloat16."""
    model = onnx.parser.parse_model(f"{HEADER} {text}")
    for name, array in (constants or {}).items():
        tensor = helper.make_tensor(name, TensorProto.BFLOAT16, array.shape, array.tobytes(), raw=True)
        model.graph.initializer.append(tensor)
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    providers = [("CPUExecutionProvider", {"target": target})]
    return ort_lite.InferenceSession(model.SerializeToString(), options, providers=providers)


def kernels(found: ort_lite.InferenceSession) -> list[str]:
    """Return the candidates that compute the products of a model."""
    return [choice.taken for choice in found.explain(kernels=True).kernels.values()]


def assert_rounded(got: Any, want: Array, most: Array) -> None:
    """Compare bfloat16 with float64, to within its rounding and what sums of float32 may differ by."""
    assert got.dtype == bfloat16
    np.testing.assert_array_less(np.abs(got.astype(np.float64) - want), 2.0**-8 * np.abs(want) + 2.0**-18 * most + 1e-30)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((7, 13), (13, 33)), ((64, 64), (64, 64)), ((3, 7, 64), (64, 33)), ((2, 3, 40, 32), (2, 3, 32, 50)),
        ((2, 3, 7, 13), (3, 13, 5)), ((3, 7, 13), (2, 3, 13, 5)), ((2, 1, 7, 13), (3, 13, 5)), ((70,), (70, 40)), ((40, 70), (70,)),
        ((2, 1, 3, 1, 20, 50), (1, 2, 1, 2, 50, 40)), ((0, 7), (7, 3)), ((3, 0), (0, 4)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("constant", [False, True])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], constant: bool, target: str) -> None:
    x, w = drawn(*a), drawn(*b, seed=1)
    names = [",".join(f"D{n}" if n else "0" for n in shape) for shape in (a, b)]
    if constant:
        found = session(f"(bfloat16[{names[0]}] x) => (bfloat16[] y) {{ y = MatMul(x, w) }}", target, {"w": w})
        [y] = found.run(None, {"x": x})
    else:
        found = session(f"(bfloat16[{names[0]}] x, bfloat16[{names[1]}] w) => (bfloat16[] y) {{ y = MatMul(x, w) }}", target)
        [y] = found.run(None, {"x": x, "w": w})
    wide, other = x.astype(np.float64), w.astype(np.float64)
    assert_rounded(y, np.matmul(wide, other), np.matmul(np.abs(wide), np.abs(other)))


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("constant", [False, True])
def test_gemm(constant: bool, turned: int, beta: float, target: str) -> None:
    x, w, c = drawn(50, 64), drawn(64, 70, seed=1), drawn(70, seed=2)
    a, b = (np.ascontiguousarray(v.T) if turned else v for v in (x, w))
    node = f"y = Gemm<transA = {turned}, transB = {turned}, beta = {beta}>(a, b, c)"
    if constant:
        found = session(f"(bfloat16[M,N] a) => (bfloat16[] y) {{ {node} }}", target, {"b": b, "c": c})
        [y] = found.run(None, {"a": a})
    else:
        found = session(f"(bfloat16[M,K] a, bfloat16[P,N] b, bfloat16[Q] c) => (bfloat16[] y) {{ {node} }}", target)
        [y] = found.run(None, {"a": a, "b": b, "c": c})
    wide, other, bias = (v.astype(np.float64) for v in (x, w, c))
    assert_rounded(y, wide @ other + beta * bias, np.abs(wide) @ np.abs(other) + np.abs(bias))


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("alpha", [1.0, 0.125])
def test_fused_matmul_of_turned_operands(alpha: float, target: str) -> None:
    a, b = drawn(2, 64, 40), drawn(2, 70, 64, seed=1)
    node = f"y = com.microsoft.FusedMatMul<transA = 1, transB = 1, alpha = {alpha}>(a, b)"
    [y] = session(f"(bfloat16[B,K,M] a, bfloat16[B,N,K] b) => (bfloat16[] y) {{ {node} }}", target).run(None, {"a": a, "b": b})
    wide, other = a.astype(np.float64).swapaxes(1, 2), b.astype(np.float64).swapaxes(1, 2)
    assert_rounded(y, alpha * (wide @ other), np.abs(wide) @ np.abs(other))


ATTENTION = """(bfloat16[N,S,64] x) => (bfloat16[] y) {
    shape = Constant<value_ints = [0, 0, 4, 16]>()  back = Constant<value_ints = [0, 0, 64]>()
    q = MatMul(x, wq)  k = MatMul(x, wk)  v = MatMul(x, wv)
    q4 = Reshape(q, shape)  k4 = Reshape(k, shape)  v4 = Reshape(v, shape)
    qt = Transpose<perm = [0, 2, 1, 3]>(q4)  kt = Transpose<perm = [0, 2, 3, 1]>(k4)  vt = Transpose<perm = [0, 2, 1, 3]>(v4)
    scores = MatMul(qt, kt)  weights = Softmax(scores)  mixed = MatMul(weights, vt)
    turned = Transpose<perm = [0, 2, 1, 3]>(mixed)  flat = Reshape(turned, back)
    out = MatMul(flat, wo)  sum = Add(out, x)  up = MatMul(sum, w1)  act = Relu(up)  down = MatMul(act, w2)  y = Add(down, sum)
}"""
WEIGHTS = {
    name: (drawn(64, 64, seed=seed) / bfloat16(8)).astype(bfloat16) for seed, name in enumerate(("wq", "wk", "wv", "wo"))
}
WEIGHTS |= {
    "w1": (drawn(64, 256, seed=5) / bfloat16(8)).astype(bfloat16),
    "w2": (drawn(256, 64, seed=6) / bfloat16(16)).astype(bfloat16),
}


def test_a_transformer_block_is_the_same_on_all_targets() -> None:
    """All results are rounded to bfloat16 where the model says so; a sum near the middle of two numbers may become either."""
    x = drawn(2, 48, 64)
    results = [np.asarray(session(ATTENTION, target, WEIGHTS).run(None, {"x": x})[0], np.float64) for target in HERE]
    for other in results[1:]:
        assert np.sqrt(np.mean((other - results[0]) ** 2)) < 0.01
    for target in FAST:
        threads = [session(ATTENTION, target, WEIGHTS, count).run(None, {"x": x})[0] for count in (1, 3)]
        assert threads[0].tobytes() == threads[1].tobytes()


@pytest.mark.parametrize("target", [name for name in FAST if parse_target(name).has_bfloat16_tiles])
def test_all_products_of_a_block_are_of_bfloat16(target: str) -> None:
    found = session(ATTENTION, target, WEIGHTS)
    assert kernels(found).count("bfloat16") == 8


@pytest.mark.parametrize("target", FAST)
def test_a_cast_that_products_and_others_read_is_made_for_the_others(target: str) -> None:
    x, w = drawn(40, 64), drawn(64, 32, seed=1)
    text = """(bfloat16[M,64] x) => (float[] s, float[] y) {
        f = Cast<to = 1>(x)  s = Softmax(f)  v = Cast<to = 1>(w)  y = MatMul(f, v) }"""
    found = session(text, target, {"w": w})
    s, y = found.run(None, {"x": x})
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    np.testing.assert_allclose(s, powers / powers.sum(1, keepdims=True), 1e-5)
    np.testing.assert_allclose(y, wide @ w.astype(np.float64), 1e-4, 1e-4)
    assert kernels(found)[-1] == "bfloat16"


@pytest.mark.parametrize("target", FAST)
def test_a_matrix_that_is_no_bfloat16_is_multiplied_as_float32(target: str) -> None:
    text = "(bfloat16[M,64] x, float[64,N] w) => (float[] y) { f = Cast<to = 1>(x)  y = MatMul(f, w) }"
    x, w = drawn(40, 64), drawn(64, 32, seed=1).astype(np.float32) * np.float32(1.001)
    found = session(text, target)
    assert found.explain(kernels=True).kernels["MatMul_0"].rejected["bfloat16"] == "its right operand is not bfloat16"
    np.testing.assert_allclose(found.run(None, {"x": x, "w": w})[0], x.astype(np.float64) @ w, 1e-4, 1e-4)
