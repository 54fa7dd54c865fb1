"""TensorScatter."""

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op

Shape = tuple[int, ...]


@pytest.mark.parametrize(("shape", "axis"), [((3, 5), 1), ((2, 5, 3), -2), ((2, 2, 5), -1), ((2, 5, 2, 3), 1)], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_any_axis_but_the_first(shape: Shape, axis: int, rows: int) -> None:
    update = list(shape)
    update[axis] = rows
    check_op("TensorScatter", ramp(shape), ramp(update), opset=24, axis=axis)
    starts = np.arange(shape[0]) * 4
    check_op("TensorScatter", ramp(shape), ramp(update), starts, opset=24, axis=axis, mode="circular")


@pytest.mark.parametrize("starts", [(0, 5), (0, -1)], ids=str)
def test_rows_that_do_not_fit_fail(starts: tuple[int, int]) -> None:
    with pytest.raises(RuntimeException, match=f"the 2 rows of sample 1 do not fit a cache of 6 from row {starts[1]} on"):
        run_op("TensorScatter", [ramp((2, 6, 4)), ramp((2, 2, 4)), ints(*starts)], {}, opset=24)


@pytest.mark.parametrize(
    ("update", "more", "axis", "message"),
    [
        ((2, 7, 4), [], -2, "an update of 7 rows for a cache of 6"),
        ((2, 2, 3), [], -2, "the update does not fit the cache: 3 against 4"),
        ((2, 2, 4), [ints(0)], -2, "write_indices, .* is 1, but B is 2"),
        ((1, 6, 4), [ints(0, 0)], 0, "write_indices, .* is 2, but B is 1"),
        ((1, 6, 4), [ints(0, 0)], -3, "write_indices, .* is 2, but B is 1"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_are_named(update: Shape, more: list[Array], axis: int, message: str) -> None:
    with pytest.raises((InvalidArgument, NotSupported), match=message):
        run_op("TensorScatter", [ramp((2, 6, 4)), ramp(update), *more], {"axis": axis}, opset=24)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_starts_far_outside(mode: str) -> None:
    inputs = [ramp((1, 3, 2)), np.ones((1, 2, 2), np.float32), ints(2**63 - 1)]
    if mode == "linear":
        with pytest.raises(RuntimeException, match="do not fit a cache of 3"):
            run_op("TensorScatter", inputs, {}, opset=24)
    else:
        assert run_op("TensorScatter", inputs, {"mode": mode}, opset=24)[0].shape == (1, 3, 2)
