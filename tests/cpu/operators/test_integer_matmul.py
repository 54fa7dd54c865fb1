"""MatMulInteger, QLinearMatMul, and onnxruntime's QGemm, MatMulInteger16, MatMulIntegerToFloat and DynamicQuantizeMatMul."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

Shape = tuple[int, ...]
MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def number(value: float, dtype: str = "float32") -> Array:
    return np.array(value, dtype)


def scales_of(*shape: int) -> Array:
    return np.asarray(ramp(shape, low=0.01, high=0.1))


def full(shape: Shape, dtype: str, seed: int = 0) -> Array:
    """Of the type's whole range."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def narrow(shape: Shape, dtype: str) -> Array:
    """So small that the 16-bit sums in which onnxruntime computes on some machines do not saturate."""
    return np.asarray(full(shape, dtype, 1) // 2, dtype)


def product(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
    left = a.astype(np.int32) - (0 if a_zero is None else a_zero.astype(np.int32))
    right = b.astype(np.int32) - (0 if b_zero is None else b_zero.astype(np.int32))
    return np.asarray(left @ right)


# --- MatMulInteger
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 5), (5, 7)), ((1, 1), (1, 1)), ((40, 33), (33, 50)), ((7, 300), (300, 17)), ((2, 3, 4, 6), (6, 20)), ((5,), (5, 4)),
        ((2, 3, 4, 6), (2, 3, 6, 5)), ((2, 1, 4, 6), (3, 6, 5)), ((4, 5), (5,)), ((2, 3, 4), (1, 4, 3)), ((1, 3, 4), (5, 4, 3)),
        ((0, 3), (3, 4)), ((3, 0), (0, 4)), ((3, 4), (4, 0)), ((100, 3000), (3000, 5)),
    ],
    ids=str,
)  # fmt: skip
def test_products_are_exact(a: Shape, b: Shape) -> None:
    left, right = full(a, "uint8"), full(b, "int8")
    check_op("MatMulInteger", left, right, expected=product, constants=[1])
    check_op("MatMulInteger", left, right, np.array(200, np.uint8), np.array(-100, np.int8), expected=product, constants=[1, 3])


@pytest.mark.parametrize("b_type", ["uint8", "int8"])
@pytest.mark.parametrize("a_type", ["uint8", "int8"])
def test_zero_points_of_rows_and_columns(a_type: str, b_type: str) -> None:
    for a, b in (((6, 9), (9, 20)), ((2, 4, 9), (9, 20)), ((2, 4, 9), (2, 9, 20))):
        rows, columns = full((*a[:-1], 1), a_type, 2), full((*b[:-2], 1, b[-1]), b_type, 3)
        left, right = full(a, a_type), full(b, b_type)
        for zero in (rows, rows[:1, :1] if len(a) == 2 else None):
            for constants in ([], [1, 3]):
                check_op("MatMulInteger", left, right, zero, columns, expected=product, constants=constants)
    left, right, columns = full((6, 9), a_type), full((9, 20), b_type), full((20,), b_type)
    check_op("MatMulInteger", left, right, None, columns, expected=product, constants=[1, 3])


def test_the_largest_products_do_not_overflow() -> None:
    a, b = np.full((7, 64), 255, np.uint8), np.full((64, 18), -128, np.int8)
    check_op("MatMulInteger", a, b, np.array(0, np.uint8), np.array(127, np.int8), expected=product, constants=[1, 3])


# --- QLinearMatMul
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("constants", [[], [1, 2, 3, 4, 5, 6, 7]], ids=["computed", "constant"])
def test_qlinear_matmul(dtype: str, constants: list[int]) -> None:
    zero, result = np.array(3, dtype), [number(0.7), np.array(3, dtype)]
    for a, b in (((5, 9), (9, 7)), ((2, 5, 9), (2, 9, 7))):
        left, right = [full(a, dtype), number(0.03), zero], [full(b, dtype, 1), number(0.02), zero]
        check_op("QLinearMatMul", *left, *right, *result, constants=constants)
    left, right = (
        [full((5, 9), dtype), scales_of(5, 1), full((5, 1), dtype)],
        [full((9, 7), dtype), scales_of(7), full((7,), dtype)],
    )
    check_op("QLinearMatMul", *left, *right, *result, constants=constants)


@pytest.mark.parametrize("dtype", ["uint8", "float8_e4m3fn"])
def test_scales_of_rows_times_a_vector(dtype: str) -> None:
    """A product with a vector has no columns, along which nothing is scaled."""
    kind = to_numpy(dtype)
    a, b = (np.arange(1, 7).reshape(2, 3) % 4).astype(kind), np.array([1, 2, 3], kind)
    one, none = np.array(1, np.float32), np.array(0, kind)
    feeds = [a, np.array([1, 2], np.float32), np.zeros(2, kind), b, one, none, one, none]
    for constants in ([], [1, 2, 3, 4, 5, 6, 7]):
        [y] = run_op("QLinearMatMul", feeds, constants=constants)
        np.testing.assert_array_equal(y.astype(np.float32), (a.astype(np.float32) @ b.astype(np.float32)) * [1, 2])


# --- com.microsoft


@pytest.mark.parametrize("constants", [[], [1, 2, 3, 4, 5, 6, 7, 8]], ids=["computed", "constant"])
@pytest.mark.parametrize("bias", [None, (7,), (5, 7)], ids=str)
def test_q_gemm(bias: Shape | None, constants: list[int]) -> None:
    c = None if bias is None else full(bias, "int32") >> 20
    front, right = [number(0.03), number(10, "uint8")], [full((9, 7), "uint8"), number(0.02), number(1, "uint8")]
    inputs: list[Array | None] = [full((5, 9), "uint8"), *front, *right, c, number(0.5), number(3, "uint8")]
    expected = ort_op("QGemm", inputs, {"alpha": 1.5}, outputs=["uint8"], **MICROSOFT)
    check_op("QGemm", *inputs, expected=expected, alpha=1.5, constants=constants, **MICROSOFT)
    inputs = [full((9, 5), "uint8"), *front, full((7, 9), "uint8"), scales_of(7), np.zeros(7, np.uint8), c]
    expected = ort_op("QGemm", inputs, {"transA": 1, "transB": 1}, **MICROSOFT)
    check_op("QGemm", *inputs, expected=expected, transA=1, transB=1, constants=constants[:6], **MICROSOFT)


@pytest.mark.parametrize("constants", [[], [1, 2, 3, 4, 5, 6]], ids=["computed", "constant"])
@pytest.mark.parametrize("columns", [False, True], ids=["one scale", "scales of columns"])
def test_matmul_integer_to_float(columns: bool, constants: list[int]) -> None:
    scale, zero = (scales_of(7), full((7,), "uint8", 2)) if columns else (number(0.02), number(4, "uint8"))
    inputs = [full((3, 5, 9), "uint8"), narrow((9, 7), "uint8"), number(0.03), scale, number(10, "uint8"), zero, ramp((7,))]
    expected = ort_op("MatMulIntegerToFloat", inputs, {}, **MICROSOFT)
    check_op("MatMulIntegerToFloat", *inputs, expected=expected, constants=constants, **MICROSOFT)


@pytest.mark.parametrize("constants", [[], [1, 2, 3, 4]], ids=["computed", "constant"])
def test_dynamic_quantize_matmul(constants: list[int]) -> None:
    inputs = [ramp((3, 5, 9)), narrow((9, 7), "int8"), scales_of(7), np.zeros(7, np.int8), ramp((7,))]
    expected = ort_op("DynamicQuantizeMatMul", inputs, {}, **MICROSOFT)
    check_op("DynamicQuantizeMatMul", *inputs, expected=expected, constants=constants, rtol=1e-4, atol=1e-4, **MICROSOFT)


@pytest.mark.parametrize(
    ("a_type", "b_type", "y_type"),
    [
        ("float8_e4m3fn", "float8_e4m3fn", "float8_e4m3fn"),
        ("float8_e5m2", "int8", "uint8"),
        ("uint8", "float8_e4m3fnuz", "float8_e5m2"),
    ],
)
@pytest.mark.parametrize("constants", [(), (3,)])
def test_eight_bit_floats_are_multiplied_in_float32(a_type: str, b_type: str, y_type: str, constants: tuple[int, ...]) -> None:
    def made(shape: Shape, dtype: str) -> Array:
        return np.asarray(ramp(shape, low=1, high=6)).astype(to_numpy(dtype))

    a, b = made((2, 3, 5), a_type), made((5, 4), b_type)
    zeros = [
        np.ones((), to_numpy(dtype)) if "int" in dtype else np.zeros((), to_numpy(dtype)) for dtype in (a_type, b_type, y_type)
    ]
    scales = [np.array(scale, np.float32) for scale in (0.5, 0.25, 0.125)]
    left, right, away = (x.astype(np.float32) for x in (a - zeros[0], b - zeros[1], zeros[2]))
    total = left @ right * (scales[0] * scales[1] / scales[2])
    limits = np.iinfo(y_type) if "int" in y_type else None
    want = (np.rint(total) + away).clip(limits.min, limits.max) if limits else total
    inputs = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
    check_op("QLinearMatMul", *inputs, constants=constants, expected=want.astype(to_numpy(y_type)))


@pytest.mark.parametrize("constants", [(), (1, 3)], ids=["computed", "constant"])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("zero", "message"),
    [
        ((3,), "b_zero_point, .* is 3[,;] it should be 1 or 4"),
        ((5, 4), "zero points for 5 rows of the right matrix, expected 1"),
    ],
    ids=str,
)
def test_zero_points_that_fit_no_columns_are_refused(
    zero: Shape, message: str, fixed: bool, constants: tuple[int, ...]
) -> None:
    inputs = [full((3, 5), "uint8"), full((5, 4), "uint8"), number(1, "uint8"), full(zero, "uint8")]
    with pytest.raises(InvalidArgument, match=message):
        run_op("MatMulInteger", inputs, fixed=fixed, constants=constants)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([full((5, 4), "uint8"), full((1, 1, 3, 1), "uint8")], "a zero point of rank 4"),
        ([full((5, 4), "uint8"), None, full((1, 1, 4), "uint8")], "zero points of rank 3 for a matrix of rank 2"),
    ],
)
def test_zero_points_of_other_ranks_are_refused(others: list[Array | None], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("MatMulInteger", [full((3, 5), "uint8"), *others])


def test_matmul_integer_to_float_of_16_bits() -> None:
    """onnxruntime's CPU provider has none: the sum is one of float32, rounded once."""
    a, b = full((3, 5), "uint8"), full((5, 4), "int8")
    scales, bias = scales_of(4).astype(np.float16), ramp((4,), "float16")
    for addend in (None, bias):
        total = product(a, b) * (number(0.25) * scales.astype(np.float32))
        expected = total if addend is None else total + addend.astype(np.float32)
        inputs = [a, b, number(0.25, "float16"), scales, None, None, addend]
        check_op("MatMulIntegerToFloat", *inputs, expected=expected.astype(np.float16), rtol=1e-3, **MICROSOFT)


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((2, 1, 3, 5), (3, 5, 4)), ((5,), (5, 4)), ((3, 5), (5,)), ((3, 0), (0, 4))],
)
def test_products_of_16_bit_integers(a: Shape, b: Shape) -> None:
    """Sums wrap, as onnxruntime's do."""
    left, right = full(a, "int16"), full(b, "int16", 1)
    want = ort_op("MatMulInteger16", [left, right], {}, outputs=["int32"], **MICROSOFT)
    check_op("MatMulInteger16", left, right, expected=want, constants=(1,), **MICROSOFT)
    large = [np.full(shape, -32768, np.int16) for shape in (a, b)]
    check_op(
        "MatMulInteger16", *large, expected=ort_op("MatMulInteger16", large, {}, outputs=["int32"], **MICROSOFT), **MICROSOFT
    )
