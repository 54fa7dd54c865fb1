"""Models that onnxruntime runs although they declare something else than they mean."""

import logging
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidGraph

HEAD = '<ir_version: 10, opset_import: ["": 16]>'


def parse(text: str) -> onnx.ModelProto:
    proto: onnx.ModelProto = onnx.parser.parse_model(f"{HEAD} main {text}")
    return proto


def run(proto: onnx.ModelProto, **feeds: Any) -> list[Any]:
    results: list[Any] = ort_lite.InferenceSession(proto.SerializeToString()).run(None, feeds)
    return results


@pytest.mark.parametrize("op_type", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_unknown_attributes_of_normalizations_of_onnxruntime(op_type: str, caplog: pytest.LogCaptureFixture) -> None:
    """The misspelt epsilon is ignored, with one warning; other operators know theirs."""
    proto = parse(f"(float[2, 4] x, float[4] g) => (float[2, 4] y) {{ y = {op_type}<axis = -1, epsion = 0.5>(x, g) }}")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with caplog.at_level(logging.WARNING):
        (y,) = run(proto, x=x, g=np.ones(4, np.float32))
    assert len(caplog.messages) == 1 and "attribute 'epsion' is ignored" in caplog.text and op_type in caplog.text
    centred = x - x.mean(1, keepdims=True) if op_type == "LayerNormalization" else x
    np.testing.assert_allclose(y, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5), rtol=1e-5)
    with pytest.raises(InvalidGraph, match="attribute 'alpah' is not known"):
        run(parse("(float[N] x) => (float[N] y) { y = LeakyRelu<alpah = 0.5>(x) }"), x=np.ones(1, np.float32))


def test_elements_of_sequences_and_optionals_have_any_shape() -> None:
    proto = parse("(seq(float[2, 3]) s, int64 at) => (float[N, M] y) { y = SequenceAt(s, at) }")
    values = [np.ones((2, 2), np.float32), np.zeros((4, 1), np.float32)]
    for k, value in enumerate(values):
        np.testing.assert_array_equal(run(proto, s=values, at=np.array(k))[0], value)
    proto = parse("(optional(float[5]) o) => (float[N, M] y) { y = OptionalGetElement(o) }")
    np.testing.assert_array_equal(run(proto, o=values[0])[0], values[0])


LOOP = """(int64 trips, float[1] x) => (float[1] y, int64[T, 1] numbers) {
    y, numbers = Loop(trips, , x)<body = b (int64[1] i, bool[1] going, float[1] v) => (bool[1] go, float[1] w, int64[1] n) {
        go = Identity(going)  n = Identity(i)  f = Cast<to = 1>(i)  w = Add(v, f) }>
}"""


def test_the_iteration_number_of_a_loop_with_one_axis() -> None:
    y, numbers = run(parse(LOOP), trips=np.array(4), x=np.array([1], np.float32))
    np.testing.assert_array_equal(y, [7])
    np.testing.assert_array_equal(numbers, np.arange(4).reshape(4, 1))


def test_a_condition_with_one_axis_that_is_passed_on() -> None:
    text = LOOP.replace("go = Identity(going)  ", "").replace("(bool[1] go,", "(bool[1] going,")
    y, _ = run(parse(text), trips=np.array(4), x=np.array([1], np.float32))
    np.testing.assert_array_equal(y, [7])


def test_a_node_without_inputs_and_outputs_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    proto = parse("(float[N] x) => (float[N] y) { y = Neg(x) }")
    proto.graph.node.append(onnx.helper.make_node("If", [], []))
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(run(proto, x=np.array([1], np.float32))[0], [-1])
    assert "without inputs and outputs are left out" in caplog.text
