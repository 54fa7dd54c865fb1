"""Products of matrices."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.cpu.check import ramp

A, B, C = ramp((2, 3)), ramp((3, 4)), ramp((2, 4))


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    **_: Any,
) -> Array:
    product = (a.T if transA else a) @ (b.T if transB else b)
    added = 0 if c is None else c.astype(product.dtype)
    if product.dtype.kind == "f":
        return np.asarray(np.float32(alpha) * product + np.float32(beta) * added).astype(a.dtype)
    return np.asarray(int(alpha) * product + int(beta) * added).astype(a.dtype)


_GEMM: dict[str, Any] = {"oracle": gemm, "types": ()}
GEMMS = [
    case("Gemm", A, B, C, oracle=gemm),
    case("Gemm", A, B, C[0], until=6, broadcast=1, **_GEMM),
    case("Gemm", A.T, B.T, C, alpha=0.5, beta=2.0, transA=1, transB=1, **_GEMM),
    case("Gemm", A, B, C[0], since=7, constants=(1, 2), **_GEMM),
    case("Gemm", A, B, C[:, :1], since=7, **_GEMM),
    case("Gemm", A, B, np.array(0.5, np.float32), since=7, beta=3.0, **_GEMM),
    case("Gemm", A, B, since=11, alpha=2.0, **_GEMM),
    case(
        "Gemm",
        A,
        B,
        np.array([1, 2, 3, 4], np.float32),
        since=9,
        alpha=2.0,
        beta=3.0,
        oracle=gemm,
        types=("int32", "int64", "uint32", "uint64"),
    ),
    case("Gemm", A[:0], B, C[:0], since=7, **_GEMM),
    case("Gemm", A[:, :0], B[:0], C, since=7, **_GEMM),
]

MATMULS = [
    case("MatMul", A, B),
    case("MatMul", A[0], B, types=()),
    case("MatMul", A, B[:, 0], types=()),
    case("MatMul", A[0], B[:, 0], types=()),
    case("MatMul", ramp((2, 1, 3, 4)), ramp((5, 4, 2)), types=()),
    case("MatMul", A, B, types=(), constants=(1,)),
    case("MatMul", A[:, :0], B[:0], types=()),
    case("MatMul", A[:0], B, types=()),
    case("MatMul", np.array([[2**31 - 1, 2]], np.int32), np.array([[3], [1]], np.int32), since=9, types=()),
    case("MatMul", np.array([[np.inf, 1.0]], np.float32), np.array([[0.0], [2.0]], np.float32), types=()),
]


def matmul_integer(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
    """Zero points are one for all, one a row of A or one a column of B."""
    wide_a, wide_b = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:
        wide_a = wide_a - a_zero.astype(np.int32).reshape(-1, 1)
    return np.asarray(wide_a @ (wide_b if b_zero is None else wide_b - b_zero.astype(np.int32)))


_QA, _QB = ramp((2, 3), "uint8"), ramp((3, 4), "int8")
INTEGERS = [
    case("MatMulInteger", _QA, _QB, oracle=matmul_integer),
    case("MatMulInteger", _QA, _QB, np.array(7, np.uint8), np.array(-3, np.int8), oracle=matmul_integer, constants=(1, 3)),
    case("MatMulInteger", _QA, _QB, np.array([7, 200], np.uint8), types=(), oracle=matmul_integer),
    case("MatMulInteger", _QA, _QB, None, np.array([1, -3, 0, 9], np.int8), types=(), oracle=matmul_integer),
    case("MatMulInteger", _QA, _QA.T, types=(), oracle=matmul_integer),
    case("MatMulInteger", _QB.T, _QB, types=(), oracle=matmul_integer),
    case("MatMulInteger", _QA[:, :0], _QB[:0], types=(), oracle=matmul_integer),
]

EINSUMS = [
    case("Einsum", A, B, equation="ij,jk->ik"),
    *(
        case("Einsum", *inputs, types=(), equation=equation)
        for equation, inputs in (
            ("ij->ji", [A]),
            ("ij->", [A]),
            ("ij,jk", [A, B]),
            ("...i,...i->...", [A, A]),
            ("ii->i", [ramp((3, 3))]),
            ("i,j->ij", [A[0], B[0]]),
            ("bij,bjk->bik", [ramp((2, 3, 2)), ramp((2, 2, 3))]),
            ("ij,jk,kl->il", [A, B, B.T]),
            ("ij->j", [A[:0]]),
        )
    ),
]

_WELL = ramp((3, 3)) + 3 * np.eye(3, dtype=np.float32)
DETERMINANTS = [
    case("Det", _WELL),
    case("Det", ramp((2, 3, 2, 2)), types=()),
    case("Det", np.ones((2, 2), np.float32), types=()),
    case("Det", np.zeros((0, 2, 2), np.float32), types=()),
]

CASES: tuple[Case, ...] = (*GEMMS, *MATMULS, *INTEGERS, *EINSUMS, *DETERMINANTS)
