"""Operators that ONNX's node cases lack, older versions of operators among them, beside the CPU provider."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
from ort_lite_xla import XLAExecutionProvider

import ort_lite
from ort_lite.dtypes import Array

MS = "com.microsoft"
IMAGE = "(float[2,4,5,6] x) => (float[] y)"
# opset, text, inputs
OLDER = [
    (7, "(float[3,4] x) => (float[3,4] y) { y = Clip<min = -0.5, max = 0.5>(x) }"),
    (7, "(float[3,4] x) => (float[3,4] y) { y = Dropout<ratio = 0.3>(x) }"),
    (7, "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 1>(x) }"),
    (11, "(float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax<axis = -2>(x) }"),
    (11, "(float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax<axis = 1>(x) }"),
    (7, "(float[3,4] x) => (float[A,B] y) { y = Slice<starts = [1], ends = [-1], axes = [1]>(x) }"),
    (7, "(float[3,4] x) => (float[A,B] y) { y = Pad<pads = [1, 0, 0, 2], value = 3.0>(x) }"),
    (7, "(float[3,1,4] x) => (float[3,4] y) { y = Squeeze<axes = [1]>(x) }"),
    (7, "(float[3,4] x) => (float[3,1,4] y) { y = Unsqueeze<axes = [1]>(x) }"),
    (7, "(float[3,4] x) => (float[A,B] y) { y = ReduceSum<axes = [1], keepdims = 0>(x) }"),
    (7, "(float[3,4] x) => (float[A,B] y) { y = ReduceMean<axes = [-1]>(x) }"),
    (7, "(float[6,4] x) => (float[2,4] a, float[4,4] b) { a, b = Split<axis = 0, split = [2, 4]>(x) }"),
    (9, '(float[1,2,3,4] x) => (float[1,2,6,8] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample<mode = "linear">(x, s) }'),
    (10, "(float[1,2,3,4] x) => (float[1,2,6,8] y) <float[4] s = {1, 1, 2, 2}> { y = Resize(x, s) }"),
    (
        8,
        "(float[2,3,4] x) => (float[2,3,4] y) <float[3] s = {1, 2, 3}, float[3] v = {0.5, 1, 2}>"
        "{ y = BatchNormalization<epsilon = 0.1>(x, s, s, s, v) }",
    ),
    (10, "(float[3,4] x) => (float[3,2] y, int64[3,2] z) <int64[1] k = {2}> { y, z = TopK(x, k) }"),
    (
        9,
        "(float[3,4] x) => (float[3,4] y) <int64[2,4] i = {0, 1, 2, 0, 1, 2, 0, 2}, float[2,4] u = {1, 2, 3, 4, 5, 6, 7, 8}>"
        "{ y = Scatter(x, i, u) }",
    ),
    (
        7,
        "(float[3,4] x) => (float[3,2] y) <float[4,2] b = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] c = {1, -1}>"
        "{ y = Gemm<alpha = 0.5, beta = 2.0>(x, b, c) }",
    ),
    (
        18,
        "(float[1,4,3] x) => (float[1,4,3] y) <float[2] s = {1, 2}, float[2] b = {0, 3}>"
        "{ y = GroupNormalization<num_groups = 2>(x, s, b) }",
    ),
    (13, "(float[1,2,6] x) => (float[1,2,5] y) { y = AveragePool<kernel_shape = [2], pads = [0, 0]>(x) }"),
]
FUSED = [
    "(float[2,4,5] x) => (float[2,4,5] y) { y = com.microsoft.QuickGelu<alpha = 1.5>(x) }",
    "(float[2,4,5] x) => (float[2,4,5] y) { y = com.microsoft.Gelu(x) }",
    "(float[3,4] x) => (float[3,4] y) <float[4] b = {1, 2, -1, 0}> { y = com.microsoft.BiasGelu(x, b) }",
    "(float[3,4] x) => (float[3,4] y) <float[4] b = {1, 2, -1, 0}> { y = com.microsoft.FastGelu(x, b) }",
    "(float[3,4] x) => (float[3,3] y) { y = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(x, x) }",
    '(float[3,4] x) => (float[3,3] y) { y = com.microsoft.FusedGemm<transB = 1, activation = "LeakyRelu", '
    "activation_alpha = 0.3>(x, x) }",
    "(float[1,2,5,5] x, float[2,2,3,3] w, float[1,2,3,3] z) => (float[1,2,3,3] y)"
    '{ y = com.microsoft.FusedConv<activation = "HardSigmoid", activation_params = [0.3, 0.4]>(x, w, , z) }',
    "(float[2,3,4] x, float[2,3,4] s) => (float[2,3,4] y) <float[4] g = {1, 2, 3, 4}, float[4] b = {0, 1, 0, 1}>"
    "{ y = com.microsoft.SkipLayerNormalization<epsilon = 0.001>(x, s, g, b) }",
    "(float[2,4,3] x) => (float[2,4,1] y) { y = GlobalLpPool<p = 3>(x) }",
    "(float[2,3,4] x) => (float[2,3,4] y) <float[4] g = {1, 2, 3, 4}> { y = SimplifiedLayerNormalization(x, g) }",
    "(uint8[3,4] x, uint8[3,4] z) => (uint8[3,4] y)"
    "<float s = {0.1}, uint8 o = {7}> { y = com.microsoft.QLinearAdd(x, s, o, z, s, o, s, o) }",
    "(uint8[3,4] x, uint8[3,4] z) => (uint8[3,4] y)"
    "<float s = {0.1}, uint8 o = {7}> { y = com.microsoft.QLinearMul(x, s, o, z, s, o, s, o) }",
]
NARROW = [
    *(
        text.replace("float[", "float16[")
        for text in FUSED
        if "<float" not in text and "uint8" not in text and "microsoft" in text
    ),
    "(float16[9,2,4] x, float16[1,12,4] w, float16[1,12,3] r) => (float16[9,1,2,3] y) { y = LSTM<hidden_size = 3>(x, w, r) }",
    "(float16[9,2,4] x, float16[1,9,4] w, float16[1,9,3] r) => (float16[9,1,2,3] y) { y = GRU<hidden_size = 3>(x, w, r) }",
]
EDGES = [
    (
        18,
        "(float[1,5] x) => (float[A,B] y) <int64[1] s = {-9223372036854775808}, int64[1] e = {-9223372036854775808},"
        "int64[1] a = {1}, int64[1] t = {-2}> { y = Slice(x, s, e, a, t) }",
    ),
    (
        18,
        "(float[1,5] x) => (float[A,B] y) <int64[1] s = {100}, int64[1] e = {-100}, int64[1] a = {1}, int64[1] t = {-2}>"
        "{ y = Slice(x, s, e, a, t) }",
    ),
    (
        22,
        "(float[1,1,3] x, float[1,1,1] w) => (float[1,1,A] y)"
        '{ y = ConvTranspose<strides = [2], auto_pad = "SAME_UPPER">(x, w) }',
    ),
    (
        22,
        "(float[1,1,7] x) => (float[1,1,A] y)"
        '{ y = MaxPool<kernel_shape = [2], strides = [3], ceil_mode = 1, auto_pad = "SAME_LOWER">(x) }',
    ),
    (
        22,
        "(float[1,1,8] x) => (float[1,1,A] y)"
        "{ y = AveragePool<kernel_shape = [3], strides = [3], ceil_mode = 1, pads = [1, 1], count_include_pad = 1>(x) }",
    ),
    (
        19,
        "(float[1,1,2,5] x) => (float[1,1,4,2] y) <float[8] r = {0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1}, float[4] s = {1, 1, 2, 0.5}>"
        '{ y = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize">(x, r, s) }',
    ),
    (17, "(float x) => (float y) { y = Softmax(x) }"),
    (19, '(float[3,5] x) => (float[A,B] y) <int64[4] p = {-1, 1, 2, -2}> { y = Pad<mode = "edge">(x, p) }'),
]
RECURRENT = [
    (op_type, gates, attributes)
    for op_type, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
    for attributes in ('direction = "bidirectional"', 'direction = "reverse", clip = 0.4', "layout = 1")
]


def model(text: str, opset: int = 17) -> bytes:
    header = f'<ir_version: 8, opset_import: ["": {opset}, "{MS}": 1]>'
    return bytes(onnx.parser.parse_model(f"{header} main {text}").SerializeToString())


def compared(made: bytes, feeds: dict[str, Array] | None = None) -> None:
    """Every node is the provider's, and it gives what the CPU provider gives."""
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort_lite.InferenceSession(made, options, providers=[XLAExecutionProvider])
    assert {p.provider for p in session.explain().assignment.placements.values()} == {XLAExecutionProvider.name}
    rng = np.random.default_rng(0)
    feeds = feeds or {value.name: _random(rng, value) for value in session.get_inputs()}
    expected = ort_lite.InferenceSession(made, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    for a, b in zip(session.run(None, feeds), expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2**-10 if a.dtype == np.float16 else 1e-5, atol=1e-5)


def _random(rng: np.random.Generator, value: Any) -> Array:
    shape = [size if isinstance(size, int) else 3 for size in value.shape]
    if "uint8" in value.type:
        return rng.integers(0, 60, shape).astype(np.uint8)
    dtypes = {"tensor(float16)": np.float16, "tensor(double)": np.float64}
    return rng.standard_normal(shape).astype(dtypes.get(value.type, np.float32))


@pytest.mark.parametrize(("opset", "text"), OLDER, ids=[f"{text.split('= ')[-1][:20]}{opset}" for opset, text in OLDER])
def test_older_versions_are_computed_as_they_were(opset: int, text: str) -> None:
    compared(model(text, opset))


@pytest.mark.parametrize(("opset", "text"), EDGES, ids=[text.split("y = ")[-1][:20] for _, text in EDGES])
def test_edges_of_their_attributes(opset: int, text: str) -> None:
    compared(model(text, opset))


@pytest.mark.parametrize("text", FUSED, ids=lambda text: text.split("y = ")[1].split("(")[0][:40])
def test_operators_without_a_node_case(text: str) -> None:
    compared(model(text))


@pytest.mark.parametrize("text", NARROW, ids=lambda text: text.split("y = ")[1].split("(")[0][:40])
def test_16_bits_are_rounded_once(text: str) -> None:
    compared(model(text, 22))


def test_statistics_of_double_precision_are_single() -> None:
    node = "{ y, m, i = com.microsoft.SkipLayerNormalization(x, s, g) }"
    compared(
        model(f"(double[2,3,4] x, double[2,3,4] s, double[4] g) => (double[2,3,4] y, float[2,3,1] m, float[2,3,1] i) {node}")
    )


def test_products_with_moved_batches_are_declined() -> None:
    text = "(float[4,2,3] x, float[2,3,5] z) => (float[2,4,5] y) { y = com.microsoft.FusedMatMul<transBatchA = 1>(x, z) }"
    plan = ort_lite.plan(model(text), [XLAExecutionProvider, "CPUExecutionProvider"])
    (verdicts,) = plan.verdicts().values()
    assert str(verdicts[XLAExecutionProvider.name]) == "declined attribute: transBatchA is not supported"


@pytest.mark.parametrize(("op_type", "gates", "attributes"), RECURRENT)
def test_recurrent_networks_in_all_directions(op_type: str, gates: int, attributes: str) -> None:
    ways, first = (2 if "bi" in attributes else 1), "layout" in attributes
    n, t, hidden, size = 2, 5, 3, 4
    rng = np.random.default_rng(1)
    x, h = ([n, t, size], [n, ways, hidden]) if first else ([t, n, size], [ways, n, hidden])
    shapes = {"x": x, "w": [ways, gates * hidden, size], "r": [ways, gates * hidden, hidden], "b": [ways, 2 * gates * hidden]}
    shapes["h"] = h
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    declared = ", ".join(f"float{shape} {name}" for name, shape in shapes.items())
    node = f"{{ y, last = {op_type}<hidden_size = {hidden}, {attributes}>(x, w, r, b, l, h) }}"
    for lengths in ("5, 3", "0, 3"):
        text = f"({declared}) => (float[A,B,C,D] y, float[E,F,G] last) <int32[{n}] l = {{{lengths}}}>"
        compared(model(text + node, 14), feeds)
