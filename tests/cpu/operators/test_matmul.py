"""MatMul, Gemm, and onnxruntime's FusedGemm, FusedMatMul and TransposeMatMul."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, NotImplemented, ShapeInferenceError
from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.run.loop import Job
from tests.cpu.check import assert_close, assert_same, check_op, op_program, ramp, rules, run_op

Shape = tuple[int, ...]
MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def product(a: Array, b: Array) -> Array:
    result: Array = np.matmul(a, b)
    return result


# --- MatMul
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((7, 13), (13, 33)), ((13,), (13, 33)), ((7, 13), (13,)), ((13,), (13,)), ((1, 1), (1, 1)), ((3, 7, 13), (13, 33)),
        ((2, 3, 7, 13), (2, 3, 13, 5)), ((2, 3, 7, 13), (3, 13, 5)), ((3, 7, 13), (2, 3, 13, 5)), ((2, 1, 7, 13), (3, 13, 5)),
        ((13,), (2, 13, 5)), ((2, 7, 13), (13,)), ((2, 1, 3, 1, 2, 5, 4), (1, 2, 1, 2, 2, 4, 3)), ((4, 1, 13), (4, 13, 9)),
        ((4, 2, 13), (4, 13, 9)), ((2, 450), (450, 17)), ((40, 800), (800, 9)),
    ],
    ids=str,
)  # fmt: skip
def test_matmul(a: Shape, b: Shape) -> None:
    check_op("MatMul", ramp(a), ramp(b), expected=product, constants=(1,), rtol=1e-4, atol=1e-4)


def test_threads_share_what_one_row_reads() -> None:
    """It is worth waking a thread for half of two megabytes, few though the products are."""
    x, w = np.zeros((1, 512), np.float32), np.zeros((512, 1000), np.float32)
    only = op_program("MatMul", [x, w], constants=(1,), fixed=True, threads=2)._only
    assert only is not None
    bound = only.bind((), [])
    assert bound.cost_us > Job.WORTH_WAKING_US
    assert bound.table[:, 2].max() > 1


def test_one_thread_and_three_give_the_same_bits_with_a_packed_operand() -> None:
    a, b = ramp((50, 30)), ramp((30, 40))
    results = [run_op("MatMul", [a, b], constants=(1,), threads=threads)[0] for threads in (1, 2, 3)]
    for result in results[1:]:
        assert_same(results[0], result, "threads change the result")


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 2, 3, 1), (1, 0, 2, 3), (3, 1, 0, 2)], ids=str)
@pytest.mark.parametrize("side", [0, 1])
def test_transposed_operands_are_read_where_they_lie(order: Shape, side: int) -> None:
    lying = ramp((2, 3, 4, 5))
    turned = lying.transpose(order)
    shape = list(turned.shape)
    other = ramp((*shape[:-2], 6, shape[-2])) if side else ramp((*shape[:-2], shape[-1], 6))
    x, o = Value("x", TensorType("float32", lying.shape)), Value("o", TensorType("float32", other.shape))
    t, y = Value("t", TensorType("float32", turned.shape)), Value("y")
    nodes = [Node("Transpose", [x], [t], {"perm": list(order)}, version=21)]
    nodes.append(Node("MatMul", [o, t] if side else [t, o], [y], version=21))
    y.type = TensorType("float32", np.matmul(other, turned).shape if side else np.matmul(turned, other).shape)
    program = Program(nodes, [(x, Info(x.type)), (o, Info(o.type))], [y], rules(), CPUOptions(), dict[Graph, Any]())
    want = np.matmul(other, turned) if side else np.matmul(turned, other)
    assert_close(program([lying, other])[0], want, 1e-5, 1e-5, f"Transpose {order}")


# --- Gemm
def general(a: Array, b: Array, c: Any = 0, alpha: float = 1, beta: float = 1, transA: int = 0, transB: int = 0) -> Array:
    result: Array = alpha * ((a.T if transA else a) @ (b.T if transB else b)) + beta * (0 if c is None else c)
    return result.astype(a.dtype)


@pytest.mark.parametrize("transA", [0, 1])
@pytest.mark.parametrize("transB", [0, 1])
@pytest.mark.parametrize(("m", "k", "n"), [(5, 7, 9), (5, 1, 9), (5, 7, 1), (1, 7, 9), (2, 70, 40)])
def test_gemm_of_transposed_operands(m: int, k: int, n: int, transA: int, transB: int) -> None:
    a, b = ramp((k, m) if transA else (m, k)), ramp((n, k) if transB else (k, n))
    how: dict[str, Any] = {"expected": general, "rtol": 1e-4, "atol": 1e-4, "transA": transA, "transB": transB}
    check_op("Gemm", a, b, constants=(1,), **how)
    check_op("Gemm", a, b, ramp((n,)), constants=(1, 2), beta=0.5, **how)


# --- com.microsoft
@pytest.mark.parametrize(
    ("name", "attributes", "oracle"),
    [
        ("Relu", {}, lambda x: np.maximum(x, 0)),
        ("LeakyRelu", {"activation_alpha": 0.1}, lambda x: np.where(x < 0, np.float32(0.1) * x, x)),
        ("Sigmoid", {}, lambda x: 1 / (1 + np.exp(-x))),
        ("Tanh", {}, np.tanh),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}, lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    ],
)
def test_fused_gemm(name: str, attributes: dict[str, Any], oracle: Any) -> None:
    a, b, c = ramp((5, 7)), ramp((7, 40)), ramp((40,))
    want = oracle(general(a, b, c)).astype(np.float32)
    check_op("FusedGemm", a, b, c, expected=want, constants=(1, 2), atol=1e-5, activation=name, **attributes, **MICROSOFT)


def test_an_activation_that_is_not_there_is_an_error() -> None:
    with pytest.raises(NotImplemented, match="activation 'Softmax'"):
        op_program("FusedGemm", [ramp((5, 7)), ramp((7, 4))], {"activation": "Softmax"}, **MICROSOFT)


@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fused_matmul_of_a_vector(dtype: str, trans: int) -> None:
    vector, left, right = ramp((7,), dtype), ramp((3, 5, 7), dtype), ramp((3, 7, 9), dtype)
    check_op("FusedMatMul", vector, right, expected=vector @ right, constants=(1,), atol=1e-5, transA=trans, **MICROSOFT)
    check_op("FusedMatMul", left, vector, expected=left @ vector, constants=(1,), atol=1e-5, transB=trans, **MICROSOFT)


@pytest.mark.parametrize(("transA", "transB"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("batch", [0, 1])
def test_fused_matmul(transA: int, transB: int, batch: int) -> None:
    a, b = ramp((2, 3, 7, 5) if transA else (2, 3, 5, 7)), ramp((2, 3, 9, 7) if transB else (2, 3, 7, 9))
    given = [np.ascontiguousarray(np.moveaxis(x, 2, 0)) for x in (a, b)] if batch else [a, b]
    want = np.float32(0.25) * ((a.swapaxes(2, 3) if transA else a) @ (b.swapaxes(2, 3) if transB else b))
    attributes = {"alpha": 0.25, "transA": transA, "transB": transB, "transBatchA": batch, "transBatchB": batch}
    check_op("FusedMatMul", *given, expected=want, constants=(1,), atol=1e-5, **attributes, **MICROSOFT)
    if not batch:
        attributes = {"alpha": 0.25, "transA": transA, "transB": transB}
        check_op("TransposeMatMul", *given, expected=want, constants=(1,), atol=1e-5, **attributes, **MICROSOFT)


# --- Candidates
PINNED = ("gemm", "matmul-panels", "matmul-dots", "matmul-rows")


@pytest.mark.parametrize("pin", PINNED)
@pytest.mark.parametrize("m", [1, 9])
def test_every_candidate_computes_a_product(m: int, pin: str) -> None:
    how: dict[str, Any] = {"constants": (1,), "rtol": 1e-4, "atol": 1e-4, "pin": pin}
    check_op("MatMul", ramp((2, m, 13)), ramp((13, 70)), expected=product, **how)
    if pin != "matmul-rows":
        check_op("Gemm", ramp((m, 13)), ramp((7, 13)), ramp((m, 7)), expected=general, alpha=0.5, transB=1, **how)


@pytest.mark.parametrize(("pin", "shape"), [("matmul-rows", (9, 13)), ("matmul-dots", (9, 1)), ("matmul-panels", (9, 1))])
def test_candidates_compute_what_the_run_brings(pin: str, shape: Shape) -> None:
    a, b = ramp((2, 3, 7, 9)), ramp((3, *shape))
    assert_close(run_op("MatMul", [a, b], pin=pin)[0], np.matmul(a, b), 1e-4, 1e-4, pin)


def choice(a: Shape, b: Shape, fixed: bool = True, constant: bool = False, **attributes: Any) -> Any:
    """The choice among candidates of MatMul, of Gemm if there are attributes."""
    constants = (1,) if constant else ()
    operator = "Gemm" if attributes else "MatMul"
    program = op_program(operator, [ramp(a), ramp(b)], attributes, fixed=fixed, constants=constants)
    return program.kernels()["node"]


def test_a_constant_matrix_is_packed_before_the_run() -> None:
    found = choice((8, 384), (384, 384), constant=True)
    assert found.taken == "gemm" and {*found.costs} == {*PINNED}
    assert found.rejected == {"matmul-either": "its number of rows is known"}


def test_a_column_is_multiplied_in_place() -> None:
    for constant in (False, True):
        assert choice((500, 300), (300, 1), constant=constant).taken == "matmul-dots"
    assert choice((1, 300), (2, 300), constant=True, transB=1).taken == "matmul-dots"


def test_matrices_that_are_computed_are_packed_for_many_rows() -> None:
    assert choice((100, 64), (64, 100)).taken == "matmul-panels"
    assert choice((1, 64), (64, 500)).taken == "matmul-rows"
    assert choice((1, 64), (500, 64), transB=1).taken == "matmul-dots"
    found = choice((3, 100, 64), (3, 64, 100))
    assert found.taken == "matmul-panels" and found.rejected["gemm"] == "its right operand is no constant matrix"
    assert found.rejected["matmul-dots"] == "the elements of a column of its right operand are not adjacent"


def test_the_run_decides_for_an_open_number_of_rows() -> None:
    found = choice((4, 64), (64, 500), fixed=False)
    assert found.taken == "matmul-either" and {*found.costs} == {"matmul-panels", "matmul-rows", "matmul-either"}
    assert choice((4, 64), (64, 500), fixed=False, constant=True).taken == "gemm"


@pytest.mark.parametrize("shape", [(0, 5, 4), (3, 0, 4), (3, 5, 0), (0, 0, 0)], ids=str)
def test_an_empty_product_has_candidates(shape: Shape) -> None:
    m, k, n = shape
    for constant in (False, True):
        costs = choice((m, k), (k, n), constant=constant).costs
        assert ("gemm" in costs) == (constant and k * n > 0) and "matmul-panels" in costs


# --- Errors
def test_inner_dimensions_that_differ_are_an_error() -> None:
    with pytest.raises(ShapeInferenceError):
        run_op("MatMul", [ramp((2, 3)), ramp((4, 5))], fixed=True)
    with pytest.raises(InvalidArgument, match=r"B, .* is 4, but K is 3"):
        run_op("MatMul", [ramp((2, 3)), ramp((4, 5))])


def test_a_bias_that_does_not_broadcast_is_named_by_its_sizes() -> None:
    message = "C, .* is 4[,;] it should broadcast to 5"
    with pytest.raises(InvalidArgument, match=message):
        run_op("Gemm", [ramp((2, 3)), ramp((3, 5)), ramp((4,))])


@pytest.mark.parametrize("attributes", [{}, {"transA": 1}, {"alpha": 0.5, "beta": 1.5}, {"transB": 1, "beta": 0.0}], ids=str)
def test_gemm_of_integers(attributes: dict[str, Any]) -> None:
    for dtype, c in (("int32", (4,)), ("uint64", (3, 1))):
        a, b = ramp((3, 5), dtype), ramp((5, 4), dtype)
        a, b = a.T.copy() if "transA" in attributes else a, b.T.copy() if "transB" in attributes else b
        check_op("Gemm", a, b, ramp(c, dtype), **attributes)
        check_op("Gemm", a, b, **attributes)
