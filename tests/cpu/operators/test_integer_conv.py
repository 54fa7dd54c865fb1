"""ConvInteger and QLinearConv."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError
from tests.cpu.check import check_op, op_program, ramp, run_op
from tests.cpu.operators.test_integer_matmul import full
from tests.cpu.ort import ort_op

Shape = tuple[int, ...]
CASES: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((1, 3, 9, 9), (8, 3, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((2, 16, 7, 7), (40, 16, 1, 1), {}),
    ((2, 16, 7, 7), (40, 16, 1, 1), {"strides": [2, 2]}),
    ((1, 8, 9, 19), (8, 1, 3, 3), {"group": 8, "pads": [1, 1, 1, 1]}),
    ((1, 37, 9, 8), (37, 1, 5, 3), {"group": 37, "pads": [2, 1, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    ((1, 3, 4, 20), (3, 1, 3, 3), {"group": 3}),
    ((1, 8, 9, 9), (12, 4, 3, 3), {"group": 2, "pads": [0, 1, 2, 1], "dilations": [2, 1]}),
    ((2, 4, 11), (5, 4, 3), {"pads": [1, 1]}),
    ((1, 3, 5, 6, 7), (6, 3, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 1]}),
    ((1, 20, 20, 20), (70, 20, 5, 5), {}),
    ((2, 3, 6, 6), (4, 3, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
]


def conv(x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None, **attributes: Any) -> list[Any]:
    """By way of float32, with the weight in two halves, whose sums it holds exactly."""
    x = x.astype(np.float32) - (0 if x_zero is None else x_zero.astype(np.float32))
    w = w.astype(np.float32) - (0 if w_zero is None else w_zero.astype(np.float32).reshape(-1, *(1,) * (w.ndim - 1)))
    high, low = (ort_op("Conv", [x, half], attributes, opset=11)[0].astype(np.int32) for half in np.divmod(w, np.float32(16)))
    return [16 * high + low]


@pytest.mark.parametrize(("x", "w", "attributes"), CASES, ids=str)
def test_sums_are_exact(x: Shape, w: Shape, attributes: dict[str, Any]) -> None:
    a, b = full(x, "uint8"), full(w, "int8")
    check_op("ConvInteger", a, b, expected=conv, constants=[1], **attributes)
    for zero in (np.array(-7, np.int8), full((w[0],), "int8")):
        check_op("ConvInteger", a, b, np.array(200, np.uint8), zero, expected=conv, constants=[1, 3], **attributes)


def test_signed_inputs() -> None:
    for x, w, attributes in CASES[:4]:
        zero = np.array(-100, np.int8)
        check_op("ConvInteger", full(x, "int8"), full(w, "uint8"), zero, expected=conv, constants=[1], **attributes)


@pytest.mark.parametrize("constants", [[], [1, 2, 3, 4, 5, 6, 7, 8]], ids=["computed", "constant"])
@pytest.mark.parametrize(("x", "w", "attributes"), [CASES[k] for k in (0, 1, 3, 6, 7)], ids=str)
def test_qlinear_conv(x: Shape, w: Shape, attributes: dict[str, Any], constants: list[int]) -> None:
    for dtype in ("uint8", "int8"):
        scale, zero, bias = ramp((w[0],), low=0.01, high=0.1), np.zeros(w[0], np.int8), full((w[0],), "int32") >> 20
        one, two, three = np.array(0.02, np.float32), np.array(2, np.float32), np.array(3, dtype)
        inputs = [full(x, dtype), one, three, full(w, "int8") // 2, scale, zero, two, three, bias]
        expected = ort_op("QLinearConv", inputs, attributes, opset=10, outputs=[dtype])
        check_op("QLinearConv", *inputs, expected=expected, opset=10, constants=constants, **attributes)
        check_op("QLinearConv", *inputs[:4], one, zero[0], *inputs[6:8], opset=10, constants=constants[:-1], **attributes)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_qlinear_conv_of_com_microsoft(channels_last: int) -> None:
    x = [full((2, 9, 8, 5) if channels_last else (2, 5, 9, 8), "uint8"), np.array(0.02, np.float32), np.array(2, np.uint8)]
    w = [full((6, 5, 3, 3), "int8") // 2, ramp((6,), low=0.01, high=0.1), np.zeros(6, np.int8)]
    inputs = [*x, *w, np.array(2, np.float32), np.array(3, np.uint8), full((6,), "int32") >> 20]
    attributes: dict[str, Any] = {"channels_last": channels_last, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    expected = ort_op("QLinearConv", inputs, attributes, domain="com.microsoft", opset=1, outputs=["uint8"])
    check_op("QLinearConv", *inputs, expected=expected, domain="com.microsoft", opset=1, constants=[3, 4, 5], **attributes)


X8, W8 = full((1, 4, 5, 6), "uint8"), full((6, 4, 2, 2), "int8", 1)
ONE, ZERO = np.array(0.5, np.float32), np.array(1, np.uint8)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("more", "attributes", "message"),
    [
        ([ZERO.repeat(2)], {}, "x_zero_point, .*has 2 elements"),
        ([ZERO, np.ones(5, np.int8)], {}, "w_zero_point, .* is 5[,;] it should broadcast to 6"),
        ([], {"group": 4}, ""),
        ([], {"group": 0}, ""),
        ([], {"strides": [0, 1]}, "strides"),
        ([], {"dilations": [-1, 1]}, "dilations"),
        ([], {"pads": [2**62] * 4}, "pads"),
        ([], {"kernel_shape": [2, 3]}, "kernel_shape and weight differ"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(more: list[Array], attributes: dict[str, Any], message: str, fixed: bool) -> None:
    with pytest.raises(OrtLiteError, match=f"ConvInteger 'node'.*({message})"):
        run_op("ConvInteger", [X8, W8, *more], attributes, fixed=fixed)


@pytest.mark.parametrize(
    ("index", "array", "message"),
    [
        (1, ONE.repeat(2), "x_scale, .*has 2 elements"),
        (2, ZERO.repeat(0), "x_zero_point, .*has 0 elements"),
        (4, ONE.repeat(4), "w_scale, .* is 4[,;] it should broadcast to 6"),
        (5, np.ones(7, np.int8), "w_zero_point, .* is 7[,;] it should broadcast to 6"),
        (6, ONE.repeat(3), "y_scale, .*has 3 elements"),
        (7, ZERO.repeat(2), "y_zero_point, .*has 2 elements"),
        (8, np.ones(5, np.int32), "B, .* is 5, but M is 6"),
    ],
    ids=str,
)
def test_scales_zero_points_and_biases_that_do_not_fit_are_refused(index: int, array: Array, message: str) -> None:
    inputs = [X8, ONE, ZERO, W8, ONE, np.array(0, np.int8), ONE, ZERO, np.zeros(6, np.int32)]
    inputs[index] = array
    for fixed in (True, False):
        with pytest.raises(InvalidArgument, match=f"QLinearConv 'node' .*{message}"):
            run_op("QLinearConv", inputs, {}, fixed=fixed)


def test_a_zero_point_of_open_length_may_be_one_for_all() -> None:
    x, w = full((1, 2, 3, 3), "uint8"), full((3, 2, 2, 2), "uint8", 1)
    [wanted] = run_op("ConvInteger", [x, w, ZERO, ZERO])
    program = op_program("ConvInteger", [x, w, ZERO, np.array([1, 1, 1], np.uint8)])
    np.testing.assert_array_equal(program([x, w, ZERO, ZERO.reshape(1)])[0], wanted)


def test_an_open_batch_is_predicted_as_one_image() -> None:
    weight = ", ".join(["1"] * (8 * 9 * 4))
    costs = []
    for batch in ("1", "N"):
        model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
            main (uint8[{batch}, 4, 12, 12] x) => (int32[{batch}, 8, 10, 10] y) <int8[8, 4, 3, 3] w = {{{weight}}}> {{
                [node] y = ConvInteger(x, w)
            }}""")
        session = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
        costs.append(session.explain(kernels=True).kernels["node"].costs)
    assert costs[0] == costs[1]
