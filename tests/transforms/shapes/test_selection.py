"""Where, TopK, ArgMax, OneHot; NonZero and others whose results are as many as the data says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import ContentsUnknown, NumbersUnknown
from ort_lite.shapes import symbol
from tests.transforms.shapes.checking import check, constant, floats, infer, integers, numbers, scalar, tensor, text, unknown

N = symbol("N")


def test_contents_are_chosen() -> None:
    condition = np.array([True, False, True])
    check("Where", condition, integers(1, 2, 3), integers(7), expected=[integers(1, 7, 3)])
    shape = tensor("int64", 2, contents=[N, -1])
    marks = infer("Equal", shape, numbers(-1))[0]
    assert text(infer("Where", marks, numbers(1), shape)[0]) == "int64[2] = [N, 1]"


def test_the_largest_k() -> None:
    check("TopK", floats(4, 5), integers(3), outputs=2, axis=0)
    x = tensor("float32", "N", 8)
    assert text(infer("TopK", x, unknown("int64", 1))[0]) == "float32[N, y0#1]"
    assert text(infer("TopK", x, version=1, k=3)[0]) == "float32[N, 3]"
    with pytest.raises(ContentsUnknown):
        infer("TopK", x, unknown("int64", 1), strict=True)
    with pytest.raises(ShapeInferenceError, match="k is 9, axis 1 has 8 elements"):
        infer("TopK", x, numbers(9))


def test_the_depth_may_be_a_float_that_is_constant() -> None:
    x, pair = tensor("int64", "N"), tensor("float32", 2)
    assert text(infer("OneHot", x, constant(np.array([5.7], np.float32)), pair)[0]) == "float32[N, 5]"
    assert text(infer("OneHot", x, unknown("int64", 1), pair)[0]) == "float32[N, y0#1]"
    with pytest.raises(NumbersUnknown):
        infer("OneHot", x, tensor("float32", 1), pair, strict=True)


def test_positions_that_are_not_zero() -> None:
    check("NonZero", floats(3, 4), data_dependent=True)
    assert text(infer("NonZero", numbers(1, 0, 3))[0]) == "int64[1, 2]"
    assert text(infer("NonZero", constant(floats(2, 2)))[0]) == "int64[2, 4]"
    assert text(infer("NonZero", tensor("float32", "N", "M"))[0]) == "int64[2, y0#1]"
    assert text(infer("NonZero", tensor("float32"))[0]) == "int64[1, y0#1]"


def test_distinct_values() -> None:
    check("Unique", integers(1, 2, 1, 3).reshape(2, 2), outputs=4, data_dependent=True)
    check("Unique", integers(1, 2, 1, 3).reshape(2, 2), outputs=4, axis=0, data_dependent=True)
    found = infer("Unique", tensor("int64", "N", 3), outputs=4, axis=0)
    assert [text(y) for y in found] == ["int64[y0#1, 3]", "int64[y0#1]", "int64[N]", "int64[y0#1]"]


def test_what_the_condition_keeps() -> None:
    keep = np.array([True, False, True])
    check("Compress", floats(3, 2), keep, axis=0, data_dependent=True)
    check("Compress", floats(3, 2), keep, data_dependent=True)
    assert text(infer("Compress", tensor("float32", 3, "N"), numbers(1, 0, 1, dtype="bool"), axis=0)[0]) == "float32[2, N]"
    assert text(infer("Compress", tensor("float32", 3, "N"), tensor("bool", 3), axis=0)[0]) == "float32[y0#1, N]"


@given(st.integers(0, 5), st.integers(-20, 20))
@settings(max_examples=20)
def test_a_condition_that_is_a_number_decides(condition: int, value: int) -> None:
    (y,) = infer("Where", scalar(min(condition, 1), "bool"), scalar(value), scalar(N))
    assert y.contents == ((value,) if condition else (N,))
