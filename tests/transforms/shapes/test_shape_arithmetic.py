"""Shape, Size, Range, ConstantOfShape, EyeLike, Constant."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import ContentsUnknown, NumbersUnknown
from ort_lite.shapes import symbol
from tests.transforms.shapes.checking import check, constant, infer, numbers, scalar, tensor, text, unknown

N = symbol("N")


def test_dims_become_contents() -> None:
    assert text(infer("Shape", tensor("float32", "N", 3))[0]) == "int64[2] = [N, 3]"
    assert text(infer("Size", tensor("float32", "N", 3))[0]) == "int64[] = [3*N]"


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-4, 4).filter(bool))
@settings(max_examples=80)
def test_a_range_has_as_many_elements_as_steps_fit(start: int, limit: int, delta: int) -> None:
    check("Range", np.array(start), np.array(limit), np.array(delta), expected=[np.arange(start, limit, delta)])


def test_a_range_up_to_a_dim_is_as_long_as_that() -> None:
    assert text(infer("Range", scalar(0), scalar(N), scalar(1))[0]) == "int64[N]"
    assert text(infer("Range", scalar(N), scalar(N + 3), scalar(1))[0]) == "int64[3] = [N, N + 1, N + 2]"


def test_a_range_of_floats_needs_constants() -> None:
    bounds = [constant(np.array(value, np.float32)) for value in (0, 1, 0.1)]
    assert text(infer("Range", *bounds)[0]) == "float32[10]"
    assert text(infer("Range", bounds[0], tensor("float32"), bounds[2])[0]) == "float32[y0#1]"
    with pytest.raises(NumbersUnknown):
        infer("Range", bounds[0], tensor("float32"), bounds[2], strict=True)


def test_an_unknown_bound_is_asked_for() -> None:
    assert text(infer("Range", scalar(0), unknown("int64"), scalar(1))[0]) == "int64[y0#1]"
    with pytest.raises(ContentsUnknown) as error:
        infer("Range", scalar(0), unknown("int64"), scalar(1), strict=True)
    assert error.value.index == 1


def test_a_range_without_steps_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="delta is 0"):
        infer("Range", scalar(0), scalar(1), scalar(0))


def test_a_filled_vector_has_contents() -> None:
    seven = np.array([7], np.int64)
    assert text(infer("ConstantOfShape", numbers(3), value=seven)[0]) == "int64[3] = [7, 7, 7]"
    assert text(infer("ConstantOfShape", tensor("int64", 1, contents=[N]), value=seven)[0]) == "int64[N]"
    assert text(infer("ConstantOfShape", numbers(100), value=seven)[0]) == "int64[100]"
    assert text(infer("ConstantOfShape", unknown("int64", 2), value=seven)[0]) == "int64[y0#1, y0#2]"


def test_a_negative_dim_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="negative"):
        infer("ConstantOfShape", numbers(2, -1))


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"value": np.array([[1, 2]], np.int32)}, "int32[1, 2] = [1, 2]"),
        ({"value_int": 3}, "int64[] = [3]"),
        ({"value_ints": [3, 4]}, "int64[2] = [3, 4]"),
        ({"value_float": 0.5}, "float32[]"),
        ({"value_floats": [0.5, 1.0]}, "float32[2]"),
        ({"value_string": "a"}, "string[]"),
        ({"value_strings": ["a", "b"]}, "string[2]"),
    ],
    ids=str,
)
def test_constants_are_what_their_attribute_says(attributes: dict[str, Any], wanted: str) -> None:
    (y,) = infer("Constant", **attributes)
    assert text(y) == wanted
    assert y.constant is not None


def test_a_constant_without_a_value_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="no value"):
        infer("Constant")
