"""TopK, OneHot, Trilu."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, op_program, ramp, run_op

Shape = tuple[int, ...]


def top(x: Array, k: Array, axis: int = -1, largest: int = 1, **_: Any) -> list[Array]:
    order = np.argsort(-x.astype(np.float64) if largest else x, axis, kind="stable")
    index = np.take(order, range(int(k[0])), axis).astype(np.int64)
    return [np.take_along_axis(x, index, axis), index]


@pytest.mark.parametrize(
    ("shape", "k", "axis"), [((3, 7), 3, -1), ((3, 4, 5), 4, 1), ((6,), 0, 0), ((5, 1), 1, 1), ((0, 3), 2, 1)], ids=str
)
@pytest.mark.parametrize("largest", [0, 1])
def test_the_k_largest_or_smallest(shape: Shape, k: int, axis: int, largest: int) -> None:
    check_op("TopK", ramp(shape), ints(k), axis=axis, largest=largest, outputs=2, constants=[1], expected=top)


@settings(max_examples=40)
@given(st.lists(st.integers(-3, 3), max_size=30), st.data())
def test_of_equal_ones_the_first_come_first(elements: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(elements)))
    check_op("TopK", np.array(elements, np.int32), ints(k), outputs=2, expected=top)


@pytest.mark.parametrize(("largest", "order"), [(1, [1, 3, 2, 4, 0]), (0, [0, 4, 2, 1, 3])])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_is_larger_than_any_number(dtype: str, largest: int, order: list[int]) -> None:
    x = np.array([-np.inf, np.nan, np.inf, np.nan, 2]).astype(dtype)
    for k in (3, 5):
        expected = [x[order[:k]], np.array(order[:k])]
        check_op("TopK", x, ints(k), largest=largest, outputs=2, constants=[1], expected=expected)


def test_k_was_an_attribute() -> None:
    check_op("TopK", ramp((2, 5)), k=2, opset=1, outputs=2, expected=top(ramp((2, 5)), ints(2)))


def test_more_than_there_are_is_refused() -> None:
    program = op_program("TopK", [ramp((2, 5)), ints(3)], outputs=2)
    with pytest.raises(InvalidArgument, match=r"TopK 'node' .*: k is 6, the axis has 5"):
        program([ramp((2, 5)), ints(6)])


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_one_hot(axis: int, dtype: str) -> None:
    def oracle(index: Array, depth: Array, values: Array, axis: int) -> Array:
        hot = np.expand_dims(index, axis) % depth == np.arange(int(depth)).reshape(-1, *(1,) * (index.ndim - axis % 3))
        inside = np.expand_dims((index >= -depth) & (index < depth), axis)
        return np.asarray(values[(hot & inside).astype(int)])

    index = np.array([[0, 3, -1], [-4, 4, 9]]).astype(dtype)
    check_op("OneHot", index, np.array(4), np.array([2, 5], np.float32), axis=axis, constants=[1], expected=oracle)


def test_one_hot_of_any_values_and_depth() -> None:
    index = np.array([1, 0])
    check_op("OneHot", index, np.array([2.0], np.float32), np.array([0, 1], bool), expected=np.eye(2, dtype=bool)[::-1])
    check_op("OneHot", index, ints(2), np.array([0, 1], np.float16), expected=np.eye(2, dtype=np.float16)[::-1])


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [0, 1, -2, 9])
def test_triangles(upper: int, k: int) -> None:
    function = np.triu if upper else np.tril
    check_op("Trilu", ramp((2, 3, 4)), np.array(k), upper=upper, constants=[1], expected=lambda x, k, upper: function(x, k))


def test_triangles_of_any_type() -> None:
    for dtype in ("bool", "int64"):
        check_op("Trilu", ramp((3, 3), dtype), expected=np.triu)


def test_there_are_two_values_off_and_on() -> None:
    with pytest.raises(InvalidArgument, match=r"OneHot 'node' .*there are 1 values, expected 2"):
        run_op("OneHot", [np.array([1, 0]), ints(3), np.ones(1, np.float32)], fixed=True, constants=[1])
    program = op_program("OneHot", [np.array([1, 0]), ints(3), ramp((5,))], constants=[1])
    with pytest.raises(InvalidArgument, match=r"OneHot 'node' .*there are 5 values, expected 2"):
        program([np.array([1, 0]), ramp((5,))])


def test_a_triangle_is_that_of_a_matrix() -> None:
    with pytest.raises(NotSupported, match="the input has rank 1, expected 2 or more"):
        run_op("Trilu", [ramp((3,))])
    with pytest.raises(NotSupported, match="k has 2 elements, expected 1"):
        run_op("Trilu", [ramp((3, 3)), ints(0, 1)])


@pytest.mark.parametrize("k", [-(2**63), 2**63 - 1])
def test_diagonals_far_outside(k: int) -> None:
    x = ramp((3, 3))
    check_op("Trilu", x, np.array(k), expected=x if k < 0 else np.zeros_like(x), constants=[1])
