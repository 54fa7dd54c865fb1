"""NonZero, Compress, Unique."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite_cpu.costs import kernel_family
from ort_lite_cpu.lowering.lowered import SLICES
from ort_lite_cpu.program.segment_run import SegmentRun
from tests.cpu.check import check_op, ints, op_program, ramp, run_op


def test_positions_of_what_is_not_zero() -> None:
    check_op("NonZero", np.array(3, np.int32), expected=np.array([[0]]))
    check_op("NonZero", np.array(["", "a"], object), expected=np.array([[1]]))


@pytest.mark.parametrize("share", [1, 2, 7, 40])
def test_positions_have_a_row_for_each_axis(share: int) -> None:
    """Next to each other, and with rows between them that have none."""
    x = (np.arange(6 * 5 * 9).reshape(6, 5, 9) % share == 0).astype(np.float32)
    check_op("NonZero", x, expected=np.array(np.nonzero(x)))


def test_elements_of_the_result_can_be_read_by_kernels() -> None:
    """What NumPy makes of another axis lies in another order in memory."""
    [got] = run_op("Compress", [ramp((4, 5)).T.copy(), np.array([True, False, True, True])], {"axis": 1})
    assert got.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "complex64", "complex128"])
def test_any_zero_is_zero(dtype: str) -> None:
    x = np.array([[0, 2, 0], [1, 0, 3]]).astype(dtype)
    x[0, 0] = -x[0, 0]
    check_op("NonZero", x, expected=np.array(np.nonzero(x)))
    if dtype.startswith("complex"):
        check_op("NonZero", x * 1j, expected=np.array(np.nonzero(x)))
    halves = np.array([-0.0, 1, 0], ml_dtypes.bfloat16)
    check_op("NonZero", halves, expected=np.array([[1]]))


def test_a_condition_that_is_too_long_is_refused() -> None:
    program = op_program("Compress", [ramp((3,)), np.ones(4, bool)])
    with pytest.raises(InvalidArgument, match="a condition for 4 of 3 entries"):
        program([ramp((3,)), np.ones(4, bool)])


@settings(max_examples=60)
@given(st.integers(0, 5), st.integers(1, 4), st.sampled_from([None, 0, 1]), st.booleans(), st.data())
def test_any_elements_and_slices(rows: int, columns: int, axis: int | None, ordered: bool, data: st.DataObject) -> None:
    elements = data.draw(st.lists(st.integers(-1, 1), min_size=rows * columns, max_size=rows * columns))
    x = np.array(elements, np.float32).reshape(rows, columns)
    attributes: dict[str, Any] = {"sorted": int(ordered)} if axis is None else {"sorted": int(ordered), "axis": axis}
    found, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    order = np.arange(len(first)) if ordered else np.argsort(first)
    want = [np.take(found, order, axis or 0), first[order], np.argsort(order)[inverse.reshape(-1)], counts[order]]
    outputs = data.draw(st.integers(1, 4))
    for got, wanted in zip(run_op("Unique", [x], attributes, outputs=outputs), want[:outputs], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_what_is_no_number_occurs_once_and_last() -> None:
    x = np.array([np.nan, 1, np.nan, -np.inf, np.inf], np.float32)
    check_op("Unique", x, outputs=4, expected=list(np.unique(x, True, True, True)))


def test_strings_have_an_order_too() -> None:
    x = np.array([["b", "a"], ["b", "a"], ["", "z"]], object)
    check_op("Unique", x, axis=0, outputs=3, expected=[x[[2, 0]], ints(2, 0), ints(1, 1, 0)])


def test_a_scalar_has_no_axis_to_compress() -> None:
    with pytest.raises(NotSupported, match="axis 0 of an input without axes"):
        run_op("Compress", [np.array(1.0), np.array([True])], {"axis": 0})


def test_positions_are_found_by_one_thread() -> None:
    program = op_program("NonZero", [np.ones(100, bool)], threads=3)
    program([np.ones(100, bool)])
    runs = [step for step in program.steps if isinstance(step, SegmentRun)]
    parts = {
        kernel_family(instruction.spec): row[2]
        for step in runs
        for instruction, row in zip(step.segment.instructions, [*step.cache.values()][-1].table.tolist(), strict=True)
    }
    assert (parts["positions"], parts["unravel"]) == (1, 3 * SLICES)
