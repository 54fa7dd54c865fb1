"""The models of the table in docs/performance.md: small networks, single operators, and blocks of some."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from ort_lite.dtypes import Array
from ort_lite.record import Record
from tests.models.light_models import FOLDER, NAMES

Layer = tuple[str, dict[str, Any], list[Array]]
"""An operator, its attributes, and constants that it reads behind the result of the layer before."""

HEADER = '<ir_version: 9, opset_import: ["": 17]> main '
CHAIN = (
    HEADER
    + """(float[64,4096] x) => (float[64,4096] y) <float one = {1}> {
    a = Mul(x, x)  b = Add(a, one)  c = Sqrt(b)  d = Div(x, c)  e = Sigmoid(d)  f = Mul(e, x)  g = Tanh(f)  y = Sub(g, d) }"""
)
LAYER_NORM = (
    HEADER
    + """(float[8,128,768] x) => (float[8,128,768] y) <float[768] s, float[768] b> { y = LayerNormalization<axis = -1>(x, s, b) }"""
)
SOFTMAX = HEADER + "(float[12,128,128] x) => (float[12,128,128] y) { y = Softmax<axis = -1>(x) }"
GELU = (
    HEADER
    + """(float[128,3072] x) => (float[128,3072] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}> {
    a = Div(x, root)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half) }"""
)
ATTENTION = (
    HEADER
    + """(float[1,128,384] x) => (float[1,128,384] y)
    <float[384,384] wq, float[384,384] wk, float[384,384] wv, float[384,384] wo, float[384] bq, float[384] bk, float[384] bv,
     float[384] bo, int64[4] split = {1,128,12,32}, int64[3] join = {1,128,384}, float root = {5.656854}> {
    q0 = MatMul(x, wq)  q1 = Add(q0, bq)  q2 = Reshape(q1, split)  q = Transpose<perm = [0,2,1,3]>(q2)
    k0 = MatMul(x, wk)  k1 = Add(k0, bk)  k2 = Reshape(k1, split)  k = Transpose<perm = [0,2,3,1]>(k2)
    v0 = MatMul(x, wv)  v1 = Add(v0, bv)  v2 = Reshape(v1, split)  v = Transpose<perm = [0,2,1,3]>(v2)
    s0 = MatMul(q, k)  s1 = Div(s0, root)  s = Softmax<axis = -1>(s1)
    o0 = MatMul(s, v)  o1 = Transpose<perm = [0,2,1,3]>(o0)  o2 = Reshape(o1, join)  o3 = MatMul(o2, wo)  o4 = Add(o3, bo)
    y = Add(o4, x) }"""
)
LSTM = (
    HEADER
    + """(float[64,1,128] x) => (float[64,1,1,128] y) <float[1,512,128] w, float[1,512,128] r, float[1,1024] b> {
    y = LSTM<hidden_size = 128>(x, w, r, b) }"""
)
MLP = (
    HEADER
    + """(float[1,128] x) => (float[1,10] y) <float[128,256] w0, float[256] b0, float[256,256] w1, float[256] b1,
    float[256,10] w2, float[10] b2> {
    a = Gemm(x, w0, b0)  b = Relu(a)  c = Gemm(b, w1, b1)  d = Relu(c)  e = Gemm(d, w2, b2)  y = Softmax(e) }"""
)
TEXTS = {
    "elementwise chain (64, 4096)": CHAIN,
    "layernorm (8, 128, 768)": LAYER_NORM,
    "softmax (12, 128, 128)": SOFTMAX,
    "GELU with Erf (128, 3072)": GELU,
    "attention block, 12 heads, 128 x 384": ATTENTION,
    "LSTM, 64 steps of 128": LSTM,
    "MLP of one row": MLP,
}
CONVOLUTIONS = {"conv 3x3, 64 at 56": (56, 64), "conv 3x3, 256 at 14": (14, 256)}
PRODUCTS = {"GEMM 512": (512, 512, 512), "GEMM 3136x64x64": (3136, 64, 64), "GEMV 768x3072": (1, 768, 3072)}
"""(m, k, n)"""
TINY, SEPARABLE = "200 tiny nodes", "depthwise-separable block, 96 at 56"


class Row(Record):
    """A model to measure. The fields after `feeds` are those of a model of one operator, as tests/benchmarks/operators.txt has them."""

    name: str
    model: bytes
    feeds: dict[str, Array]
    operator: str = ""
    shapes: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    dtype: str = "float32"


def row_names() -> list[str]:
    """Return the names of all rows, in the order of the table, without making the models."""
    return [*(f"light_{name}" for name in NAMES), *TEXTS, TINY, *CONVOLUTIONS, SEPARABLE, *PRODUCTS]


def rows() -> Iterator[Row]:
    """In the order of the table; the same ones each time."""
    for name in NAMES:
        yield row(f"light_{name}", (Path(FOLDER) / f"light_{name}.onnx").read_bytes(), 1e-3)  # their weights are large
    for name, text in TEXTS.items():
        yield row(name, weighted(text))
    yield row(TINY, tiny_nodes(200))
    for name, (size, channels) in CONVOLUTIONS.items():
        yield row(name, sequential([convolution(channels, channels, 3, 1)], (1, channels, size, size)))
    relu: Layer = ("Relu", {}, [])
    separable = [convolution(96, 96, 3, 96), relu, convolution(96, 96, 1, 1), relu]
    yield row(SEPARABLE, sequential(separable, (1, 96, 56, 56)))
    for name, (m, k, n) in PRODUCTS.items():
        w = np.random.default_rng(k).standard_normal((k, n), np.float32)
        yield row(name, sequential([("MatMul", {}, [w])], (m, k)))


def convolution(c: int, o: int, kernel: int, groups: int) -> Layer:
    """Return a Conv over images, padded by half its kernel, with random weights of unit gain and a bias."""
    random = np.random.default_rng(c)
    w = random.standard_normal((o, c // groups, kernel, kernel), np.float32)
    w /= np.sqrt(c // groups * kernel * kernel, dtype=np.float32)
    attributes = {"strides": [1, 1], "group": groups, "pads": [kernel // 2] * 4, "dilations": [1, 1]}
    return "Conv", attributes, [w, random.standard_normal(o, np.float32)]


def sequential(layers: Sequence[Layer], shape: Sequence[int]) -> bytes:
    """Return a model of layers in a row, whose input has the shape."""
    nodes, constants = [], []
    for k, (op_type, attributes, weights) in enumerate(layers):
        names = [f"w{k}_{i}" for i in range(len(weights))]
        constants += [numpy_helper.from_array(w, name) for w, name in zip(weights, names, strict=True)]
        nodes.append(helper.make_node(op_type, [f"v{k}", *names], [f"v{k + 1}"], **attributes))
    return _model(nodes, shape, None, constants)


def tiny_nodes(count: int) -> bytes:
    """Return a model of Add of a constant and Relu in turn over (1, 4) floats: only overhead takes time."""
    nodes = [
        helper.make_node("Relu" if k % 2 else "Add", [f"v{k}"] if k % 2 else [f"v{k}", "c"], [f"v{k + 1}"])
        for k in range(count)
    ]
    return _model(nodes, [1, 4], [1, 4], [helper.make_tensor("c", TensorProto.FLOAT, [1, 4], [0.5, -0.5, 0.25, -0.25])])


def _model(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int], result: Sequence[int] | None, constants: Sequence[TensorProto]
) -> bytes:
    """Return a model from v0 of a shape to the last v, whose shape is `result`."""
    inputs = [helper.make_tensor_value_info("v0", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(f"v{len(nodes)}", TensorProto.FLOAT, result)]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, constants)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())


def row(name: str, model: bytes, scale: float = 1.0) -> Row:
    graph = onnx.load_from_string(model).graph
    held = {tensor.name for tensor in graph.initializer}
    (x,) = (value for value in graph.input if value.name not in held)
    shape = [dim.dim_value for dim in x.type.tensor_type.shape.dim]
    return Row(name, model, {x.name: np.float32(scale) * np.random.default_rng(0).standard_normal(shape, np.float32)})


def weighted(text: str) -> bytes:
    """The model with small random numbers for the weights that its text declares without values."""
    model, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
    for value in model.graph.value_info:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        weights = 0.05 * rng.standard_normal(shape)
        model.graph.initializer.append(numpy_helper.from_array(weights.astype(np.float32), value.name))
    del model.graph.value_info[:]
    return bytes(model.SerializeToString())
