"""MaxUnpool, Col2Im and CenterCropPad."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError, RuntimeException
from tests.cpu.check import check_op, ints, ramp, run_op

Shape = tuple[int, ...]


@pytest.mark.parametrize(
    ("shape", "window", "strides", "pads"),
    [
        ((2, 2, 6), [2], [2], [0, 0]),
        ((2, 3, 6, 8), [2, 2], [2, 2], [0] * 4),
        ((1, 2, 5, 5), [3, 3], [2, 2], [1] * 4),
        ((1, 2, 4, 4, 6), [2] * 3, [2] * 3, [0] * 6),
    ],
    ids=str,
)
def test_max_unpool_puts_maxima_back(shape: tuple[int, ...], window: list[int], strides: list[int], pads: list[int]) -> None:
    x = ramp(shape)
    attributes: dict[str, Any] = {"kernel_shape": window, "strides": strides, "pads": pads}
    y, index = run_op("MaxPool", [x], attributes, outputs=2)
    wanted = np.zeros(x.size, np.float32)
    wanted[index.reshape(-1)] = y.reshape(-1)
    check_op("MaxUnpool", y, index, **attributes, expected=wanted.reshape(shape))


def test_an_index_outside_is_named() -> None:
    x, index = np.ones((1, 1, 2), np.float32), np.array([[[0, 4]]], np.int64)
    with pytest.raises(RuntimeException, match=r"MaxUnpool 'node' .*index 4 at position 1 of 'in1' is out of range \[0, 4\)"):
        run_op("MaxUnpool", [x, index], {"kernel_shape": [2], "strides": [2]})


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool"])
def test_columns_of_integers_and_bools(dtype: str) -> None:
    x = ramp((1, 4, 6), dtype)
    [wide] = run_op("Col2Im", [x.astype(np.float64), ints(3, 4), ints(2, 2)], {})
    want = wide != 0 if dtype == "bool" else wide.astype(np.int64).astype(dtype)
    check_op("Col2Im", x, ints(3, 4), ints(2, 2), constants=[1, 2], expected=want)


@pytest.mark.parametrize("pads", [[3, 0], [2, 2], [1, 1]], ids=str)
def test_indices_that_count_in_nothing_are_refused(pads: list[int]) -> None:
    """A given output_shape hides that kernel, strides and pads make no axis."""
    x, index = np.ones((1, 1, 2), np.float32), np.array([[[0, -(2**63)]]], np.int64)
    with pytest.raises(InvalidArgument, match=r"MaxUnpool 'node' .*indices cannot count in an axis of .* elements"):
        run_op("MaxUnpool", [x, index, ints(1, 1, 8)], {"kernel_shape": [1], "strides": [1], "pads": pads}, constants=[2])


@pytest.mark.parametrize(
    ("index", "shape", "message"),
    [
        (np.zeros((2, 1, 1), np.int64), ints(2, 1, 8), "I, .* is 1, but it is 2"),
        (np.zeros((2, 1, 2), np.int64), ints(1, 1, 8), "rank, batch and channels of input and output differ: 1 against 2"),
        (np.zeros((2, 1, 2), np.int64), ints(2, 1, 4, 2), "output_shape, .* is 4, but rank is 3"),
    ],
    ids=str,
)
def test_unpooled_shapes_that_do_not_fit_are_refused(index: Array, shape: Array, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"MaxUnpool 'node' .*{message}"):
        run_op("MaxUnpool", [ramp((2, 1, 2)), index, shape], {"kernel_shape": [2], "strides": [2]}, constants=[2], fixed=True)


@pytest.mark.parametrize(
    ("x", "image", "block", "attributes", "message"),
    [
        ((1, 4, 9), (5, 5), (2, 2), {}, "number of blocks.* 16 against 9"),
        ((1, 5, 9), (5, 5), (3, 3), {}, "no multiple of the block"),
        ((1, 9, 9), (5, 5), (3, 0), {}, "block_shape, .*has the element 0"),
        ((1, 9, 9), (5, 5), (-3, -3), {}, "block_shape, .*has the element -3"),
        ((1, 9, 9), (-5, -5), (1, 1), {}, "image_shape, .*has the element -5"),
        ((1, 9, 9), (5, 5), (3, 3), {"strides": [0, 1]}, "strides"),
        ((1, 9, 9), (5, 5), (3, 3), {"dilations": [1, -1]}, "dilations"),
        ((1, 1, 9, 9), (5, 5), (3, 3), {}, "input, .*has rank 4"),
        ((1, 9, 9), (5, 5), (3,), {}, "block_shape, .* is 1, but k is 2"),
        ((1, 9, 16), (2, 2), (7, 7), {}, "-4 blocks fit"),
    ],
    ids=str,
)
def test_columns_of_no_image_are_refused(
    x: Shape, image: Shape, block: Shape, attributes: dict[str, Any], message: str
) -> None:
    for constants in ([], [1, 2]):
        with pytest.raises(OrtLiteError, match=f"Col2Im 'node'.*{message}"):
            run_op("Col2Im", [ramp(x), ints(*image), ints(*block)], attributes, constants=constants)


def test_negative_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"shape, .*has the element -2"):
        run_op("CenterCropPad", [ramp((4, 4)), ints(-2, -2)])
