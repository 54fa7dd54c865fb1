"""The domain com.microsoft, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.graph import TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import check, floats, infer, integers, tensor, text

MS = "com.microsoft"


@pytest.mark.parametrize("op_type", ["FastGelu", "Gelu", "QuickGelu", "Inverse", "Trilu"])
def test_the_shape_stays(op_type: str) -> None:
    check(op_type, floats(3, 3) + 3 * np.eye(3, dtype=np.float32), domain=MS)


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((2, 3, 4), (2, 4, 5), {}),
        ((2, 3, 4), (2, 5, 4), {"transB": 1}),
        ((2, 4, 3), (4, 5), {"transA": 1}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((2, 3, 4), (4, 2, 5), {"transBatchB": 1}),
    ],
    ids=str,
)
def test_matrices_turned_in_every_way(a: tuple[int, ...], b: tuple[int, ...], attributes: dict[str, Any]) -> None:
    check("FusedMatMul", floats(*a), floats(*b), domain=MS, **attributes)


def test_fused_forms_of_standard_operators() -> None:
    check("FusedConv", floats(1, 2, 5, 5), floats(3, 2, 3, 3), domain=MS, activation="Relu", strides=[2, 2])
    check("FusedGemm", floats(2, 3), floats(4, 3), floats(4), domain=MS, transB=1, activation="Relu")
    check("Range", np.array(1), np.array(9), np.array(2), domain=MS)
    check("Pad", floats(2, 3), integers(0, 1, 2, 0), domain=MS)


def test_normalising_a_sum() -> None:
    check("SkipLayerNormalization", floats(2, 3, 4), floats(2, 3, 4), floats(4), floats(4), outputs=4, domain=MS)
    check("BiasGelu", floats(2, 3, 4), floats(4), domain=MS)


def test_weights_of_few_bits() -> None:
    weight, scale = np.zeros((5, 1, 16), np.uint8), floats(5)
    check("MatMulNBits", floats(2, 3, 32), weight, scale, domain=MS, K=32, N=5, bits=4, block_size=32)


def test_images() -> None:
    crops = np.zeros(3, np.int32), np.array([2, 3], np.int32)
    check("CropAndResize", floats(1, 2, 5, 5), floats(3, 4), *crops, domain=MS)
    check("GridSample", floats(1, 2, 5, 5), floats(1, 3, 4, 2), domain=MS)
    nhwc = tensor("float32", "N", "H", "W", 8)
    assert text(infer("NhwcConv", nhwc, tensor("float32", 4, 8, 3, 3), domain=MS)[0]) == "float32[N, H - 2, W - 2, 4]"
    x, w = tensor("float32", "N", 4, "H"), tensor("float32", 4, 3, 3)
    (y,) = infer("ConvTransposeWithDynamicPads", x, w, tensor("int64", 2, contents=[1, 0]), domain=MS, strides=[2])
    assert text(y) == "float32[N, 3, 2*H]"


def test_axes_put_in_and_unfolded() -> None:
    check("ExpandDims", floats(2, 3), np.array(-1, np.int32), domain=MS)
    check("ExpandDims", floats(2, 3), np.array(1, np.int32), domain=MS)
    check("UnfoldTensor", floats(3, 8), domain=MS, dim=1, size=3, step=2)


def test_distances_and_paths() -> None:
    check("CDist", floats(2, 3), floats(4, 3), domain=MS, metric="sqeuclidean")
    check("DynamicTimeWarping", floats(3, 4), domain=MS, data_dependent=True)


def test_texts() -> None:
    attributes: dict[str, Any] = {"mark": 0, "pad_value": "#", "separators": [" "], "mincharnum": 1}
    check("Tokenizer", np.array(["a b", "c"], object), domain=MS, data_dependent=True, **attributes)
    check("MurmurHash3", integers(1, 2).reshape(1, 2), domain=MS)
    check("MurmurHash3", integers(1, 2).reshape(1, 2), domain=MS, positive=0)
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


def test_distinct_values_of_a_vector() -> None:
    check("Unique", floats(5), outputs=3, domain=MS, data_dependent=True)


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "wanted"),
    [
        ("BiasSplitGelu", [tensor("float32", "N", "S", 8), tensor("float32", 8)], 1, ["float32[N, S, 4]"]),
        ("NGramRepeatBlock", [tensor("int64", "B", "S"), tensor("float32", "B", "V")], 1, ["float32[B, V]"]),
        ("BiasDropout", [tensor("float32", "B", 4), tensor("float32", 4)], 2, ["float32[B, 4]", "bool[B, 4]"]),
        ("IsAllFinite", [tensor("float32", "B", 4)], 1, ["bool[]"]),
        ("GemmFastGelu", [tensor("float32", "B", 4), tensor("float32", 4, 5)], 1, ["float32[B, 5]"]),
        ("BifurcationDetector", [tensor("int64", "S")] * 2, 2, ["int64[y0#1]", "int64[1]"]),
    ],
)
def test_others(op_type: str, inputs: list[Any], outputs: int, wanted: list[str]) -> None:
    assert [text(y) for y in infer(op_type, *inputs, outputs=outputs, domain=MS)] == wanted


def test_a_quantised_weight_has_its_shape_beside_it() -> None:
    shape = tensor("int64", 2, contents=[32, 5])
    assert text(infer("MatMulFpQ4", tensor("float32", "N", 32), tensor("uint8", 99), shape, domain=MS)[0]) == "float32[N, 5]"
