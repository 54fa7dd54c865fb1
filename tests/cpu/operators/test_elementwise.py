"""Every formula against NumPy, special values included. How formulas are fused and broadcast: tests/cpu/test_fuse.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_lite import InferenceSession
from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import InvalidArgument
from tests.cpu.check import check_op, ramp, run_op

Function = Callable[..., Any]

INF, NAN = np.inf, np.nan
FLOATS = np.array(
    [-INF, -1e30, -7.5, -2.5, -1, -0.5, -1e-30, -0.0, 0, 1e-30, 0.25, 0.5, 1, 1.5, 3.5, 80, 1e30, INF, NAN], np.float32
)


def wide(function: Function) -> Function:
    """`function` computed in float64, rounded to the type of its first argument."""

    def oracle(*arrays: Array, **attributes: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(a.astype(np.float64) for a in arrays), **attributes)).astype(arrays[0].dtype)

    return oracle


def erf(x: Array) -> Any:
    from math import erf as one

    return np.vectorize(one, otypes=[np.float64])(x)


def sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


UNARY: dict[str, Function] = {
    "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Erf": erf, "Tanh": np.tanh, "Sigmoid": sigmoid,
    "Reciprocal": np.reciprocal, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Sin": np.sin, "Cos": np.cos,
    "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan, "Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh,
    "Acosh": np.arccosh, "Atanh": np.arctanh, "Softplus": softplus, "Softsign": lambda x: x / (1 + abs(x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "Mish": lambda x: x * np.tanh(softplus(x)),
    "Neg": np.negative, "Abs": np.abs, "Sign": np.sign, "Relu": lambda x: np.maximum(x, 0),
}  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_float_match_numpy(op: str) -> None:
    finite = FLOATS[np.isfinite(FLOATS)] if op in ("HardSwish", "Mish", "Softsign") else FLOATS  # 0 * inf there
    check_op(op, finite, expected=wide(UNARY[op]))


@pytest.mark.parametrize("op", ["Exp", "Log", "Tanh", "Sigmoid", "Erf"])
def test_functions_of_one_double_match_numpy_to_15_digits(op: str) -> None:
    check_op(op, FLOATS.astype(np.float64), expected=wide(UNARY[op]), rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize(("op", "attributes"), [("LeakyRelu", {"alpha": 0.01}), ("HardSigmoid", {"alpha": 0.2, "beta": 0.5})])
def test_a_default_is_the_number_of_32_bits_that_a_model_would_store(op: str, attributes: dict[str, float]) -> None:
    x = ramp((9,)).astype(np.float64)
    stored = {name: float(np.float32(value)) for name, value in attributes.items()}
    assert np.array_equal(run_op(op, [x])[0], run_op(op, [x], stored)[0])


# --- Two operands and more

BINARY: dict[str, Function] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}
COMPARE: dict[str, Function] = {
    "Equal": np.equal,
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}


def quiet(function: Function) -> Function:
    def oracle(*arrays: Array, **attributes: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arrays, **attributes)

    return oracle


@pytest.mark.parametrize("op", [*BINARY, *COMPARE])
def test_floats_meet_all_special_values(op: str) -> None:
    check_op(op, FLOATS[:, None], FLOATS[None, :], expected=quiet({**BINARY, **COMPARE}[op]))


def test_sizes_divided_by_a_size_of_zero_are_an_error() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[n] a, float[m] b) => (int64[1] y) {
        p = Shape(a) q = Shape(b) y = Div(p, q) }"""
    session = InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"])
    a = np.zeros(6, np.float32)
    assert session.run(None, {"a": a, "b": a[:2]})[0] == 3
    with pytest.raises(InvalidArgument, match=r"Div .*: an element of the divisor 'q' is 0"):
        session.run(None, {"a": a, "b": a[:0]})


@pytest.mark.parametrize("exponent", [2.0, 0.5, 3.0, 1.0, -1.0, 2.5])
def test_power_of_a_constant_exponent(exponent: float) -> None:
    check_op("Pow", ramp((7,), low=0.1), np.array(exponent, np.float32), constants=[1], expected=wide(np.power))


def test_power_has_the_type_of_its_base() -> None:
    check_op("Pow", ramp((6,), low=0.1), np.array([-2, -1, 0, 1, 2, 3]), expected=lambda x, y: np.power(x, y.astype("f")))
    base = np.array([-3, -1, 1, 2, 5, 0], np.int32)
    check_op("Pow", base, np.array([3, 4, 5, 6, 0, 2], np.int64), expected=lambda x, y: np.power(x, y.astype(np.int32)))
    check_op("Pow", base, np.array([3, 4, 5, 6, 0, 2], np.float16), expected=lambda x, y: np.power(x, y.astype(np.int32)))
    check_op("Pow", base[2:5], np.array([0.5, 3, 2], np.float32), expected=np.array([1, 8, 25], np.int32))


def test_a_negative_power_of_an_integer_is_truncated() -> None:
    check_op("Pow", np.array([1, -1, -1, 2], np.int64), np.array([-3, -3, -2, -1]), expected=np.array([1, -1, 1, 0]))


def test_mod_of_floats_with_the_sign_of_the_divisor() -> None:
    x = np.array([-4.3, 7.2, 5.0, 4.3, -7.2, 8.0, 0.0, -0.0, -3.0, 3.0, np.inf, 1.0, np.nan], np.float32)
    y = np.array([2.1, -3.4, 8.0, -2.1, 3.4, 5.0, -2.0, 2.0, np.inf, -np.inf, 2.0, 0.0, 2.0], np.float32)
    with np.errstate(invalid="ignore"):
        wanted = np.mod(x, y)
    [got] = run_op("Mod", [x, y])
    assert np.array_equal(got, wanted, equal_nan=True) and np.array_equal(np.signbit(got)[:-3], np.signbit(wanted)[:-3])


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_erf_of_integers_is_truncated(dtype: str) -> None:
    x = np.array([0, 1, 3, 4, 5, 100]).astype(dtype)
    check_op("Erf", np.concatenate([x, -x]) if dtype == "int8" else x, opset=12)


@pytest.mark.parametrize("attributes", [{}, {"lambd": 2.5, "bias": 1.5}, {"lambd": 1.0}], ids=str)
def test_shrink_of_integers(attributes: dict[str, float]) -> None:
    for dtype in ("int16", "uint8"):
        check_op("Shrink", np.array([0, 1, 2, 3, 90]).astype(dtype), **attributes)
    large = np.array([2**62 + 1, -(2**62) - 1])
    check_op("Shrink", large, expected=large)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_eight_bit_floats_may_be_infinite_or_no_number(dtype: str) -> None:
    x = np.arange(256, dtype=np.uint8).view(to_numpy(dtype))
    check_op("IsNaN", x, expected=np.isnan(x.astype(np.float32)))
    check_op("IsInf", x, detect_negative=0, expected=np.isposinf(x.astype(np.float32)))


def test_a_bound_of_no_elements_is_refused() -> None:
    """Also where there is nothing to clip: what is broadcast is read before the loop."""
    for shape in ((0,), (3,)):
        with pytest.raises(InvalidArgument, match=r"min, .*has 0 elements"):
            run_op("Clip", [ramp(shape), np.zeros(0, np.float32)])


@pytest.mark.parametrize("op_type", ["Erf", "Tanh", "Sigmoid"])
def test_a_constant_of_one_element_becomes_a_half(op_type: str) -> None:
    """The constant is a scalar parameter, and the kernel has no loop: LLVM sees all conversions at once."""
    text = f"""<ir_version: 8, opset_import: ["" : 13]>
    main () => (float16[1] y) {{ x = Constant<value = float[1] {{-0.3}}>() z = {op_type} (x) y = Cast<to = 10> (z) }}"""
    [y] = InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"]).run(None, {})
    expected = {"Erf": -0.32862676, "Tanh": -0.29131261, "Sigmoid": 0.42555748}
    assert y.tolist() == [np.float16(expected[op_type])]
