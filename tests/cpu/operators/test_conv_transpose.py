"""ConvTranspose: phases of ordinary convolutions, and the plain kernel for kernels of unknown size."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, NotImplemented, OrtLiteError, ShapeInferenceError
from tests.cpu.check import check_op, op_program, ramp, run_op
from tests.cpu.operators.test_conv import names
from tests.cpu.ort import ort_op

Shape = tuple[int, ...]


def transposed(x: Array, w: Array, b: Array | None = None, **attributes: Any) -> list[Any]:
    return ort_op("ConvTranspose", [x, w, b][: 2 if b is None else 3], attributes, opset=11)


CASES: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 3, 5, 6), (3, 4, 3, 3), {}),
    ((2, 3, 5, 6), (3, 4, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ((2, 4, 5, 6), (4, 3, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 2}),
    ((2, 4, 5, 6), (4, 3, 3, 4), {"strides": [3, 2], "dilations": [2, 3], "pads": [1, 2, 0, 1]}),
    ((1, 4, 5, 6), (4, 3, 3, 3), {"strides": [2, 4], "dilations": [2, 2]}),
    ((2, 4, 5), (4, 3, 3), {"strides": [3], "dilations": [2]}),
    ((1, 4, 3, 4, 5), (4, 3, 3, 2, 3), {"strides": [2, 1, 2], "pads": [1, 0, 1, 0, 0, 1]}),
    ((2, 4, 5, 6), (4, 3, 2, 2), {"strides": [2, 2]}),
    ((2, 4, 5, 6), (4, 3, 2, 1), {"strides": [3, 2]}),
    ((2, 8, 5, 6), (8, 1, 3, 3), {"strides": [2, 2], "group": 8}),
    ((1, 40, 9, 9), (40, 40, 3, 3), {"pads": [1, 1, 1, 1]}),
]
"""Shapes of input and weight; the last four have no kernel by vectors of pixels."""


@pytest.mark.parametrize(("x", "w", "attributes"), CASES, ids=str)
def test_conv_transpose(x: Shape, w: Shape, attributes: dict[str, Any]) -> None:
    weight, bias = ramp(w) / np.float32(4), ramp((w[1] * attributes.get("group", 1),))
    for own in (attributes, attributes | {"kernel_shape": list(w[2:])}):
        check_op("ConvTranspose", ramp(x), weight, bias, expected=transposed, constants=(1, 2), rtol=1e-4, atol=1e-4, **own)


@pytest.mark.parametrize(("x", "w", "attributes"), CASES[:-4], ids=str)
@pytest.mark.parametrize("kernel", ["conv", "conv_pixels"])
def test_conv_transpose_by_either_order(x: Shape, w: Shape, attributes: dict[str, Any], kernel: str) -> None:
    weight, bias = ramp(w) / np.float32(4), ramp((w[1] * attributes.get("group", 1),))
    how: dict[str, Any] = {"expected": transposed, "constants": (1, 2), "rtol": 1e-4, "atol": 1e-4}
    check_op("ConvTranspose", ramp(x), weight, bias, **how, pin=kernel, **attributes)


@pytest.mark.parametrize(("outputs", "chosen"), [(1, True), (3, True), (40, False)])
def test_few_outputs_go_by_pixels(outputs: int, chosen: bool) -> None:
    inputs = [ramp((1, 64, 16, 16)), ramp((64, outputs, 4, 4))]
    program = op_program("ConvTranspose", inputs, {"strides": [2, 2], "pads": [1, 1, 1, 1]}, constants=(1,), fixed=True)
    assert ("conv_pixels" in names(program)) == chosen


def test_more_axes_than_there_are_kernels_for_are_an_error() -> None:
    with pytest.raises(NotImplemented, match="4 spatial axes"):
        op_program("ConvTranspose", [ramp((1, 1, 2, 2, 2, 2)), ramp((1, 1, 1, 1, 1, 1))])


def test_a_bias_that_does_not_fit_is_an_error() -> None:
    for fixed in (False, True):
        with pytest.raises((InvalidArgument, ShapeInferenceError), match=r"B, .* is 3, but group\*G is 4"):
            run_op("ConvTranspose", [ramp((1, 3, 5, 5)), ramp((3, 4, 3, 3)), ramp((3,))], fixed=fixed)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"group": 2}, "X, .* is 3[,;] no multiple of group, which is 2 by the attribute"),
        ({"strides": [0, 1]}, "strides"),
        ({"dilations": [1, 0]}, "dilations"),
        ({"strides": [2**62, 1]}, "strides"),
        ({"kernel_shape": [2, 2**40]}, "kernel_shape"),
        ({"output_padding": [0, -1]}, "output_padding"),
    ],
    ids=str,
)
def test_attributes_that_do_not_fit_are_refused(attributes: dict[str, Any], message: str, fixed: bool) -> None:
    with pytest.raises(OrtLiteError, match=f"ConvTranspose 'node'.*{message}"):
        run_op("ConvTranspose", [ramp((1, 3, 5, 4)), ramp((3, 2, 2, 2))], attributes, fixed=fixed)


@pytest.mark.parametrize("strides", [[8192], [100_000]], ids=str)
def test_strides_with_too_many_phases_take_plain_loops(strides: list[int]) -> None:
    """A phase is an instruction of its own."""
    x, w = ramp((1, 2, 3)), ramp((2, 2, 3))
    assert "conv_transpose" in names(op_program("ConvTranspose", [x, w], {"strides": strides}, constants=(1,), fixed=True))
    check_op("ConvTranspose", x, w, expected=transposed, strides=strides, constants=(1,), rtol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_places_without_taps_ignore_infinities(bias: bool) -> None:
    """Between the elements of a small kernel the output is the bias, whatever the input holds."""
    x = np.array([[[1, np.inf, 2, -np.inf]]], np.float32)
    w, b = np.array([[[2.0], [-1.0]]], np.float32).reshape(1, 2, 1), np.array([0.5, 3], np.float32) if bias else None
    start = np.zeros(2, np.float32) if b is None else b
    expected = np.empty((1, 2, 10), np.float32)
    expected[...] = start[:, None]
    expected[0, :, ::3] = x[0] * w[0] + start[:, None]
    check_op("ConvTranspose", x, w, b, expected=expected, strides=[3], constants=(1,))


def test_a_result_that_no_tap_reaches_is_its_bias() -> None:
    """The only column lies in the padding of the output."""
    x, w, b = ramp((1, 3, 4, 1)), ramp((3, 2, 1, 1)), np.array([0.5, 3], np.float32)
    how: dict[str, Any] = {"strides": [2, 2], "pads": [0, 1, 0, 0], "output_padding": [0, 1]}
    expected = np.broadcast_to(b[:, None, None], (1, 2, 7, 1)).astype(np.float32)
    check_op("ConvTranspose", x, w, b, expected=expected, constants=(1,), **how)
