"""Reading and writing at indices."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from tests.cpu.check import check_op, op_program, ramp, run_op, text_program

Shape = tuple[int, ...]


THERE = 99
"""Stands for the bad index."""
BAD: list[tuple[str, Shape, Any, tuple[int, ...], int]] = [
    ("Gather", (5, 4), [0, 4, THERE], (), 2),
    ("GatherElements", (5, 2), [[0, 4], [1, THERE]], (), 3),
    ("GatherND", (5, 2), [[0, 0], [THERE, 1]], (), 2),
    ("ScatterElements", (5,), [0, THERE], (2,), 1),
    ("ScatterND", (5,), [[0], [THERE]], (2,), 1),
]


@pytest.mark.parametrize("bad", [5, -6])
@pytest.mark.parametrize(("op", "shape", "index", "updates", "position"), BAD, ids=[case[0] for case in BAD])
def test_a_bad_index_names_its_value_its_position_and_the_range(
    op: str, shape: Shape, index: Any, updates: Shape, position: int, bad: int
) -> None:
    given = np.where(np.array(index) == THERE, bad, index)
    message = rf"^{op} 'node' \(CPUExecutionProvider\): index {bad} at position {position} of 'in1' is out of range \[-5, 5\)$"
    with pytest.raises(RuntimeException, match=message):
        run_op(op, [ramp(shape), given, *([ramp(updates)] if updates else [])])


def test_a_bad_index_names_the_range_of_its_own_axis() -> None:
    with pytest.raises(RuntimeException, match=r"index 2 at position 3 of 'in1' is out of range \[-2, 2\)"):
        run_op("GatherND", [ramp((5, 2)), np.array([[0, 0], [4, 2]])])
    with pytest.raises(RuntimeException, match=r"index -3 at position 1 of 'in1' is out of range \[-2, 2\)"):
        run_op("ScatterND", [ramp((5, 2)), np.array([[0, -3]]), ramp((1,))])
    with pytest.raises(RuntimeException, match=r"index 2 at position 0 of 'in1' is out of range \[-2, 2\)"):
        run_op("Gather", [ramp((5, 2)), np.array([2], np.int32)], {"axis": 1})


def test_a_bad_index_that_the_run_computes_is_named_too() -> None:
    text = "(float[5] x, int64[N] i) => (float[N] y) { one = Constant<value = int64 {1}>() [pick] j = Add(i, one) y = Gather(x, j) }"
    program = text_program(text)
    with pytest.raises(RuntimeException, match=r"index 6 at position 1 of 'j' is out of range \[-5, 5\)"):
        program([ramp((5,)), np.array([0, 5])])


def test_a_bad_index_fails_whichever_part_meets_it() -> None:
    program = op_program("Gather", [ramp((5, 4)), ramp((4, 5), "int64")], threads=3)
    index = np.zeros((4, 5), np.int64)
    index[3, 4] = index[2, 1] = 7
    with pytest.raises(RuntimeException, match="position 11 "):
        program([ramp((5, 4)), index])


ALONG: list[tuple[Shape, Shape, int]] = [
    ((2, 3, 4, 5), (1, 2, 9, 3), 2),
    ((2, 1, 2, 1, 2, 1, 3), (2, 1, 2, 1, 2, 1, 5), -1),
    ((2, 2, 1, 2, 1, 2, 3, 2), (2, 2, 1, 2, 1, 3, 3, 2), 5),
]


def indices(shape: Shape, n: int) -> Array:
    return np.asarray(ramp(shape, "int64") % (2 * n) - n)


@pytest.mark.parametrize(("shape", "index", "axis"), ALONG, ids=str)
def test_gather_elements(shape: Shape, index: Shape, axis: int) -> None:
    def oracle(x: Array, index: Array, axis: int) -> Array:
        inside = tuple(slice(x.shape[k] if k == axis % x.ndim else n) for k, n in enumerate(index.shape))
        return np.take_along_axis(x[inside], index, axis)

    check_op("GatherElements", ramp(shape), indices(index, shape[axis]), axis=axis, expected=oracle)


@pytest.mark.parametrize(("shape", "index", "axis"), ALONG, ids=str)
def test_scatter_elements_of_any_shape(shape: Shape, index: Shape, axis: int) -> None:
    def oracle(x: Array, index: Array, updates: Array, axis: int) -> Array:
        y = x.copy()
        for at in np.ndindex(*index.shape):
            y[*at[: axis % x.ndim], index[at], *at[axis % x.ndim + 1 :]] = updates[at]
        return y

    check_op("ScatterElements", ramp(shape), indices(index, shape[axis]), ramp(index), axis=axis, expected=oracle)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float16"])
def test_the_largest_of_what_is_scattered(dtype: str) -> None:
    check_op("ScatterElements", ramp((4,), dtype), np.array([1, 1, 0]), ramp((3,), dtype), reduction="max")


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_reductions_of_bools_and_complex_numbers(reduction: str) -> None:
    bools = np.array([True, False, True]), np.array([0, 1, 2, 2]), np.array([False, True, False, True])
    check_op("ScatterElements", *bools, reduction=reduction)
    x, updates = (np.arange(12) - 5j).reshape(4, 3), np.arange(6).reshape(2, 3) - np.array([9j, 0, 1j])
    check_op("ScatterElements", x, np.array([[0, 1, 1], [3, 0, 1]]), updates, axis=0, reduction=reduction)
    check_op("ScatterND", x.astype(np.complex64), np.array([[1], [1]]), updates.astype(np.complex64), reduction=reduction)


def test_gather_nd_of_many_axes() -> None:
    x = ramp((2,) * 8)
    index = np.indices((2,) * 8).reshape(8, -1).T[::3, :7].copy()
    check_op("GatherND", x, index, expected=lambda x, index: x[tuple(index.T)])


MISFITS: list[tuple[str, list[Shape], str]] = [
    ("GatherElements", [(2, 3), (3, 3)], "its indices have 3 elements along axis 0, the input 2"),
    ("ScatterElements", [(2, 3), (3, 3), (3, 3)], "its indices have 3 elements along axis 0, the input 2"),
    ("ScatterElements", [(2, 3), (2, 2), (2, 1)], "updates, .* is 1, but it is 2"),
    ("ScatterND", [(4, 3), (2, 1), (2, 4)], "shapes of indices, input and updates do not fit: 3 against 4"),
]


@pytest.mark.parametrize(("op", "shapes", "message"), MISFITS, ids=[str(case[:2]) for case in MISFITS])
def test_shapes_that_do_not_fit_are_refused(op: str, shapes: list[Shape], message: str) -> None:
    inputs = [np.zeros(shape, np.int64 if k == 1 else np.float32) for k, shape in enumerate(shapes)]
    axis = {} if op == "ScatterND" else {"axis": 1}
    with pytest.raises(InvalidArgument, match=f"{op} 'node' .*{message}"):
        run_op(op, inputs, axis)
    with pytest.raises(InvalidArgument, match=message):
        run_op(op, inputs, axis, fixed=True)
