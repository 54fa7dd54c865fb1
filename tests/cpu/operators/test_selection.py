"""TopK, OneHot, Trilu."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.cpu.check import check_op, ints, op_program, ramp, run_op


def top(x: Array, k: Array, axis: int = -1, largest: int = 1, **_: Any) -> list[Array]:
    order = np.argsort(-x.astype(np.float64) if largest else x, axis, kind="stable")
    index = np.take(order, range(int(k[0])), axis).astype(np.int64)
    return [np.take_along_axis(x, index, axis), index]


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


TYPES = ["float32", "float64", *(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64))]


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", TYPES)
def test_the_ends_of_each_type(dtype: str, largest: int) -> None:
    limits = np.finfo(dtype) if dtype.startswith("f") else np.iinfo(dtype)
    numbers = np.array([limits.min, limits.max, 0, 1, limits.max // 2, limits.min // 2], dtype)
    x = numbers[np.random.default_rng(0).integers(0, 6, (3, 39))]
    ranks = np.unique(x, return_inverse=True)[1].reshape(x.shape)  # float64 has not all numbers of 64 bits
    for k in (1, 7, 39):
        index = top(ranks, ints(k), largest=largest)[1]
        check_op("TopK", x, ints(k), largest=largest, outputs=2, expected=[np.take_along_axis(x, index, -1), index])


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 33, 100, 1000])
def test_rows_of_vectors_and_a_rest(n: int, largest: int) -> None:
    random = np.random.default_rng(n)
    x = random.choice(np.array([-0.0, 0.0, 1, -1, np.inf, -np.inf, 1e-39, *random.standard_normal(9)], np.float32), (2, n, 3))
    for k in {0, 1, min(5, n), n - 1, n}:
        for axis in (1, -2, 2):
            if k <= x.shape[axis]:
                check_op("TopK", x, ints(k), axis=axis, largest=largest, outputs=2, expected=top)
        check_op("TopK", x[..., 0], ints(k), largest=largest, outputs=2, expected=top)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_nan_among_many(share: float, largest: int) -> None:
    random = np.random.default_rng(1)
    x = np.where(random.random(200) < share, np.float32(np.nan), random.integers(0, 50, 200).astype(np.float32))
    order = np.lexsort((np.arange(200), -x if largest else x, ~np.isnan(x) if largest else np.isnan(x)))
    for k in (1, 30, 200):
        check_op("TopK", x, ints(k), largest=largest, outputs=2, expected=[x[order[:k]], order[:k]])


def test_there_are_two_values_off_and_on() -> None:
    with pytest.raises(InvalidArgument, match=r"values, .* is 1[,;] it should be 2"):
        run_op("OneHot", [np.array([1, 0]), ints(3), np.ones(1, np.float32)], fixed=True, constants=[1])
    program = op_program("OneHot", [np.array([1, 0]), ints(3), ramp((5,))], constants=[1])
    with pytest.raises(InvalidArgument, match=r"OneHot 'node' .*is 5, it should be 2"):
        program([np.array([1, 0]), ramp((5,))])


def test_a_triangle_is_that_of_a_matrix() -> None:
    with pytest.raises(InvalidArgument, match="has rank 1; it should have 2 or more"):
        run_op("Trilu", [ramp((3,))])
    with pytest.raises(InvalidArgument, match=r"k, .* has 2 elements"):
        run_op("Trilu", [ramp((3, 3)), ints(0, 1)])


@pytest.mark.parametrize("k", [-(2**63), 2**63 - 1])
def test_diagonals_far_outside(k: int) -> None:
    x = ramp((3, 3))
    check_op("Trilu", x, np.array(k), expected=x if k < 0 else np.zeros_like(x), constants=[1])
