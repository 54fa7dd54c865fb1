"""MatMul, Gemm and fused forms of constants whose numbers are float16: panels of 16 bits on CPUs that widen vectors, else float32."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.graph.released import DroppedConstant
from ort_lite.native.cpu import host, parse_target, runnable
from ort_lite_cpu.kernels.gemm.float16 import FLOAT16_LOADS
from ort_lite_cpu.operators import packed_matrix
from ort_lite_cpu.run.kernels import Kernels
from tests.session.prepared_sessions import found as found_program
from tests.session.prepared_sessions import store_in

NAMES = ("host", "x86-64", "x86-64-v3", "x86-64-v4")
HERE = [name for name in NAMES if name == "host" or parse_target(name).runs_on(host())]
HEADER = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> main'


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of any size are kept as float16."""
    monkeypatch.setattr(packed_matrix, "LEAST", 0)


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def session(
    text: str, constants: dict[str, Array], target: str = "host", threads: int = 1, keys: dict[str, str] | None = None
) -> ort_lite.InferenceSession:
    """Return a session for a graph as text."""
    model = onnx.parser.parse_model(f"{HEADER} {text}")
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    for key, value in (keys or {}).items():
        options.add_session_config_entry(key, value)
    return ort_lite.InferenceSession(
        model.SerializeToString(), options, providers=[("CPUExecutionProvider", {"target": target})]
    )


def keeps_float16(found: ort_lite.InferenceSession) -> bool:
    """Return True if a product of the session reads bits of float16."""
    return any("float16_gemm" in kernel for choice in found.explain(kernels=True).kernels.values() for kernel in choice.kernels)


def assert_rounded(got: Array, want: Array, most: Array) -> None:
    """Compare with float64, to within the rounding of float16, and what sums of float32 may differ by."""
    assert got.dtype == np.float16
    np.testing.assert_array_less(np.abs(got.astype(np.float64) - want), 2.0**-11 * np.abs(want) + 2.0**-18 * most + 2.0**-24)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("k", [2, 64, 777])
@pytest.mark.parametrize("n", [5, 64, 131])
def test_any_number_of_rows(n: int, k: int, target: str) -> None:
    w = drawn(k, n, seed=1)
    for threads in (1, 3):
        found = session(f"(float16[M,{k}] x) => (float16[M,{n}] y) {{ y = MatMul(x, w) }}", {"w": w}, target, threads)
        assert n == 5 or keeps_float16(found) == runnable(target).has(FLOAT16_LOADS)
        for rows in (0, 1, 2, 3, 8, 13, 70):
            x = drawn(rows, k, seed=rows)
            wide, other = x.astype(np.float64), w.astype(np.float64)
            assert_rounded(np.asarray(found.run(None, {"x": x})[0]), wide @ other, np.abs(wide) @ np.abs(other))


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_gemm_of_turned_operands(beta: float, turned: int, target: str) -> None:
    x, w, c = drawn(9, 64), drawn(64, 70, seed=1), drawn(70, seed=2)
    a, b = (np.ascontiguousarray(v.T) if turned else v for v in (x, w))
    node = f"y = Gemm<transA = {turned}, transB = {turned}, beta = {beta}>(a, b, c)"
    found = session(f"(float16[M,N] a) => (float16[] y) {{ {node} }}", {"b": b, "c": c}, target)
    wide, other, bias = (v.astype(np.float64) for v in (x, w, c))
    got = np.asarray(found.run(None, {"a": a})[0])
    assert_rounded(got, wide @ other + beta * bias, np.abs(wide) @ np.abs(other) + np.abs(bias))
    assert keeps_float16(found) == runnable(target).has(FLOAT16_LOADS)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("rows", [1, 40])
def test_fused_matmul(rows: int, alpha: float) -> None:
    """A matrix that is scaled becomes float32."""
    a, b = drawn(2, 64, rows), drawn(70, 64, seed=1)
    node = f"y = com.microsoft.FusedMatMul<transA = 1, transB = 1, alpha = {alpha}>(a, b)"
    found = session(f"(float16[B,K,M] a) => (float16[] y) {{ {node} }}", {"b": b})
    wide, other = a.astype(np.float64).swapaxes(1, 2), b.astype(np.float64).T
    assert_rounded(np.asarray(found.run(None, {"a": a})[0]), alpha * (wide @ other), np.abs(wide) @ np.abs(other))
    assert keeps_float16(found) == (alpha == 1.0 and runnable("host").has(FLOAT16_LOADS))


@pytest.mark.parametrize("number", [np.nan, np.inf, 65504.0, 6e-8])
@pytest.mark.parametrize("rows", [1, 40])
def test_special_numbers(rows: int, number: float) -> None:
    """A NaN of a matrix may have bits of its own: such a matrix becomes float32."""
    x, w = np.abs(drawn(rows, 64)) / np.float16(64), drawn(64, 300, seed=1)
    w[63, 299] = number
    found = session("(float16[M,64] x) => (float16[] y) { y = MatMul(x, w) }", {"w": w})
    assert keeps_float16(found) == (runnable("host").has(FLOAT16_LOADS) and not np.isnan(number))
    wide, other = x.astype(np.float64), w.astype(np.float64)
    got, want = np.asarray(found.run(None, {"x": x})[0]), wide @ other
    assert_rounded(got[:, :299], want[:, :299], np.abs(wide) @ np.abs(other[:, :299]))
    np.testing.assert_allclose(got[:, 299], want[:, 299].astype(np.float16), 2e-3, 1e-3)


def test_weights_of_float32_that_are_float16_are_given_up_and_have_their_bits() -> None:
    w = np.ascontiguousarray(drawn(520, 1040).T).astype(np.float32)
    made = session("(float[M,1040] x) => (float[] y) { y = MatMul(x, w) }", {"w": w})
    [partition] = made.explain().assignment.partitions
    [value] = [value for value in partition.constants if value.name == "w"]
    assert isinstance(value.constant, DroppedConstant)
    assert np.asarray(value.constant).tobytes() == w.tobytes()
    if keeps_float16(made):
        assert made.memory()["constants"] < w.nbytes * 0.6


def test_a_small_matrix_becomes_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not keeps_float16(session("(float16[M,64] x) => (float16[] y) { y = MatMul(x, w) }", {"w": drawn(64, 70)}))


def test_a_session_without_the_kernel_widens_the_weights() -> None:
    """Nothing may be compiled, and only the kernel of float32 is available."""
    x, w = drawn(3, 64), drawn(64, 70, seed=1)
    text = "(float16[M,64] x) => (float16[] y) { y = MatMul(x, w) }"
    with patch.object(packed_matrix, "is_float16", return_value=False):
        want = session(text, {"w": w}).run(None, {"x": x})[0]
    with patch.object(Kernels, "has_kernel", lambda self, spec: "float16_gemm" not in spec.name):
        found = session(text, {"w": w}, keys={"ort_lite.compile": "never"})
    assert not keeps_float16(found)
    np.testing.assert_array_equal(found.run(None, {"x": x})[0], want)


def test_a_prepared_session_packs_the_same_panels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_in(tmp_path, monkeypatch)
    x, w = drawn(3, 640), drawn(640, 700, seed=1)
    text, keys = (
        "(float16[M,640] x) => (float16[] y) { y = MatMul(x, w) }",
        {"ort_lite.prepared": "1", "ort_lite.creation_trace": "1"},
    )
    want = session(text, {"w": w}, keys=keys).run(None, {"x": x})[0]
    second = session(text, {"w": w}, keys=keys)
    assert found_program(second) == "yes"
    np.testing.assert_array_equal(second.run(None, {"x": x})[0], want)
