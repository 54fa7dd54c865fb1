"""The domain com.microsoft, against onnxruntime: operators that the CPU provider lacks. Tests of kernels run the other rules."""

from typing import Any

import numpy as np
import pytest

from ort_lite.graph import TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import check, floats, infer, tensor, text

MS = "com.microsoft"


def test_images() -> None:
    crops = np.zeros(3, np.int32), np.array([2, 3], np.int32)
    check("CropAndResize", floats(1, 2, 5, 5), floats(3, 4), *crops, domain=MS)
    nhwc = tensor("float32", "N", "H", "W", 8)
    assert text(infer("NhwcConv", nhwc, tensor("float32", 4, 8, 3, 3), domain=MS)[0]) == "float32[N, H - 2, W - 2, 4]"
    x, w = tensor("float32", "N", 4, "H"), tensor("float32", 4, 3, 3)
    (y,) = infer("ConvTransposeWithDynamicPads", x, w, tensor("int64", 2, contents=[1, 0]), domain=MS, strides=[2])
    assert text(y) == "float32[N, 3, 2*H]"


def test_an_axis_is_unfolded() -> None:
    check("UnfoldTensor", floats(3, 8), domain=MS, dim=1, size=3, step=2)


def test_paths() -> None:
    check("DynamicTimeWarping", floats(3, 4), domain=MS, data_dependent=True)


def test_words() -> None:
    check(
        "WordConvEmbedding",
        np.ones((3, 5), np.int32),
        floats(7, 1, 2, 4),
        floats(7),
        floats(9, 4),
        domain=MS,
        embedding_size=7,
        conv_window_size=2,
        char_embedding_size=4,
    )


@pytest.mark.parametrize(("positive", "dtype"), [(0, "int32"), (1, "uint32")])
def test_hashes_of_an_unknown_rank_have_the_type_that_their_sign_asks_for(positive: int, dtype: str) -> None:
    [y] = infer("MurmurHash3", Info(TensorType("int64", None)), domain=MS, positive=positive)
    assert y.dtype == dtype


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "wanted"),
    [
        ("BiasSplitGelu", [tensor("float32", "N", "S", 8), tensor("float32", 8)], 1, ["float32[N, S, 4]"]),
        ("NGramRepeatBlock", [tensor("int64", "B", "S"), tensor("float32", "B", "V")], 1, ["float32[B, V]"]),
        ("BiasDropout", [tensor("float32", "B", 4), tensor("float32", 4)], 2, ["float32[B, 4]", "bool[B, 4]"]),
        ("IsAllFinite", [tensor("float32", "B", 4)], 1, ["bool[]"]),
        ("GemmFastGelu", [tensor("float32", "B", 4), tensor("float32", 4, 5)], 1, ["float32[B, 5]"]),
        ("BifurcationDetector", [tensor("int64", "S")] * 2 + [tensor("int64", 1)], 2, ["int64[y0#1]", "int64[1]"]),
    ],
)
def test_others(op_type: str, inputs: list[Any], outputs: int, wanted: list[str]) -> None:
    assert [text(y) for y in infer(op_type, *inputs, outputs=outputs, domain=MS)] == wanted


def test_a_quantised_weight_has_its_shape_beside_it() -> None:
    shape = tensor("int64", 2, contents=[32, 5])
    assert text(infer("MatMulFpQ4", tensor("float32", "N", 32), tensor("uint8", 99), shape, domain=MS)[0]) == "float32[N, 5]"
