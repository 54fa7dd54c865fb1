"""Reduce*, ArgMax and ArgMin, CumSum and CumProd."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, op_program, ramp

Shape = tuple[int, ...]
Function = Callable[..., Any]


def log_sum_exp(x: Array, **how: Any) -> Any:
    top = np.where(np.isfinite(x), x, 0).max(initial=-1e9, **how | {"keepdims": True})
    with np.errstate(divide="ignore"):
        result = np.log(np.sum(np.exp(x - top), **how | {"keepdims": True})) + top
    return result if how.get("keepdims") else np.squeeze(result, how["axis"])


REDUCTIONS: dict[str, Function] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, **how: np.sum(abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "ReduceLogSumExp": log_sum_exp,
    "ReduceSumSquare": lambda x, **how: np.sum(x * x, **how),
}


def oracle(op: str, axes: Sequence[int] | None, keepdims: int) -> Function:
    def reduced(x: Array, *_: Any, **__: Any) -> Array:
        how = {"axis": None if axes is None else tuple(axes), "keepdims": bool(keepdims)}
        return np.asarray(REDUCTIONS[op](x.astype(np.float64) if x.dtype.kind == "f" else x, **how)).astype(x.dtype)

    return reduced


def check(op: str, x: Array, axes: Sequence[int] | None, keepdims: int = 1, **more: Any) -> None:
    named = [] if axes is None else [ints(*axes)]
    check_op(op, x, *named, keepdims=keepdims, constants=[1] * len(named), expected=oracle(op, axes, keepdims), **more)


@pytest.mark.parametrize("op", REDUCTIONS)
def test_over_any_axes(op: str) -> None:
    x = ramp((2, 3, 4, 5), low=0.1)
    for axes in ([1], [-1], [0, 2], [1, 2], [3, 1], [0, 1, 2, 3], None):
        check(op, x, axes, rtol=1e-4)
    check(op, x, [1, -1], keepdims=0, rtol=1e-4)


@pytest.mark.parametrize("op", REDUCTIONS)
def test_over_one_element_or_a_scalar(op: str) -> None:
    check(op, ramp((1, 1), low=0.5), [0])
    check_op(op, ramp((), low=0.5), keepdims=0, expected=oracle(op, None, 0))
    for axes in ([-1], [1], [0, 0]):  # a scalar has no axes; onnxruntime does not look at those that are named
        check_op(op, ramp((), low=0.5), ints(*axes), expected=oracle(op, None, 0)(ramp((), low=0.5)))


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"])
def test_over_nothing_is_the_neutral_element(op: str) -> None:
    neutral = {"ReduceSum": 0, "ReduceProd": 1, "ReduceMax": -np.inf, "ReduceMin": np.inf}[op]
    x = np.zeros((2, 0, 3), np.float32)
    check_op(op, x, ints(1), constants=[1], keepdims=0, expected=np.full((2, 3), neutral, np.float32))
    check_op(op, x, ints(1, 2), constants=[1], keepdims=0, expected=np.full(2, neutral, np.float32))
    check_op(op, x, ints(0), constants=[1], keepdims=0, expected=np.zeros((0, 3), np.float32))


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_the_largest_of_nothing_is_the_lowest_integer(dtype: str) -> None:
    for op, expected in (("ReduceMax", np.iinfo(dtype).min), ("ReduceMin", np.iinfo(dtype).max)):
        check_op(op, np.zeros((0, 2), dtype), ints(0), keepdims=0, expected=np.full(2, expected, dtype))
        check_op(op, np.zeros((2, 0), dtype), ints(1), keepdims=0, expected=np.full(2, expected, dtype))


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare"])
def test_of_integers(op: str) -> None:
    x = (ramp((3, 4), "int8") % 7 - 3).astype(np.int8 if op in ("ReduceMax", "ReduceMin") else np.int32)
    check(op, x, [0])
    check(op, x, [1])


def test_the_mean_of_integers_is_truncated() -> None:
    check_op("ReduceMean", np.array([[1, 2, 2], [-1, -2, -2]], np.int64), ints(1), expected=np.array([[1], [-1]]))


def test_extremes_of_bools_and_of_what_is_no_number() -> None:
    check("ReduceMax", ramp((3, 4), "bool"), [1])
    x = ramp((3, 70))
    x[1, 33], x[2, 1] = np.nan, -np.inf
    for op in ("ReduceMax", "ReduceMin", "ReduceSum"):
        check(op, x, [1])
        check(op, x, [0])


def test_infinite_and_large_exponents() -> None:
    x = np.array([[1000, 999, -np.inf], [-np.inf, -np.inf, -np.inf], [np.inf, 0, 1]], np.float32)
    expected = np.array([1000 + np.log1p(np.exp(-1)), -np.inf, np.inf], np.float32)
    check_op("ReduceLogSumExp", x, ints(1), keepdims=0, expected=expected)


def test_long_sums_stay_precise() -> None:
    x = np.full((2, 1_000_003), 0.1, np.float32)
    check("ReduceSum", x, [1], rtol=1e-6)
    check("ReduceMean", x, [1], rtol=1e-6)


def test_no_axes_may_mean_no_reduction() -> None:
    x = ramp((2, 3), low=0.5)
    for op in ("ReduceSum", "ReduceMax"):
        check_op(op, x, ints(), noop_with_empty_axes=1, constants=[1], expected=x)
    check_op("ReduceL2", -x, None, noop_with_empty_axes=1, expected=x)
    check_op("ReduceLogSum", x, None, noop_with_empty_axes=1, expected=np.log(x))


def test_axes_were_an_attribute() -> None:
    x = ramp((2, 3, 4))
    check_op("ReduceMean", x, axes=[-1, 0], opset=13, expected=x.mean((0, 2), keepdims=True))
    check_op("ReduceSum", x, axes=[1], keepdims=0, opset=11, expected=x.sum(1))


def test_axes_may_come_with_the_run() -> None:
    x = ramp((2, 3))
    program = op_program("ReduceSum", [x, ints(0)], {"keepdims": 0})
    for axis in (0, 1, -2):
        np.testing.assert_allclose(program([x, ints(axis)])[0], x.sum(axis), rtol=1e-6)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.data())
def test_any_sum_matches_numpy(shape: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    check("ReduceSum", ramp(shape), axes, data.draw(st.integers(0, 1)), atol=1e-4)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(("axis", "keepdims"), [(0, 1), (1, 0), (-1, 1)])
def test_positions_of_extremes(op: str, axis: int, keepdims: int) -> None:
    function = np.argmax if op == "ArgMax" else np.argmin
    x = ramp((3, 4, 5))
    check_op(op, x, axis=axis, keepdims=keepdims, expected=lambda x, axis, keepdims: function(x, axis, keepdims=bool(keepdims)))


def test_of_equal_extremes_the_first_or_the_last() -> None:
    x = np.array([[1, 3, 3, 0, 0]], np.int32)
    for op, first, last in (("ArgMax", 1, 2), ("ArgMin", 3, 4)):
        check_op(op, x, axis=1, expected=np.array([[first]]))
        check_op(op, x, axis=1, select_last_index=1, expected=np.array([[last]]))


def test_what_is_no_number_is_extreme() -> None:
    x = np.array([[1, np.nan, 5, np.nan]], np.float32)
    check_op("ArgMax", x, axis=1, expected=np.array([[1]]))
    check_op("ArgMin", x, axis=1, expected=np.array([[1]]))
    check_op("ArgMax", x, axis=1, select_last_index=1, expected=np.array([[3]]))
    check_op("ArgMin", x, axis=1, select_last_index=1, expected=np.array([[3]]))


def test_nothing_has_no_extreme() -> None:
    program = op_program("ArgMax", [ramp((2, 3))], {"axis": 1})
    with pytest.raises(InvalidArgument, match=r"ArgMax 'node' .*: the axis has no elements"):
        program([np.zeros((2, 0), np.float32)])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_running_sums(axis: int, exclusive: int, reverse: int) -> None:
    check_op("CumSum", ramp((3, 4, 5)), np.array(axis), exclusive=exclusive, reverse=reverse, constants=[1])


def test_running_sums_and_products_of_integers() -> None:
    x = np.full(3, 2**30, np.int32)
    check_op("CumSum", x, ints(0), expected=np.cumsum(x, dtype=np.int32))
    x = np.array([[1, 2, 3], [4, 5, 6]])
    check_op("CumProd", x, np.array(1), opset=26, expected=np.cumprod(x, 1))
    check_op("CumProd", x, np.array(1), opset=26, exclusive=1, expected=np.array([[1, 1, 2], [1, 4, 20]]))


@pytest.mark.parametrize("op", ["ArgMax", "ReduceLogSumExp", "ReduceL1", "ReduceSum"])
def test_a_scalar_has_one_axis_to_reduce(op: str) -> None:
    x, attributes = np.array(-3, np.float32), {"axis": 0} if op == "ArgMax" else {"axes": [0]}
    wanted = {"ArgMax": np.array(0), "ReduceL1": np.abs(x)}.get(op, x)
    check_op(op, x, opset=12, keepdims=0, expected=wanted, **attributes)


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (ints(2), "axis 2 is out of range"),
        (ints(-3), "axis -3 is out of range"),
        (ints(0, 1), "2 axes, expected one"),
    ],
    ids=str,
)
def test_an_axis_that_is_not_there_is_refused(axis: Array, message: str) -> None:
    for x in (ramp((3, 4)), ramp(())):
        with pytest.raises(NotSupported, match=f"CumSum 'node' .*{message}"):
            op_program("CumSum", [x, axis], constants=[1])


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceProd", "ReduceLogSumExp", "ReduceSum"])
def test_nothing_is_read_of_no_elements(op: str) -> None:
    wanted = {"ReduceMax": -np.inf, "ReduceProd": 1, "ReduceLogSumExp": -np.inf, "ReduceSum": 0}[op]
    check_op(op, np.zeros((3, 0), np.float32), opset=12, axes=[1], keepdims=0, expected=np.full(3, wanted, np.float32))
