"""Elementwise operators."""

import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import to_onnx
from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import Info, RankUnknown
from ort_lite.shapes import symbol
from tests.transforms.shapes.checking import check, constant, infer, integers, numbers, scalar, tensor, text

N, S = symbol("N"), symbol("S", signed=True)


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": lambda a, b: int(a / b),
    "Mod": operator.mod,
    "Max": max,
    "Min": min,
    "Sum": operator.add,
    "Equal": operator.eq,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
}


@pytest.mark.parametrize("op_type", FUNCTIONS)
@given(a=st.integers(-9, 9), b=st.integers(-9, 9).filter(bool))
@settings(max_examples=30)
def test_contents_are_computed(op_type: str, a: int, b: int) -> None:
    wanted = FUNCTIONS[op_type](a, b)
    check(op_type, integers(a, 3), integers(b), expected=[np.array([wanted, FUNCTIONS[op_type](3, b)])])


@pytest.mark.parametrize(("op_type", "wanted"), [("And", [0, 0, 1]), ("Or", [0, 1, 1]), ("Xor", [0, 1, 0])])
def test_logic_is_computed(op_type: str, wanted: list[int]) -> None:
    a, b = np.array([False, True, True]), np.array([False, False, True])
    check(op_type, a, b, expected=[np.array(wanted, bool)])
    assert text(infer("Not", numbers(0, 1, dtype="bool"))[0]) == "bool[2] = [1, 0]"


@pytest.mark.parametrize(("op_type", "wanted"), [("Abs", 7), ("Neg", 7), ("Relu", 0), ("Sign", -1)])
def test_functions_of_one_integer_are_computed(op_type: str, wanted: int) -> None:
    check(op_type, integers(-7), expected=[integers(wanted)])


def test_limits_are_applied_to_contents() -> None:
    check("Clip", integers(-5, 2, 9), np.array(0), np.array(4))
    check("Clip", integers(-5, 2, 9), None, np.array(4))


def test_division_by_zero_is_left_to_the_run() -> None:
    assert text(infer("Div", numbers(4), numbers(0))[0]) == "int64[1]"
    assert text(infer("Mod", numbers(4), numbers(0))[0]) == "int64[1]"


def test_fmod_takes_the_sign_of_the_dividend() -> None:
    check("Mod", integers(-7), integers(3), fmod=1)


def test_contents_that_do_not_fill_the_result_are_dropped() -> None:
    rows, columns = tensor("int64", 2, 1, contents=[1, 2]), tensor("int64", 1, 2, contents=[3, 4])
    assert text(infer("Add", rows, columns)[0]) == "int64[2, 2]"


def test_shapes_that_never_broadcast_are_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="dimensions 3 and 4 do not broadcast"):
        infer("Add", tensor("float32", "N", 3), tensor("float32", 4))


def test_before_opset_6_a_cast_names_its_type() -> None:
    assert text(infer("Cast", tensor("int64", "N"), version=1, to="FLOAT")[0]) == "float32[N]"


def test_a_constant_becomes_integers() -> None:
    halves = constant(np.array([2.5, -1.5], np.float32))
    assert text(infer("Cast", halves, to=to_onnx("int64"))[0]) == "int64[2] = [2, -1]"
    nothing = constant(np.array([np.nan], np.float32))
    assert text(infer("Cast", nothing, to=to_onnx("int64"))[0]) == "int64[1]"


def test_the_type_is_known_without_the_rank() -> None:
    from ort_lite.graph import TensorType

    (y,) = infer("Cast", Info(TensorType("int64")), to=to_onnx("float16"))
    assert text(y) == "float16[...]"
    with pytest.raises(RankUnknown):
        infer("Relu", Info(TensorType("float32")), strict=True)


def test_identity_hands_on_what_is_known() -> None:
    assert infer("Identity", scalar(S)) == [scalar(S)]
    assert text(infer("IsNaN", tensor("float32", "N"))[0]) == "bool[N]"
    assert text(infer("BitCast", tensor("float32", "N"), to=to_onnx("int32"), version=26)[0]) == "int32[N]"
