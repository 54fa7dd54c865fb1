"""Every formula against NumPy, special values included. How formulas are fused and broadcast: tests/cpu/test_fuse.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_lite import InferenceSession
from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import InvalidArgument, RuntimeException
from tests.cpu.check import check_op, ramp, run_op

Function = Callable[..., Any]

INF, NAN = np.inf, np.nan
FLOATS = np.array(
    [-INF, -1e30, -7.5, -2.5, -1, -0.5, -1e-30, -0.0, 0, 1e-30, 0.25, 0.5, 1, 1.5, 3.5, 80, 1e30, INF, NAN], np.float32
)
INTS = np.array([-128, -127, -3, -1, 0, 1, 2, 7, 100, 127], np.int8)


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


def test_shapes_of_any_rank_and_no_elements() -> None:
    for shape in ((), (1,), (0,), (2, 0, 3), (2, 3, 4, 5), (1, 1, 2, 1, 3, 1, 2)):
        check_op("Neg", ramp(shape), expected=np.negative)


ATTRIBUTES: list[tuple[str, dict[str, Any], Function]] = [
    ("LeakyRelu", {"alpha": 0.3}, lambda x, alpha: np.where(x >= 0, x, alpha * x)),
    ("Elu", {"alpha": 2.0}, lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(x))),
    ("Celu", {"alpha": 2.0}, lambda x, alpha: np.maximum(0, x) + np.minimum(0, alpha * np.expm1(x / alpha))),
    ("Selu", {"alpha": 1.5, "gamma": 2.0}, lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x))),
    ("HardSigmoid", {"alpha": 0.5, "beta": 0.25}, lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1)),
    ("ThresholdedRelu", {"alpha": 0.5}, lambda x, alpha: np.where(x > alpha, x, 0)),
    ("Shrink", {"lambd": 0.5, "bias": 0.25}, lambda x, lambd, bias: np.where(abs(x) > lambd, x - np.sign(x) * bias, 0)),
    ("Swish", {"alpha": 1.5}, lambda x, alpha: x * sigmoid(alpha * x)),
]


@pytest.mark.parametrize(("op", "attributes", "oracle"), ATTRIBUTES, ids=[case[0] for case in ATTRIBUTES])
def test_functions_with_attributes_match_numpy(op: str, attributes: dict[str, Any], oracle: Function) -> None:
    check_op(op, FLOATS[np.isfinite(FLOATS)], expected=wide(oracle), opset=24, **attributes)


def test_attributes_have_the_defaults_of_the_specification() -> None:
    for op, _, _ in ATTRIBUTES[:-1]:
        check_op(op, ramp((24,)))


@pytest.mark.parametrize(("op", "attributes"), [("LeakyRelu", {"alpha": 0.01}), ("HardSigmoid", {"alpha": 0.2, "beta": 0.5})])
def test_a_default_is_the_number_of_32_bits_that_a_model_would_store(op: str, attributes: dict[str, float]) -> None:
    x = ramp((9,)).astype(np.float64)
    stored = {name: float(np.float32(value)) for name, value in attributes.items()}
    assert np.array_equal(run_op(op, [x])[0], run_op(op, [x], stored)[0])


@pytest.mark.parametrize(("domain", "attributes"), [("", {}), ("", {"approximate": "tanh"}), ("com.microsoft", {})])
def test_gelu_is_exact_or_by_tanh(domain: str, attributes: dict[str, Any]) -> None:
    def oracle(x: Array, approximate: str = "none") -> Any:
        inner = np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)) if approximate == "tanh" else erf(x / 2**0.5)
        return x / 2 * (1 + inner)

    check_op("Gelu", ramp((40,), low=-6, high=6), expected=wide(oracle), opset=1 if domain else 20, domain=domain, **attributes)


def test_swiglu_is_a_swish_of_the_gate_times_the_value() -> None:
    gate, value = ramp((2, 9), low=-6, high=6), ramp((2, 9))
    check_op("SwiGLU", gate, value, opset=28, expected=wide(lambda a, b: a * sigmoid(a) * b))
    check_op("SwiGLU", gate, value, opset=28, alpha=0.5, expected=wide(lambda a, b, alpha: a * sigmoid(alpha * a) * b))


def test_quick_gelu() -> None:
    check_op("QuickGelu", ramp((9,)), expected=wide(lambda x: x * sigmoid(1.702 * x)), opset=1, domain="com.microsoft")


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


@pytest.mark.parametrize("op", ["Add", "Mul", "Max", "Less"])
@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_integers_wrap_and_compare_in_their_own_type(op: str, dtype: str) -> None:
    x = np.array([0, 1, 2, 100, 2**63, 2**64 - 1], np.uint64) if dtype == "uint64" else INTS
    check_op(op, x, x[::-1].copy(), expected=quiet({**BINARY, **COMPARE}[op]))


def test_integer_division_truncates() -> None:
    a, b = (grid.reshape(-1) for grid in np.meshgrid(INTS.astype(np.int64), np.array([-7, -2, 2, 3, 127])))
    check_op("Div", a, b, expected=np.trunc(a / b).astype(np.int64))


def test_the_smallest_integer_divided_by_minus_one_wraps() -> None:
    lowest = -(2**31)
    [got] = run_op("Div", [np.array([5, lowest], np.int32), np.array([1, -1], np.int32)])
    assert got.tolist() == [5, lowest]


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_integers_divided_by_zero_are_an_error_that_says_where(op_type: str) -> None:
    with pytest.raises(RuntimeException, match=f"{op_type} .*: element 1 of the divisor 'in1' is 0"):
        run_op(op_type, [np.array([5, 6], np.int32), np.array([2, 0], np.int32)])


def test_sizes_divided_by_a_size_of_zero_are_an_error() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[n] a, float[m] b) => (int64[1] y) {
        p = Shape(a) q = Shape(b) y = Div(p, q) }"""
    session = InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"])
    a = np.zeros(6, np.float32)
    assert session.run(None, {"a": a, "b": a[:2]})[0] == 3
    with pytest.raises(InvalidArgument, match=r"Div .*: an element of the divisor 'q' is 0"):
        session.run(None, {"a": a, "b": a[:0]})


def test_float_division_by_zero_is_infinite_or_nan() -> None:
    check_op("Div", FLOATS, FLOATS[::-1].copy(), expected=quiet(np.divide))


@pytest.mark.parametrize("fmod", [0, 1])
def test_mod_has_the_sign_of_the_divisor_or_with_fmod_of_the_dividend(fmod: int) -> None:
    function = np.fmod if fmod else np.mod
    a = np.array([[-7], [-6], [0], [5], [7]], np.int32)
    check_op("Mod", a, np.array([-4, -3, 3, 4], np.int32), fmod=fmod, expected=lambda x, y, fmod: function(x, y))


def test_mod_of_floats() -> None:
    check_op("Mod", ramp((9,)), ramp((9,), low=0.5), fmod=1, expected=lambda x, y, fmod: np.fmod(x, y))


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


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic(op: str) -> None:
    both = np.array([False, True])
    check_op(op, both[:, None], both, expected={"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}[op])


def test_not_and_equality_of_bools() -> None:
    x = ramp((5,), "bool")
    check_op("Not", x, expected=np.logical_not)
    check_op("Equal", x, np.array([True]), expected=np.equal)


@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits(op: str) -> None:
    function = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}[op]
    check_op(op, INTS, INTS[::-1].copy(), expected=function)


def test_bits_are_inverted() -> None:
    check_op("BitwiseNot", INTS, expected=np.invert)
    check_op("BitwiseNot", np.array([0, 1, 255], np.uint8), expected=np.invert)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_by_the_width_and_more_leave_nothing(direction: str) -> None:
    x, by = np.full(5, 0x81, np.uint8), np.array([0, 1, 7, 8, 200], np.uint8)
    exact = [0x81 << int(n) & 0xFF if direction == "LEFT" else 0x81 >> int(n) for n in by]
    check_op("BitShift", x, by, direction=direction, expected=np.array(exact, np.uint8))


def test_what_is_infinite_or_no_number() -> None:
    check_op("IsNaN", FLOATS, expected=np.isnan)
    check_op("IsInf", FLOATS, expected=np.isinf)
    check_op("IsInf", FLOATS, detect_negative=0, expected=lambda x, detect_negative: np.isposinf(x))
    check_op("IsInf", FLOATS, detect_positive=0, expected=lambda x, detect_positive: np.isneginf(x))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
def test_where_chooses_elements_of_any_type(dtype: str) -> None:
    check_op("Where", ramp((3, 4), "bool"), ramp((3, 4), dtype), ramp((4,), dtype), expected=np.where)


@pytest.mark.parametrize("op", ["Max", "Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_operands(op: str, count: int) -> None:
    inputs = [ramp((3, 4)), ramp((4,)), ramp((3, 1))][:count]
    check_op(op, *inputs)


def test_mod_of_floats_with_the_sign_of_the_divisor() -> None:
    x = np.array([-4.3, 7.2, 5.0, 4.3, -7.2, 8.0, 0.0, -0.0, -3.0, 3.0, np.inf, 1.0, np.nan], np.float32)
    y = np.array([2.1, -3.4, 8.0, -2.1, 3.4, 5.0, -2.0, 2.0, np.inf, -np.inf, 2.0, 0.0, 2.0], np.float32)
    with np.errstate(invalid="ignore"):
        wanted = np.mod(x, y)
    [got] = run_op("Mod", [x, y])
    assert np.array_equal(got, wanted, equal_nan=True) and np.array_equal(np.signbit(got)[:-3], np.signbit(wanted)[:-3])


def test_prelu_of_old_models_has_a_vector_of_slopes_for_axis_1() -> None:
    x, slope = ramp((2, 3, 4, 5)), ramp((3,))
    check_op("PRelu", x, slope, opset=6, expected=np.where(x >= 0, x, x * slope[:, None, None]))


def test_prelu_has_a_slope_a_channel() -> None:
    x, slope = ramp((2, 3, 4)), ramp((3, 1))
    check_op("PRelu", x, slope, constants=[1], expected=lambda x, slope: np.where(x >= 0, x, x * slope))


CLIPS = [(None, None), (-0.5, None), (None, 0.5), (-0.5, 0.5), (1.0, -1.0)]


@pytest.mark.parametrize(("low", "high"), CLIPS)
def test_clip_has_bounds_where_they_are_given(low: float | None, high: float | None) -> None:
    bounds = [None if bound is None else np.array(bound, np.float32) for bound in (low, high)]
    x = FLOATS[np.isfinite(FLOATS)]
    want = np.minimum(np.maximum(x, -INF if low is None else low), INF if high is None else high).astype("f")
    check_op("Clip", x, *bounds, expected=want, constants=[k for k in (1, 2) if bounds[k - 1] is not None])


def test_clip_had_attributes_before_opset_11() -> None:
    check_op("Clip", FLOATS[1:-2], min=-1.0, max=2.0, opset=6, expected=lambda x, min, max: np.minimum(np.maximum(x, min), max))


def test_clip_of_integers() -> None:
    check_op("Clip", INTS, np.array(-5, np.int8), np.array(50, np.int8), expected=np.clip)


def test_operands_stood_where_the_axis_said_before_opset_7() -> None:
    x, y = ramp((2, 3, 4)), ramp((3,))
    check_op("Add", x, y, broadcast=1, axis=1, opset=6, expected=lambda x, y, **_: x + y[:, None])
    check_op("Mul", x, ramp((3, 4)), broadcast=1, opset=6, expected=lambda x, y, **_: x * y)


def test_where_of_complex_numbers() -> None:
    condition, x, y = np.array([True, False]), np.array([1j, 2], np.complex64), np.array([3j], np.complex64)
    check_op("Where", condition, x, y)


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
        with pytest.raises(InvalidArgument, match="a bound of 0 elements, expected one"):
            run_op("Clip", [ramp(shape), np.zeros(0, np.float32)])


@pytest.mark.parametrize("op_type", ["Erf", "Tanh", "Sigmoid"])
def test_a_constant_of_one_element_becomes_a_half(op_type: str) -> None:
    """The constant is a scalar parameter, and the kernel has no loop: LLVM sees all conversions at once."""
    text = f"""<ir_version: 8, opset_import: ["" : 13]>
    main () => (float16[1] y) {{ x = Constant<value = float[1] {{-0.3}}>() z = {op_type} (x) y = Cast<to = 10> (z) }}"""
    [y] = InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"]).run(None, {})
    expected = {"Erf": -0.32862676, "Tanh": -0.29131261, "Sigmoid": 0.42555748}
    assert y.tolist() == [np.float16(expected[op_type])]
