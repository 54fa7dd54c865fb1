"""DequantizeLinear, a product, QuantizeLinear: results are those of integers.

The rule: sums of products of bytes are exact; times scale of a * scale of b / scale of the result, in float32, they are rounded half to
even. So are onnxruntime's where it computes in integers. Weights of 7 bits are compared with it, whose sums of 8 saturate on some CPUs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.record import Record
from tests.cpu.ort import ort_op

S_A, S_Y = np.float32(0.02), np.float32(0.37)
INTEGERS, FLOATS = ["convolve_in_float"], ["convolve_in_float", "multiply_integers"]
"""Optimisers that are off where all is computed in integers, whatever the machine, and where nothing is."""


class Unit(Record, eq=False):
    """A product between its conversions: `text` says of a and b what is computed."""

    op_type: str
    a: Array
    b: Array
    zero: Array
    scale: Array
    points: Array
    axis: int
    bias: Array | None = None
    attributes: Mapping[str, Any] = {}
    opset: int = 17
    quantised: bool = True

    def model(self) -> bytes:
        constants = {"sa": S_A, "za": self.zero, "b": self.b, "sb": self.scale, "zb": self.points, "sy": S_Y, "zy": self.zero}
        along: dict[str, Any] = {} if self.opset < 13 else {"axis": self.axis}
        nodes = [
            helper.make_node("DequantizeLinear", ["a", "sa", "za"], ["ad"]),
            helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["bd"], **along),
        ]
        inputs = ["ad", "bd"]
        if self.bias is not None:
            constants |= {"c": self.bias, "sc": np.asarray(S_A * self.scale, np.float32)}
            nodes.append(helper.make_node("DequantizeLinear", ["c", "sc"], ["cd"], **along | ({"axis": 0} if along else {})))
            inputs.append("cd")
        nodes.append(helper.make_node(self.op_type, inputs, ["p" if self.quantised else "y"], **self.attributes))
        if self.quantised:
            nodes.append(helper.make_node("QuantizeLinear", ["p", "sy", "zy"], ["y"]))
        kind = helper.np_dtype_to_tensor_dtype(self.zero.dtype)
        ends = [
            helper.make_tensor_value_info("a", kind, [None] * self.a.ndim),
            helper.make_tensor_value_info("y", kind if self.quantised else onnx.TensorProto.FLOAT, None),
        ]
        tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
        graph = helper.make_graph(nodes, "unit", ends[:1], ends[1:], tensors)
        imports = [helper.make_opsetid("", self.opset)]
        return bytes(helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString())

    def ours(self, threads: int = 1, off: Sequence[str] = INTEGERS) -> Array:
        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort_lite.InferenceSession(
            self.model(), options, providers=["CPUExecutionProvider"], disabled_optimizers=list(off)
        )
        return np.asarray(session.run(None, {"a": self.a})[0])

    def theirs(self) -> Array:
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        return np.asarray(onnxruntime.InferenceSession(self.model(), options).run(None, {"a": self.a})[0])

    def rule(self) -> Array:
        """Sums in floating point that holds them exactly: those of convolutions here are below 2 ** 24."""
        kind = np.float32 if self.op_type == "Conv" else np.float64
        around = [1] * self.b.ndim
        if self.points.ndim:
            around[self.axis] = -1
        x: Array = self.a.astype(kind) - self.zero
        w: Array = self.b.astype(kind) - self.points.reshape(around)
        total: Array
        total = ort_op(self.op_type, [x, w], {**self.attributes}, opset=17)[0] if self.op_type == "Conv" else x @ w
        factor, columns = S_A * self.scale / S_Y, (-1, 1, 1) if self.op_type == "Conv" else (-1,)
        if self.bias is not None:
            total = total.astype(np.float64) + self.bias.reshape(columns)
        if not self.quantised:
            factor = S_A * self.scale
        scaled = total.astype(np.float32) * np.asarray(factor, np.float32).reshape(columns if self.scale.ndim else ())
        if not self.quantised:
            return np.asarray(scaled)
        info = np.iinfo(self.zero.dtype)
        levels: Array = np.clip(np.rint(scaled) + self.zero.astype(np.float32), info.min, info.max)
        return levels.astype(self.zero.dtype)


def unit(op_type: str, a: Sequence[int], b: Sequence[int], seed: int = 0, **more: Any) -> Unit:
    """Of random bytes: `kinds` of a and b, `each` for scales of columns or output channels, `bits` of b."""
    rng = np.random.default_rng(seed)
    kinds, bits, each = more.pop("kinds", (np.uint8, np.int8)), more.pop("bits", 8), more.pop("each", True)
    axis = 0 if op_type == "Conv" else len(b) - 1
    count: tuple[int, ...] = (b[axis],) if each else ()
    x, w = (
        rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
        for kind, shape in zip(kinds, (a, b), strict=True)
    )
    middle = 0 if kinds[1] == np.int8 else 128
    w = ((w.astype(np.int16) - middle >> 8 - bits) + middle).astype(kinds[1])
    points = np.zeros(count, kinds[1]) + np.asarray(middle, kinds[1])
    scale = np.asarray(rng.uniform(0.001, 0.02, count), np.float32)
    given = {"zero": np.asarray(131 if kinds[0] == np.uint8 else -9, kinds[0]), "scale": scale, "points": points, "axis": axis}
    if more.pop("biased", False):
        given["bias"] = rng.integers(-9000, 9000, count).astype(np.int32)
    return Unit(op_type, x, w, **{**given, **more})


KINDS = [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)]
PADDED = {"pads": [1, 1, 1, 1], "strides": [2, 1]}
UNITS = [
    *(unit("MatMul", (5, 36), (36, 33), kinds=kinds, each=each, bits=7) for kinds in KINDS for each in (False, True)),
    *(
        unit("Conv", (2, 5, 9, 7), (6, 5, 3, 3), kinds=kinds, each=each, bits=7, attributes=PADDED)
        for kinds in KINDS
        for each in (False, True)
    ),
    unit("MatMul", (2, 3, 7, 70), (70, 9), bits=7),
    unit("MatMul", (7, 70), (70, 9), each=False, opset=10, bits=7),
    unit("MatMul", (7, 70), (70, 9), opset=21, bits=7),
    unit("Gemm", (6, 40), (40, 20), biased=True, bits=7),
    unit("Conv", (1, 8, 6, 6), (8, 1, 3, 3), biased=True, bits=7, attributes={"group": 8, "pads": [1, 1, 1, 1]}),
    unit("Conv", (1, 8, 6, 6), (12, 4, 1, 1), biased=True, bits=7, attributes={"group": 2}),
    unit("Conv", (1, 24, 5, 5), (10, 24, 1, 1), biased=True, bits=7),
]


@pytest.mark.parametrize(
    "case", UNITS, ids=lambda case: f"{case.op_type} {case.a.dtype} {case.a.shape} {case.b.dtype} {case.b.shape}"
)
def test_integers_are_those_of_onnxruntime_and_of_the_rule(case: Unit) -> None:
    got = case.ours()
    np.testing.assert_array_equal(got, case.rule())
    np.testing.assert_array_equal(got, case.theirs())
    np.testing.assert_allclose(got.astype(int), case.ours(off=FLOATS).astype(int), atol=1)


def test_any_number_of_threads_gives_the_same() -> None:
    case = unit("MatMul", (70, 300), (300, 200), zero=np.uint8(3))
    np.testing.assert_array_equal(case.ours(threads=3), case.rule())


@settings(max_examples=25)
@given(
    st.sampled_from(KINDS),
    st.booleans(),
    st.integers(0, 20),
    st.integers(0, 70),
    st.integers(0, 40),
    st.booleans(),
    st.integers(0, 9),
)
@example((np.uint8, np.int8), True, 3, 2, 0, False, 0)
@example((np.uint8, np.int8), True, 3, 2, 0, True, 0)
def test_products_of_any_size(kinds: Any, each: bool, m: int, k: int, n: int, quantised: bool, seed: int) -> None:
    case = unit("MatMul", (m, k), (k, n), seed, kinds=kinds, each=each, quantised=quantised)
    asymmetric = np.arange(case.points.size, dtype=case.points.dtype).reshape(case.points.shape)
    case = case.replace(points=case.points + asymmetric)
    np.testing.assert_array_equal(case.ours(), case.rule())


@pytest.mark.parametrize("shape", [(0, 5, 6, 6), (3, 5, 6, 6)])
@pytest.mark.parametrize("quantised", [False, True])
def test_convolutions_of_any_batch(shape: Sequence[int], quantised: bool) -> None:
    case = unit("Conv", shape, (4, 5, 3, 3), kinds=(np.int8, np.uint8), biased=True, quantised=quantised)
    case = case.replace(points=case.points + np.uint8(9))
    np.testing.assert_array_equal(case.ours(), case.rule())


def test_a_window_that_fits_nowhere_is_refused() -> None:
    case = unit("Conv", (1, 5, 2, 2), (4, 5, 3, 3), attributes={"strides": [5, 5]})
    with pytest.raises(InvalidArgument, match="a window of 3 does not fit into 2"):
        case.ours()


def test_both_operands_may_be_computed() -> None:
    text = """<ir_version: 9, opset_import: ["": 17]> g (uint8[B,H,M,K] a, uint8[B,H,N,K] b) => (uint8[B,H,M,N] y)
        <float s = {0.02}, uint8 za = {7}, uint8 zb = {130}, float t = {0.5}, uint8 zt = {100}> {
        c = DequantizeLinear(a, s, za)  d = DequantizeLinear(b, s, zb)  e = Transpose<perm=[0,1,3,2]>(d)
        p = MatMul(c, e)  y = QuantizeLinear(p, t, zt) }"""
    model = onnx.parser.parse_model(text).SerializeToString()
    rng = np.random.default_rng(0)
    feeds = {name: rng.integers(0, 256, (2, 3, rows, 33)).astype(np.uint8) for name, rows in (("a", 5), ("b", 20))}
    got = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    total = (feeds["a"].astype(np.float64) - 7) @ (feeds["b"].astype(np.float64) - 130).swapaxes(-1, -2)
    factor = np.float32(0.02) * np.float32(0.02) / np.float32(0.5)
    np.testing.assert_array_equal(got, np.clip(np.rint(total.astype(np.float32) * factor) + 100, 0, 255).astype(np.uint8))


def test_who_else_reads_what_is_dequantised_still_gets_it() -> None:
    text = """<ir_version: 9, opset_import: ["": 17]> g (uint8[M,2] a) => (uint8[M,2] y, float[M,2] n)
        <float s = {0.5}, uint8 z = {7}, int8[2,2] w = {1, -2, 3, 4}, float t = {0.25}> {
        c = DequantizeLinear(a, s, z)  d = DequantizeLinear(w, t)  p = MatMul(c, d)  y = QuantizeLinear(p, s, z)  n = Neg(c) }"""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"])
    y, n = session.run(None, {"a": np.array([[7, 9], [1, 255]], np.uint8)})
    np.testing.assert_array_equal(n, [[0, -1], [3, -124]])
    np.testing.assert_array_equal(y, [[9, 9], [191, 255]])
