"""Slice, Split, Concat, Pad."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, op_program, ramp, run_op

Shape = tuple[int, ...]
FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def cut(x: Array, starts: Array, ends: Array, axes: Array, steps: Array) -> Array:
    parts = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes.tolist(), steps.tolist(), strict=True):
        n = x.shape[axis]
        parts[axis] = slice(max(start, -n) if step < 0 else start, None if step < 0 and end < -n else end, step)
    return x[tuple(parts)]


SLICES: list[tuple[Shape, list[int], list[int], list[int], list[int]]] = [
    ((5,), [1], [LAST], [0], [1]),
    ((5,), [-2], [LAST], [0], [1]),
    ((5,), [LAST], [FIRST], [0], [-1]),
    ((5,), [FIRST], [3], [0], [2]),
    ((3, 4), [2, 3], [9, FIRST], [0, 1], [2, -3]),
    ((1, 2, 1, 2, 1, 2, 3, 2), [1], [3], [6], [1]),
]


@pytest.mark.parametrize("case", SLICES, ids=str)
def test_slice(case: tuple[Shape, list[int], list[int], list[int], list[int]]) -> None:
    shape, *numbers = case
    check_op("Slice", ramp(shape), *(ints(*column) for column in numbers), constants=[1, 2, 3, 4], expected=cut)


def test_axes_may_come_with_the_run() -> None:
    program = op_program("Slice", [ramp((4, 5)), ints(1), ints(3), ints(0)])
    x = ramp((4, 5))
    for axis, expected in ((0, x[1:3]), (1, x[:, 1:3]), (-1, x[:, 1:3]), (0, x[1:3])):
        np.testing.assert_array_equal(program([x, ints(1), ints(3), ints(axis)])[0], expected)


def test_parts_make_up_the_whole() -> None:
    program = op_program("Split", [ramp((6, 4)), ints(2, 3)], {"axis": 0}, outputs=2, constants=[1])
    with pytest.raises(InvalidArgument, match=r"Split 'node' .*: its parts make up 5, the axis has 6"):
        program([ramp((6, 4))])


def test_concatenated_inputs_agree() -> None:
    program = op_program("Concat", [ramp((2, 3)), ramp((2, 4))], {"axis": 0})
    with pytest.raises(InvalidArgument, match=r"Concat 'node' .*: dimensions of its inputs differ: 4 against 3"):
        program([ramp((2, 3)), ramp((2, 4))])


@pytest.mark.parametrize("mode", ["edge", "wrap"])
def test_pad_continues_the_input_for_longer_than_it_is(mode: Any) -> None:
    check_op("Pad", ramp((3,)), ints(2, 7), mode=mode, constants=[1], expected=np.pad(ramp((3,)), (2, 7), mode))


@pytest.mark.parametrize(("pads", "want"), [([3, -1], [0, 1, 2, 0, 1, 2]), ([-2, 3], [2, 3, 2, 3, 2])], ids=str)
def test_what_a_cut_leaves_is_wrapped(pads: list[int], want: list[int]) -> None:
    check_op("Pad", np.arange(4), ints(*pads), mode="wrap", constants=[1], expected=np.array(want))


def test_nothing_cannot_be_continued() -> None:
    program = op_program("Pad", [ramp((2, 3)), ints(1, 0, 0, 1)], {"mode": "edge"}, constants=[1])
    with pytest.raises(InvalidArgument, match=r"Pad 'node' .*: axis 0 has no elements to continue"):
        program([np.zeros((0, 3), np.float32)])


@pytest.mark.parametrize(("size", "pads"), [(0, (-1, 1)), (0, (2, -2)), (2, (-3, 3)), (2, (-3, 5)), (2, (2, -3))], ids=str)
def test_what_is_cut_may_be_more_than_there_is(size: int, pads: tuple[int, int]) -> None:
    for shape, more in (((size,), pads), ((2, size), (0, pads[0], 0, pads[1]))):
        x = ramp(shape, low=1, high=2)
        before, after = max(pads[0], 0), max(pads[1], 0)
        wide = np.pad(x, [(0, 0)] * (len(shape) - 1) + [(before, after)])
        want = wide[..., max(-pads[0], 0) : wide.shape[-1] - max(-pads[1], 0)]
        check_op("Pad", x, ints(*more), constants=[1], expected=want)


@pytest.mark.parametrize("pads", [(-2, 0, -1, 0), (-2, -3, -1, -1)], ids=["one axis", "two, whose product is a size"])
def test_what_is_cut_to_less_than_nothing_is_refused(pads: tuple[int, ...]) -> None:
    program = op_program("Pad", [ramp((2, 3)), ints(*pads)])
    with pytest.raises(InvalidArgument, match=r"Pad 'node' .*: axis 0 would have -1 elements"):
        program([ramp((2, 3)), ints(*pads)])


@pytest.mark.parametrize("value", [ramp((2,)), ramp((0,))], ids=str)
def test_one_value_fills_what_is_added(value: Array) -> None:
    with pytest.raises(InvalidArgument, match=r"constant_value, .*has 2 elements|constant_value, .*has 0 elements"):
        run_op("Pad", [ramp((2,)), ints(1, 1), value], constants=[1], fixed=True)


def test_a_mode_that_does_not_exist_is_declined() -> None:
    with pytest.raises(NotSupported, match="mode 'mirror'; it should be constant, edge, reflect or wrap"):
        run_op("Pad", [ramp((2,)), ints(1, 1)], {"mode": "mirror"}, constants=[1])


@pytest.mark.parametrize("sizes", [(5, -1), (-1, 5)], ids=str)
def test_parts_are_not_negative(sizes: tuple[int, int]) -> None:
    program = op_program("Split", [ramp((4, 2)), ints(*sizes)], outputs=2, opset=18)
    with pytest.raises(InvalidArgument, match=r"split, .*has the element -1"):
        program([ramp((4, 2)), ints(*sizes)])


def test_parts_that_cannot_be_are_an_error_of_the_run() -> None:
    """As in onnxruntime. Exporters leave such nodes in branches that are never taken."""
    program = op_program("Split", [ramp((5,))], {"num_outputs": 4}, outputs=4, opset=18, fixed=True)
    with pytest.raises(InvalidArgument, match=r"Split 'node' .*: 5 elements cannot be cut into parts of 2, 2, 2, -1"):
        program([ramp((5,))])


def test_a_scalar_whose_contents_are_known_has_no_axis_to_cut() -> None:
    check_op("Slice", np.array(7), ints(), ints(), constants=[0, 1, 2], expected=np.array(7))


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("threads", [1, 3, 7])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [((2, 3, 500), (0, 0, 5, 0, 0, 3)), ((3, 40, 7), (0, 30, 2, 0, 1, 6)), ((5, 6), (4, 0, 0, 5)), ((1, 9), (0, 8, 0, 8))],
    ids=str,
)
def test_pad_copies_what_lies_inside(mode: Any, threads: int, shape: tuple[int, ...], pads: tuple[int, ...]) -> None:
    around = list(zip(pads[: len(shape)], pads[len(shape) :], strict=True))
    want = np.pad(ramp(shape), around, mode)
    check_op("Pad", ramp(shape), ints(*pads), mode=mode, constants=[1], expected=want, threads=threads)
