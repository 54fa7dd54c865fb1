"""Nodes that OpenVINO reads otherwise than ONNX says: the results are those of the CPU provider, or the node is declined."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from ort_lite_openvino import OpenVINOExecutionProvider

import ort_lite
from ort_lite.dtypes import Array

CPU, OPENVINO = "CPUExecutionProvider", OpenVINOExecutionProvider.name


def session(text: str, opset: int, constants: Mapping[str, Array], *providers: Any) -> ort_lite.InferenceSession:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> main {text}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort_lite.InferenceSession(model, options, providers=list(providers))


def check(text: str, *feeds: Mapping[str, Array], opset: int = 22, **constants: Array) -> None:
    """One session runs all nodes on OpenVINO, and gives the results of the CPU provider for each of the feeds."""
    provider = (OpenVINOExecutionProvider(), {"on_compile_error": "raise"})
    mine, reference = session(text, opset, constants, provider), session(text, opset, constants, CPU)
    assert {partition.provider.name for partition in mine.explain().assignment.partitions} == {OPENVINO}
    for feed in feeds:
        for got, expected in zip(mine.run(None, feed), reference.run(None, feed), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, strict=True)


def reason(text: str) -> str:
    """Why OpenVINO does not run the only node."""
    made = session(text, 22, {}, OpenVINOExecutionProvider(), CPU)
    (place,) = made.explain().assignment.placements.values()
    assert place.provider == CPU
    return str(place.reasons[0])


def some(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).uniform(0.5, 4, shape).astype(np.float32)


@pytest.mark.parametrize(
    "before", ["ReduceL2<keepdims=1, axes=[1]>(x)", "ReduceSum<keepdims=1, axes=[1]>(x)", "MatMul(x, w)", "Relu(x)"]
)
def test_one_divided_by_what_another_node_computes(before: str) -> None:
    check(f"(float[N,3] x) => (float[N,M] y) {{ r = {before}  y = Reciprocal(r) }}", {"x": some(2, 3)}, opset=12, w=some(3, 4))


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 4)])
def test_constants_divided_by_a_product(shape: tuple[int, ...]) -> None:
    check(
        "(float[2,3] x) => (float[2,4] y) { r = MatMul(x, w)  y = Div(c, r) }", {"x": some(2, 3)}, w=some(3, 4), c=some(*shape)
    )


def test_the_norm_of_nothing_has_an_infinite_reciprocal() -> None:
    feeds = [{"x": some(2, 3)}, {"x": some(2, 0)}]
    check("(float[N,M] x) => (float y) { r = ReduceL2<keepdims=0>(x)  y = Reciprocal(r) }", *feeds, opset=12)


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_thresholds_of_special_numbers(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, -1, 0.25, 2], np.float32 if dtype == "float" else np.float16)
    text = f"({dtype}[N] x) => ({dtype}[N] y, {dtype}[N] z) {{ y = ThresholdedRelu<alpha=0.25>(x)  z = Reciprocal(y) }}"
    check(text, {"x": x})  # the reciprocal shows the sign of a zero


def test_a_threshold_leaves_the_opset_of_other_nodes() -> None:
    text = '(float[1,1,2,2] x, float[1,2,2,2] g) => (float[1,1,2,2] y) { s = GridSample<mode="linear">(x, g)  y = ThresholdedRelu(s) }'
    check(text, {"x": some(1, 1, 2, 2), "g": some(1, 2, 2, 2) / 4})


@pytest.mark.parametrize("form", ["", ", , z", ", w", ", w, z"])
@pytest.mark.parametrize(
    ("first", "second"), [((2, 3), (3, 4)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 0), (2, 0, 5)), ((1, 0, 1), (1, 1, 1))]
)
def test_products_of_bytes_with_either_zero_point(form: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    feed: dict[str, Array] = {
        "a": generator.integers(0, 255, first).astype(np.uint8),
        "b": generator.integers(-128, 127, second).astype(np.int8),
    }
    zeros = {"w": np.array(7, np.uint8), "z": np.array(3, np.int8)}
    feed |= {name: zero for name, zero in zeros.items() if name in form}
    operands = "".join(f", {'uint8' if name == 'w' else 'int8'} {name}" for name in zeros if name in form)
    a, b, y = (", ".join(f"{letter}{k}" for k in range(len(first))) for letter in "ABY")
    check(f"(uint8[{a}] a, int8[{b}] b{operands}) => (int32[{y}] y) {{ y = MatMulInteger(a, b{form}) }}", feed)


def test_convolutions_of_bytes_with_a_zero_point_of_the_weights_alone() -> None:
    generator = np.random.default_rng(0)
    feed = {"x": generator.integers(0, 255, (1, 3, 5, 5)).astype(np.uint8), "z": np.array([3], np.int8)}
    w = generator.integers(-128, 127, (2, 3, 3, 3)).astype(np.int8)
    check("(uint8[N,3,5,5] x, int8[1] z) => (int32[N,2,A,B] y) { y = ConvInteger<pads=[1,1,1,1]>(x, w, , z) }", feed, w=w)


def test_an_output_that_is_an_input_has_the_numbers_of_its_own_run() -> None:
    feeds = [{"x": some(rows, 3) * rows, "q": some(rows)} for rows in (4, 1, 2, 4, 6, 1)]
    text = "(float[N,3] x, float[M] q) => (float[M] w, float[N,3] y, float[M] v) { y = Cast<to=1>(x)  v = Cast<to=1>(q)  w = Neg(q) }"
    check(text, *feeds)


def test_float16_of_a_gru_is_rounded_once() -> None:
    """Its products are of float32, with a Cast around them."""
    w, r = some(2, 9, 4).astype(np.float16) - 2, some(2, 9, 3).astype(np.float16) - 2
    text = '(float16[6,5,4] x) => (float16[6,2,5,3] y) { y = GRU<hidden_size=3, direction="bidirectional">(x, w, r) }'
    check(text, {"x": some(6, 5, 4).astype(np.float16) - 2}, w=w, r=r)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(float[N] x) => (float[N] y) { y = HardSigmoid<beta=0.0>(x) }", "attribute: beta is 0, takes another number"),
        ("(float[N] x) => (float[N] y) { y = Selu<gamma=0.0>(x) }", "attribute: gamma is 0, takes another number"),
        ("(float x) => (float y) <int64[0] k = {}> { y = Tile(x, k) }", "shape: a scalar, takes one dimension or more"),
        ("(float x) => (float y) <int64[0] k = {}> { y = Slice(x, k, k) }", "shape: a scalar, takes one dimension or more"),
        (
            "(float x, float[2] v) => (float[5] y) <float[1] d = {5}> { y = OneHot(x, d, v) }",
            "shape: a scalar, takes one dimension or more",
        ),
        (
            "(float[N,C,H,4] x) => (float[N,C,1,1] y) { y = GlobalMaxPool(x) }",
            "shape: 'x' may be an empty image, which it computes otherwise; takes a fixed size",
        ),
        (
            "(int8[N,1,W] x) => (int32[N,1,V] y) <int8[1,1,3] w = {1, 1, 1}> { y = ConvInteger<pads=[1,1]>(x, w) }",
            "shape: 'x' may be an empty image, which it computes otherwise; takes a fixed size",
        ),
        (
            '(float[N,C,H,W] x, float[N,A,B,2] g) => (float[N,C,A,B] y) { y = GridSample<padding_mode="border">(x, g) }',
            "shape: 'x' may be an empty image, which it computes otherwise; takes a fixed size",
        ),
        (
            "(uint8[3] x, int8[3,2] v) => (int32[2] y) { y = MatMulInteger(x, v) }",
            "shape: a vector without a zero point, takes a matrix",
        ),
        (
            "(float[1,2,4,4] x, float[3,4] b, int64[3] i) => (float[3,2,1,1] y) { y = RoiAlign(x, b, i) }",
            "attribute: sampling_ratio is 0 with half_pixel, takes a number of samples",
        ),
    ],
)
def test_what_it_computes_otherwise_is_declined(text: str, expected: str) -> None:
    assert reason(text) == f"declined {expected}"


@pytest.mark.parametrize(
    "text",
    [
        "(float[N,2,4,4] x) => (float[N,2,1,1] y) { y = GlobalMaxPool(x) }",
        '(float[N,2,4,4] x, float[N,A,B,2] g) => (float[N,2,A,B] y) { y = GridSample<padding_mode="border">(x, g) }',
    ],
)
def test_images_of_a_fixed_size_are_taken(text: str) -> None:
    feed = {"x": some(3, 2, 4, 4), "g": some(3, 2, 2, 2) / 4}
    check(text, {name: array for name, array in feed.items() if f"] {name}" in text})
