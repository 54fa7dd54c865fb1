"""Reduce*, ArgMax and ArgMin, CumSum and CumProd."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.cpu.check import check_op, ints, op_program, ramp


@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"])
def test_axes_of_a_scalar_do_not_count(kind: str) -> None:
    """It has none; onnxruntime does not look at those that are named."""
    x = np.array(1.75, np.float32)
    expected = {"LogSum": np.log, "SumSquare": np.square}.get(kind, np.asarray)(x)
    for axes in ([-1], [1], [0, 0]):
        check_op(f"Reduce{kind}", x, ints(*axes), expected=expected)


NEUTRAL = {"ReduceSum": 0, "ReduceProd": 1, "ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceLogSumExp": -np.inf}


@pytest.mark.parametrize("op", NEUTRAL)
def test_over_nothing_is_the_neutral_element(op: str) -> None:
    x = np.zeros((2, 0, 3), np.float32)
    for axes, shape in ((ints(1), (2, 3)), (ints(1, 2), (2,)), (ints(0), (0, 3))):
        check_op(op, x, axes, constants=[1], keepdims=0, expected=np.full(shape, NEUTRAL[op], np.float32))


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_the_largest_of_nothing_is_the_lowest_integer(dtype: str) -> None:
    for op, expected in (("ReduceMax", np.iinfo(dtype).min), ("ReduceMin", np.iinfo(dtype).max)):
        check_op(op, np.zeros((0, 2), dtype), ints(0), keepdims=0, expected=np.full(2, expected, dtype))
        check_op(op, np.zeros((2, 0), dtype), ints(1), keepdims=0, expected=np.full(2, expected, dtype))


def test_the_mean_of_integers_is_truncated() -> None:
    check_op("ReduceMean", np.array([[1, 2, 2], [-1, -2, -2]], np.int64), ints(1), expected=np.array([[1], [-1]]))


@pytest.mark.parametrize(("op", "function"), [("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceSum", np.sum)])
def test_what_is_no_number_spreads_along_its_axis_alone(op: str, function: Callable[..., Array]) -> None:
    x = ramp((3, 70))
    x[1, 33], x[2, 1] = np.nan, -np.inf
    for axis in (0, 1):
        check_op(op, x, ints(axis), constants=[1], expected=function(x, axis=axis, keepdims=True))


def test_infinite_and_large_exponents() -> None:
    x = np.array([[1000, 999, -np.inf], [-np.inf, -np.inf, -np.inf], [np.inf, 0, 1]], np.float32)
    expected = np.array([1000 + np.log1p(np.exp(-1)), -np.inf, np.inf], np.float32)
    check_op("ReduceLogSumExp", x, ints(1), keepdims=0, expected=expected)


def test_long_sums_stay_precise() -> None:
    x = np.full((2, 1_000_003), 0.1, np.float32)
    wide = x.astype(np.float64)
    for op, exact in (("ReduceSum", wide.sum(1)), ("ReduceMean", wide.mean(1))):
        check_op(op, x, ints(1), constants=[1], keepdims=0, expected=exact.astype(np.float32), rtol=1e-6)


def test_axes_may_come_with_the_run() -> None:
    x = ramp((2, 3))
    program = op_program("ReduceSum", [x, ints(0)], {"keepdims": 0})
    for axis in (0, 1, -2):
        np.testing.assert_allclose(program([x, ints(axis)])[0], x.sum(axis), rtol=1e-6)


def test_what_is_no_number_is_extreme() -> None:
    x = np.array([[1, np.nan, 5, np.nan]], np.float32)
    check_op("ArgMax", x, axis=1, expected=np.array([[1]]))
    check_op("ArgMin", x, axis=1, expected=np.array([[1]]))
    check_op("ArgMax", x, axis=1, select_last_index=1, expected=np.array([[3]]))
    check_op("ArgMin", x, axis=1, select_last_index=1, expected=np.array([[3]]))


@pytest.mark.parametrize("pin", ["arg_rows", "arg_middle", "arg_extreme"])
@pytest.mark.parametrize(
    "shape", [(3, 70, 5), (2, 3, 2500), (2, 21, 300), (0, 4, 3), (70, 5, 1), (70, 4, 3), (3, 1, 2), (2, 33, 1)]
)
def test_every_candidate_locates_an_extreme(shape: tuple[int, ...], pin: str) -> None:
    floats = ramp(shape).round(1)
    floats[..., 1:][floats[..., 1:] < -0.9] = np.nan
    floats[..., :1][floats[..., :1] > 0.8] = np.inf
    whole = (np.nan_to_num(floats, posinf=9) * 3).astype(np.int32)
    for x in (floats, floats.astype(np.float64), *([] if pin == "arg_rows" else [whole])):
        for op, find in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
            for axis in (1, -1):
                rows = x.dtype.kind == "f" and (axis == -1 or 1 in shape[1:])
                if x.shape[axis] and not (pin == "arg_extreme" and rows):
                    backwards = x.shape[axis] - 1 - find(np.flip(x, axis), axis)
                    check_op(op, x, axis=axis, keepdims=0, expected=find(x, axis), pin=pin)
                    check_op(op, x, axis=axis, keepdims=0, select_last_index=1, expected=backwards, pin=pin)


def test_the_classes_of_an_image_are_compared_in_place() -> None:
    taken = [
        op_program("ArgMax", [ramp(shape)], {"axis": axis}, fixed=True).kernels()["node"].taken
        for shape, axis in (((1, 21, 64, 64), 1), ((100, 5), 1), ((100, 80), -1))
    ]
    assert taken == ["arg_middle", "arg_rows", "arg_rows"]


def test_nothing_has_no_extreme() -> None:
    program = op_program("ArgMax", [ramp((2, 3))], {"axis": 1})
    with pytest.raises(InvalidArgument, match=r"ArgMax 'node' .*: the axis has no elements"):
        program([np.zeros((2, 0), np.float32)])


@pytest.mark.parametrize("op", ["ArgMax", "ReduceLogSumExp", "ReduceL1", "ReduceSum"])
def test_a_scalar_has_one_axis_to_reduce(op: str) -> None:
    x, attributes = np.array(-3, np.float32), {"axis": 0} if op == "ArgMax" else {"axes": [0]}
    wanted = {"ArgMax": np.array(0), "ReduceL1": np.abs(x)}.get(op, x)
    check_op(op, x, opset=12, keepdims=0, expected=wanted, **attributes)


@pytest.mark.parametrize(
    ("axis", "message"),
    [(ints(2), "axis 2 is out of range"), (ints(-3), "axis -3 is out of range"), (ints(0, 1), "has 2 elements")],
    ids=str,
)
def test_an_axis_that_is_not_there_is_refused(axis: Array, message: str) -> None:
    for x in (ramp((3, 4)), ramp(())):
        with pytest.raises(InvalidArgument, match=f"CumSum 'node' .*{message}"):
            op_program("CumSum", [x, axis], constants=[1])


# --- Candidates
def choice(operator: str, shape: tuple[int, ...], *axes: int, dtype: str = "float32", fixed: bool = True) -> Any:
    """The choice among candidates of a reduction of some axes."""
    program = op_program(operator, [ramp(shape, dtype), ints(*axes)], fixed=fixed, constants=(1,))
    return program.kernels()["node"]


def test_rows_of_floats_are_summed_in_blocks() -> None:
    found = choice("ReduceMean", (128, 384), -1)
    assert found.taken == "reduce_rows" and {*found.costs} == {"reduce_rows", "reduce_middle"}
    assert found.rejected["fold_rows"] == "a sum of floats is added in blocks"
    assert choice("ReduceMax", (128, 384), -1).taken == choice("ReduceSum", (128, 384), -1, dtype="int32").taken == "fold_rows"
    assert choice("ReduceLogSumExp", (128, 384), 0).taken == "log_sum_exp_rows"


def test_a_middle_axis_is_moved_if_few_numbers_lie_behind_it() -> None:
    assert (
        choice("ReduceSum", (4, 49, 64), 1).taken == choice("ReduceSum", (4, 49, 64), 1, fixed=False).taken == "reduce_middle"
    )
    assert choice("ReduceSum", (4, 4900, 2), 1).taken == "reduce_rows"
    assert choice("ReduceMax", (4, 4900, 2), 1).taken == "fold_rows"


def test_axes_that_are_not_adjacent_are_moved() -> None:
    found = choice("ReduceSum", (4, 49, 64), 0, 2)
    assert found.taken == "reduce_rows" and {*found.costs} == {"reduce_rows"}
    assert found.rejected["reduce_middle"] == "another axis lies between those that are reduced"


@pytest.mark.parametrize("pin", ["reduce_middle", "reduce_rows"])
@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceL2", "ReduceLogSum"])
def test_every_candidate_computes_a_sum(operator: str, pin: str) -> None:
    for axes in (1, 2):
        check_op(operator, ramp((3, 70, 5), low=0.1), ints(axes), constants=(1,), rtol=1e-4, pin=pin)


@pytest.mark.parametrize("pin", ["reduce_middle", "fold_rows"])
def test_every_candidate_computes_an_extreme(pin: str) -> None:
    check_op("ReduceMin", ramp((3, 70, 5)), ints(1), constants=(1,), pin=pin)
    check_op("ReduceMin", ramp((3, 70, 5), "int32"), ints(1), constants=(1,), pin=pin)
