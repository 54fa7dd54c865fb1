"""Quantised operators of com.microsoft that the CPU provider lacks, and forms that no kernel test has."""

import numpy as np

from tests.transforms.shapes.checking import check, infer, tensor, text

MS = "com.microsoft"


def test_convolutions_with_channels_first_or_last() -> None:
    x, w, one, zero = tensor("uint8", "N", 5, 6, 3), tensor("int8", 4, 3, 2, 2), tensor("float32"), tensor("uint8")
    (y,) = infer("QLinearConv", x, one, zero, w, one, zero, one, zero, domain=MS, channels_last=1)
    assert text(y) == "uint8[N, 4, 5, 4]"


def test_choosing() -> None:
    one, zero = np.array(1, np.float32), np.array(0, np.uint8)
    x, y = np.zeros(3, np.uint8), np.zeros((2, 3), np.uint8)
    check("QLinearWhere", np.ones((2, 1), bool), x, one, zero, y, one, zero, one, zero, domain=MS)


def test_products() -> None:
    check("MatMulInteger16", np.zeros((2, 3), np.int16), np.zeros((3, 4), np.int16), domain=MS)
    assert text(infer("QGemm", *[tensor("int8", 2, 2)] * 6, domain=MS)[0]) == "float32[2, 2]"
    assert text(infer("MulInteger", tensor("int8", "N", 1), None, tensor("int8", 3), domain=MS)[0]) == "int32[N, 3]"


def test_reductions() -> None:
    x, one, zero = tensor("uint8", "N", 3, "H"), tensor("float32"), tensor("uint8")
    (y,) = infer("QLinearReduceMean", x, one, zero, one, zero, domain=MS, axes=[-1], keepdims=0)
    assert text(y) == "uint8[N, 3]"
    assert text(infer("ReduceSumInteger", x, domain=MS)[0]) == "uint32[1, 1, 1]"


def test_recurrent_networks() -> None:
    inputs = [tensor("float32", "T", "B", 4), tensor("float32", 1, 20, 4), tensor("float32", 1, 20, 5)]
    assert text(infer("AttnLSTM", *inputs, domain=MS)[0]) == "float32[T, 1, B, 5]"


def test_packed_rows_are_gathered() -> None:
    data, scales = tensor("uint8", 10, 16), tensor("float16", 10, 1)
    (y,) = infer("GatherBlockQuantized", data, tensor("int64", "N"), scales, domain=MS, bits=4)
    assert text(y) == "float16[N, 32]"
