"""Quantised operators of com.microsoft, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from tests.transforms.shapes.checking import check, floats, infer, tensor, text

MS = "com.microsoft"
ONE, ZERO = np.array(1, np.float32), np.array(0, np.uint8)


def bytes_(*shape: int) -> Array:
    return np.zeros(shape, np.uint8)


def quantized(*shape: int) -> list[Array]:
    return [bytes_(*shape), ONE, ZERO]


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_two_inputs_broadcast(op_type: str) -> None:
    check(op_type, *quantized(2, 1, 3), *quantized(4, 1), ONE, ZERO, domain=MS)


def test_functions_of_one_input() -> None:
    check("QLinearSigmoid", *quantized(2, 3), ONE, ZERO, domain=MS)
    check("QLinearLeakyRelu", *quantized(2, 3), ONE, ZERO, domain=MS)
    check("QLinearSoftmax", *quantized(2, 3), ONE, ZERO, domain=MS, opset=13)


@pytest.mark.parametrize("last", [0, 1])
def test_pools_with_channels_first_or_last(last: int) -> None:
    check("QLinearGlobalAveragePool", *quantized(1, 4, 5, 3), ONE, ZERO, domain=MS, channels_last=last)
    check("QLinearAveragePool", *quantized(1, 4, 5, 3), ONE, ZERO, domain=MS, channels_last=last, kernel_shape=[2, 3])


def test_convolutions_with_channels_first_or_last() -> None:
    x, w, one, zero = tensor("uint8", "N", 5, 6, 3), tensor("int8", 4, 3, 2, 2), tensor("float32"), tensor("uint8")
    (y,) = infer("QLinearConv", x, one, zero, w, one, zero, one, zero, domain=MS, channels_last=1)
    assert text(y) == "uint8[N, 4, 5, 4]"
    check("NhwcMaxPool", bytes_(1, 4, 5, 3), domain=MS, kernel_shape=[2, 2], strides=[2, 1])


def test_joining() -> None:
    check("QLinearConcat", ONE, ZERO, *quantized(2, 3), *quantized(2, 4), domain=MS, axis=1)
    check("QLinearWhere", np.ones((2, 1), bool), *quantized(3), *quantized(2, 3), ONE, ZERO, domain=MS)


def test_products() -> None:
    a, b = bytes_(2, 3), bytes_(3, 4)
    check("MatMulIntegerToFloat", a, b, ONE, ONE, domain=MS)
    check("DynamicQuantizeMatMul", floats(2, 3), b, ONE, domain=MS)
    check("MatMulInteger16", a.astype(np.int16), b.astype(np.int16), domain=MS)
    check("QGemm", *quantized(2, 3), *quantized(4, 3), None, ONE, ZERO, domain=MS, transB=1)
    assert text(infer("QGemm", *[tensor("int8", 2, 2)] * 6, domain=MS)[0]) == "float32[2, 2]"
    assert text(infer("MulInteger", tensor("int8", "N", 1), None, tensor("int8", 3), domain=MS)[0]) == "int32[N, 3]"


def test_reductions() -> None:
    x, one, zero = tensor("uint8", "N", 3, "H"), tensor("float32"), tensor("uint8")
    (y,) = infer("QLinearReduceMean", x, one, zero, one, zero, domain=MS, axes=[-1], keepdims=0)
    assert text(y) == "uint8[N, 3]"
    assert text(infer("ReduceSumInteger", x, domain=MS)[0]) == "uint32[1, 1, 1]"


def test_recurrent_networks() -> None:
    x, w, r = floats(2, 3, 4), np.zeros((1, 4, 20), np.int8), np.zeros((1, 5, 20), np.int8)
    scale, zero = np.ones(1, np.float32), np.zeros(1, np.int8)
    missing: list[Any] = [None] * 5
    operands = [x, w, r, *missing, scale, zero, scale, zero]
    check("DynamicQuantizeLSTM", *operands, outputs=3, domain=MS, hidden_size=5)
    inputs = [tensor("float32", "T", "B", 4), tensor("float32", 1, 20, 4), tensor("float32", 1, 20, 5)]
    assert text(infer("AttnLSTM", *inputs, domain=MS)[0]) == "float32[T, 1, B, 5]"


def test_packed_rows_are_gathered() -> None:
    data, scales = tensor("uint8", 10, 16), tensor("float16", 10, 1)
    (y,) = infer("GatherBlockQuantized", data, tensor("int64", "N"), scales, domain=MS, bits=4)
    assert text(y) == "float16[N, 32]"
