"""com.microsoft's operators on quantised tensors, against onnxruntime, which may round the other way where it is a matter of luck."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.operators.test_integer_matmul import full
from tests.cpu.ort import ort_op

MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def parameters(scale: float, zero: int, dtype: str) -> list[Array]:
    return [np.array(scale, np.float32), np.array(zero, dtype)]


def check(op_type: str, inputs: Sequence[Array | None], dtype: str, constants: Sequence[int], **attributes: Any) -> None:
    """No step further than one away, and hardly any there; one thread and three give the same."""
    [want] = ort_op(op_type, inputs, attributes, outputs=[dtype], **MICROSOFT)
    variants: list[dict[str, Any]] = [{}, {"constants": constants}, {"constants": constants, "fixed": True}, {"threads": 3}]
    for variant in variants:
        [got] = run_op(op_type, inputs, attributes, **MICROSOFT, **variant)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), (op_type, variant)
        away = np.abs(got.astype(int) - want.astype(int))
        assert away.max(initial=0) <= 1 and away.mean() < 0.02, (op_type, dtype, attributes, variant)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 1, 1), (5,), ()], ids=str)
def test_binary(op_type: str, shape: tuple[int, ...], dtype: str) -> None:
    a = [full((2, 3, 4, 5), dtype), *parameters(0.031, 10, dtype)]
    b = [full(shape, dtype, 1), *parameters(0.0537, 7, dtype)]
    check(op_type, [*a, *b, *parameters(0.0717, 3, dtype)], dtype, [1, 2, 4, 5, 6, 7])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("condition", "x", "y"), [((3, 4), (3, 4), (3, 4)), ((2, 1, 4), (3, 1), ()), ((), (4,), (3, 4)), ((0, 4), (1,), (4,))]
)
def test_choices(condition: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], dtype: str) -> None:
    """Numbers that have the scale and zero point of the result already stay as they are."""
    chosen, result = ramp(condition, "bool"), parameters(0.041, 9, dtype)
    for own in (parameters(0.031, 10, dtype), result):
        inputs = [chosen, full(x, dtype), *own, full(y, dtype, 1), *parameters(0.0537, 7, dtype), *result]
        want = ort_op("QLinearWhere", inputs, {}, outputs=[dtype], **MICROSOFT)
        check_op("QLinearWhere", *inputs, expected=want, constants=(2, 3, 5, 6, 7, 8), **MICROSOFT)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_unary(dtype: str) -> None:
    x = [full((2, 3, 40), dtype), *parameters(0.03, 10, dtype)]
    check("QLinearSigmoid", [*x, *parameters(1 / 256, 0, dtype)], dtype, [1, 2, 3, 4])
    check("QLinearLeakyRelu", [*x, *parameters(0.02, 5, dtype)], dtype, [1, 2, 3, 4], alpha=0.1)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (1, 12)])
@pytest.mark.parametrize("scale", [1 / 256, 0.0059, 0.6])
def test_softmax(scale: float, axis: int, opset: int, dtype: str) -> None:
    inputs = [full((2, 3, 14), dtype), *parameters(0.03, 10, dtype), *parameters(scale, 0, dtype)]
    check("QLinearSoftmax", inputs, dtype, [1, 2, 3, 4], axis=axis, opset=opset)


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_pools(dtype: str, channels_last: int) -> None:
    inputs = [full((2, 5, 6, 7), dtype), *parameters(0.03, 10, dtype), *parameters(0.01, 4, dtype)]
    check("QLinearGlobalAveragePool", inputs, dtype, [1, 2, 3, 4], channels_last=channels_last)
    window = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "channels_last": channels_last}
    check("QLinearAveragePool", inputs, dtype, [1, 2, 3, 4], strides=[2, 1], **window)
    check("QLinearAveragePool", inputs, dtype, [1, 2, 3, 4], count_include_pad=1, **window)


@pytest.mark.parametrize("zero", [0, 2, 3])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_halves_of_pools_are_rounded_with_the_zero_point(dtype: str, zero: int) -> None:
    inputs = [ramp((1, 1, 90), dtype), *parameters(1, 0, dtype), *parameters(1, zero, dtype)]
    want = ort_op("QLinearAveragePool", inputs, {"kernel_shape": [2]}, outputs=[dtype], **MICROSOFT)
    check_op("QLinearAveragePool", *inputs, expected=want, constants=(1, 2, 3, 4), kernel_shape=[2], **MICROSOFT)


def test_concat_takes_over_what_has_the_result_s_scale() -> None:
    same, other = parameters(0.05, 3, "uint8"), parameters(0.03, 9, "uint8")
    inputs = [*same, full((2, 3), "uint8"), *same, full((2, 4), "uint8", 1), *other]
    check("QLinearConcat", inputs, "uint8", [0, 1, 3, 4, 6, 7], axis=1)


def test_scales_are_one_number() -> None:
    scales = np.full(4, 0.5, np.float32)
    inputs = [full((2, 4), "uint8"), scales, *parameters(0.02, 5, "uint8")[1:], *parameters(0.02, 5, "uint8")]
    with pytest.raises(InvalidArgument, match=r"X_scale, .*has 4 elements"):
        run_op("QLinearSigmoid", inputs, {}, **MICROSOFT)
    with pytest.raises(InvalidArgument, match=r"X_zero_point, .*has shape \[2, 4\], rank 2"):
        run_op("QLinearSigmoid", [inputs[2], scales[0], inputs[0], *inputs[3:]], {}, fixed=True, **MICROSOFT)


def test_matrices_are_not_pooled_and_tensors_not_joined_without_their_scale() -> None:
    levels = [*parameters(0.03, 10, "uint8"), *parameters(0.01, 4, "uint8")]
    with pytest.raises(NotSupported, match="an input of rank 2, expected 3 or more"):
        run_op("QLinearGlobalAveragePool", [full((2, 5), "uint8"), *levels], {"channels_last": 1}, **MICROSOFT)
    with pytest.raises(NotSupported, match="4 inputs: scale, zero point, then three for each tensor"):
        run_op("QLinearConcat", [*levels[:2], full((2, 5), "uint8"), levels[0]], {"axis": 0}, **MICROSOFT)
