"""Nodes of 16-bit floats whose element type is known only in the run: they compute in float32, without Casts around them."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_lite import InferenceSession
from ort_lite.dtypes import Array, from_numpy, ort_name, to_numpy

HALVES = ("float16", "bfloat16")
OPERATORS = (
    "Abs(x)",
    "Sin(x)",
    "Add(x, x)",
    "Add(slope, x)",
    "ArgMax<axis = -1>(x)",
    "AveragePool<kernel_shape = [2]>(x)",
    "Clip(x, , low)",
    "Conv<kernel_shape = [2]>(x, weight)",
    "CumSum(x, one)",
    'Einsum<equation = "abc,abd->acd">(x, x)',
    "GlobalMaxPool(x)",
    "InstanceNormalization(x, scale, scale)",
    "LayerNormalization<axis = -1>(x, slope)",
    "LogSoftmax(x)",
    "MatMul(x, matrix)",
    "Max(x, low, x)",
    "Mod<fmod = 1>(x, slope)",
    "Pow(x, low)",
    "ReduceL2<keepdims = 0>(x, one)",
    "ReduceMax(x)",
    "ReduceMean(x, one)",
    'Resize<mode = "linear">(x, , twice)',
    "Softmax(x)",
    "TopK(x, one)",
)
FLOAT16_ALONE = ("Einsum", "TopK", "Softmax")
"""Operators that have no bfloat16, and one that rounds bfloat16 in between."""


def session(body: str, half: str) -> InferenceSession:
    """Run `body` on the state of a Scan over an input of no known rank, so that no type is known of its result."""
    kind = ort_name(half).removeprefix("tensor(").rstrip(")")
    text = f"""<ir_version: 10, opset_import: ["" : 22]>
    main ({kind}[] s, float[] e, {kind}[] low, {kind}[] slope, {kind}[] scale, {kind}[] matrix, {kind}[] weight) => (y)
    <int64[1] one = {{1}}, float[3] twice = {{1, 1, 2}}>
    {{
        x, o = Scan <num_scan_inputs = 1, body = b ({kind}[] i, float f) => ({kind}[] j, float g) {{
            j = Identity(i) g = Identity(f)
        }}> (s, e)
        {body}
    }}"""
    return InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"])


def feeds(half: str) -> dict[str, Array]:
    def ramp(*shape: int) -> Array:
        return (np.arange(np.prod(shape)).reshape(shape) % 7 / 4 - 0.625).astype(to_numpy(half))

    named = {"low": ramp(), "slope": ramp(6), "scale": ramp(3), "matrix": ramp(6, 2), "weight": ramp(4, 3, 2)}
    return {"s": ramp(2, 3, 6), "e": np.zeros(2, np.float32), **named}


@pytest.mark.parametrize(
    ("call", "half"),
    [(call, half) for call in OPERATORS for half in HALVES if half == "float16" or not call.startswith(FLOAT16_ALONE)],
)
def test_results_are_those_of_float32_rounded(call: str, half: str) -> None:
    body = f"y, k = {call}" if call.startswith("TopK") else f"y = {call}"
    [got] = session(body, half).run(None, feeds(half))
    [expected] = session(body, "float32").run(None, {name: value.astype(np.float32) for name, value in feeds(half).items()})
    if expected.dtype == np.float32:
        assert from_numpy(got.dtype) == half
        expected = expected.astype(got.dtype).astype(np.float32)
    np.testing.assert_array_equal(got.astype(expected.dtype), expected)


def test_every_node_rounds_its_result() -> None:
    """The sum of 2048 and 1 has no place in float16, although the next node takes 2048 away again."""
    values: dict[str, Any] = {**feeds("float16"), "s": np.full((1, 2), 2048, np.float16), "low": np.array(1, np.float16)}
    [got] = session("a = Add(x, low) y = Sub(a, s)", "float16").run(None, values)
    np.testing.assert_array_equal(got, np.zeros((1, 2), np.float16))
