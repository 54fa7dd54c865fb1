"""Kinds of values and graphs that cross between onnxruntime and ort-lite, with ort-lite's CPU provider in onnxruntime."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ort_lite.provider import Capability, GraphView, Rejection
from ort_lite_cpu import CPUExecutionProvider
from tests.inside_onnxruntime import OWN, model, register, registered, report, session, taken

APART = (OWN, {"max_subgraph_size": "1"})
"""Each node is a partition: what is between two nodes crosses twice."""


class NoExpExecutionProvider(CPUExecutionProvider):
    """ort-lite's CPU provider without Exp."""

    name: ClassVar[str] = "NoExpExecutionProvider"

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for answer in super().get_capability(graph):
            node = answer.node if isinstance(answer, Rejection) else answer.nodes[0]
            yield Rejection(node, "operator", "Exp is left out") if node.op_type == "Exp" else answer


PASSES_CAPTURES = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 27)
NO_EXP = NoExpExecutionProvider.name


@pytest.fixture(scope="module", autouse=True)
def providers() -> Iterator[None]:
    register(OWN)
    with registered(NoExpExecutionProvider):
        yield


def compared(source: bytes, provider: Any, feeds: dict[str, Any]) -> list[Any]:
    """Return the results with the provider, which are those of onnxruntime alone."""
    expected = session(source).run(None, feeds)
    got = session(source, provider).run(None, feeds)
    for a, b in zip(got, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-5, atol=1e-6)
    return list(got)


# Shapes


def test_symbolic_dimensions() -> None:
    source = model("(float[N,M] x, float[M,K] w) => (float[N,K] y, int64[2] s) { y = MatMul(x, w)  s = Shape(y) }")
    made = session(source, OWN)
    assert taken(OWN) == ["MatMul", "Shape"]
    rng = np.random.default_rng(0)
    for n, m, k in ((2, 3, 4), (1, 1, 1), (0, 3, 4), (2, 0, 4), (2, 3, 0), (7, 5, 3)):
        x, w = rng.standard_normal((n, m), dtype=np.float32), rng.standard_normal((m, k), dtype=np.float32)
        y, shape = made.run(None, {"x": x, "w": w})
        np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-6)
        assert shape.tolist() == [n, k]


@pytest.mark.parametrize("provider", [OWN, APART], ids=["together", "apart"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (3, 4)], ids=str)
@pytest.mark.parametrize("named", [True, False], ids=["named sizes", "known sizes"])
def test_tensors_without_dimensions_or_elements(shape: tuple[int, ...], named: bool, provider: Any) -> None:
    dims = ",".join(f"d{k}" if named else str(size) for k, size in enumerate(shape))
    kind = f"float[{dims}]" if shape else "float"
    source = model(f"({kind} x, {kind} y) => ({kind} z, {kind} u) {{ a = Abs(x)  z = Add(a, y)  u = Neg(z) }}")
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    compared(source, provider, {"x": x, "y": x})


def test_dimensions_and_ranks_that_nobody_knows() -> None:
    source = onnx.load_from_string(model("(float[N] x, int64[M] s) => (float[K] y) { r = Reshape(x, s)  y = Neg(r) }"))
    source.graph.output[0].type.tensor_type.ClearField("shape")
    for sizes in ([2, 3], [6], [1, 2, 3], [3, -1]):
        x = np.arange(6, dtype=np.float32)
        compared(source.SerializeToString(), APART, {"x": x, "s": np.array(sizes)})


# Types


@pytest.mark.parametrize("provider", [OWN, APART], ids=["together", "apart"])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
)
def test_numbers(dtype: str, provider: Any) -> None:
    name = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    source = model(f"({name}[N] x, {name}[M] y) => ({name}[K] z) {{ a = Concat<axis = 0>(x, y)  z = Identity(a) }}")
    x = np.array([0, 1, 3], dtype)
    compared(source, provider, {"x": x, "y": x[:2]})


@pytest.mark.parametrize("provider", [OWN, APART], ids=["together", "apart"])
@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_strings(count: int, provider: Any) -> None:
    source = model("(string[N] x, string[N] y) => (string[N] z) { a = StringConcat(x, y)  z = Identity(a) }")
    texts = np.array(["", "a", "äöü ☃", "x" * 1000, "with\nlines", "😀", "a b", "end"], object)
    (z,) = compared(source, provider, {"x": texts[:count], "y": texts[::-1][:count]})
    assert z.tolist() == [a + b for a, b in zip(texts[:count], texts[::-1][:count], strict=True)]


def test_constants_of_strings() -> None:
    source = model('(string[N] x) => (string[N] z) { c = Constant<value_strings = ["é"]>()  z = StringConcat(x, c) }')
    compared(source, OWN, {"x": np.array(["a", ""], object)})


@pytest.mark.parametrize("provider", [OWN, APART], ids=["together", "apart"])
@pytest.mark.parametrize("count", [0, 1, 7, 16])
@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
def test_floats_that_numpy_does_not_have(kind: str, count: int, provider: Any) -> None:
    code = getattr(TensorProto, kind)
    source = model(f"(float[N] x) => (float[N] y) {{ a = Cast<to = {code}>(x)  y = Cast<to = 1>(a) }}")
    x = np.linspace(-3, 3, count, dtype=np.float32)
    compared(source, provider, {"x": x})
    assert taken(OWN) == ["Cast", "Cast"]


@pytest.mark.parametrize("provider", [OWN, APART], ids=["together", "apart"])
@pytest.mark.parametrize("count", [0, 1, 7, 16])
@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_integers_of_four_bits(kind: str, count: int, provider: Any) -> None:
    zero = helper.make_tensor("z", getattr(TensorProto, kind), [], [2])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.array(0.5, np.float32), "s"), zero])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    (got,) = compared(source, provider, {"x": np.linspace(-6, 6, count, dtype=np.float32)})
    assert len(set(got.tolist())) == min(count, 16) or count in (7, 16)
    assert len(taken(OWN)) == 2


def test_sequences_are_declined_with_the_reason() -> None:
    source = model(
        "(float[N] x) => (float[M] y) { a = Abs(x)  s = SequenceConstruct(a, x)  y = ConcatFromSequence<axis=0>(s) }"
    )
    compared(source, OWN, {"x": np.array([-1, 2], np.float32)})
    assert taken(OWN) == ["Abs"]
    assert {node.operator for node in report(OWN).declined} == {"SequenceConstruct", "ConcatFromSequence"}
    for node in report(OWN).declined:
        assert "only tensors cross between onnxruntime and a provider" in node.reason


# Inputs


def test_optional_inputs_that_are_left_out() -> None:
    source = model("(float[N] x, float h) => (float[N] y) { a = Clip(x, , h)  y = Neg(a) }")
    x = np.array([-5, 0, 5], np.float32)
    for provider in (OWN, APART):
        (y,) = compared(source, provider, {"x": x, "h": np.array(1, np.float32)})
        assert y.tolist() == [5, 0, -1]


def test_optional_outputs_that_are_left_out() -> None:
    source = model(
        "(float[T,2,4] x, float[1,12,4] w, float[1,12,3] r) => (float[1,2,3] h)"
        "{ v = Abs(x)  , h = LSTM<hidden_size = 3>(v, w, r)  }"
    )
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.standard_normal(shape, dtype=np.float32)
        for name, shape in (("x", (5, 2, 4)), ("w", (1, 12, 4)), ("r", (1, 12, 3)))
    }
    compared(source, OWN, feeds)
    compared(source, APART, feeds)


@pytest.mark.parametrize("provider", [OWN, APART], ids=["together", "apart"])
def test_initializers_that_a_feed_overrides(provider: Any) -> None:
    made = onnx.load_from_string(model("(float[N] x, float[1] w) => (float[N] y) { a = Abs(x)  b = Mul(a, w)  y = Add(b, w) }"))
    made.graph.initializer.append(numpy_helper.from_array(np.array([2], np.float32), "w"))
    inside = session(made.SerializeToString(), provider)
    assert [value.name for value in inside.get_overridable_initializers()] == ["w"]
    x = np.array([-1, 2], np.float32)
    assert inside.run(None, {"x": x})[0].tolist() == [4, 6]
    assert inside.run(None, {"x": x, "w": np.array([3], np.float32)})[0].tolist() == [6, 9]
    assert inside.run(None, {"x": x})[0].tolist() == [4, 6]


def test_a_constant_that_is_also_an_output() -> None:
    source = model("(float[N] x) => (float[N] y, float[1] w) <float[1] v = {2}> { y = Mul(x, v)  w = Identity(v) }")
    compared(source, OWN, {"x": np.array([1, 2], np.float32)})


def test_attributes_of_every_kind() -> None:
    source = model(
        "(float[N,4] x) => (float[N,4] y, int64[N] k, float[N,8] u, float[1,1,4,4] i) {"
        " a = LeakyRelu<alpha = 0.25>(x)  y = Softmax<axis = 1>(a)  k = ArgMax<axis = 1, keepdims = 0>(y)"
        " c = Constant<value_floats = [1.5, -2.5, 0.0, 3.0]>()  d = Add(x, c)  u = Concat<axis = 1>(d, x)"
        " z = Constant<value_ints = [1, 1, 4, 4]>()"
        " e = ConstantOfShape<value = float[1] {0.5}>(z)"
        ' i = Resize<mode = "nearest", nearest_mode = "floor">(e, , , z) }'
    )
    compared(source, OWN, {"x": np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)})
    assert not report(OWN).declined


# Bodies

IF = (
    "(bool c, float[N] x) => (float[N] y) { z = Abs(x)  y = If(c) <then_branch = a () => (float[N] t) { s = OP(z)  t = Neg(s) },"
    " else_branch = b () => (float[N] e) { e = Add(z, x) }> }"
)
LOOP = (
    "(int64 n, float[N] x) => (float[N] y, float[M,N] s) { c = Constant<value = bool {1}>()  k = Neg(x)"
    " y, s = Loop(n, c, x) <body = b (int64 i, bool p, float[N] v) => (bool q, float[N] w, float[N] o)"
    " { q = Identity(p)  d = OP(v)  w = Add(d, k)  o = Mul(w, v) }> }"
)
SCAN = (
    "(float[T,N] x, float[N] z) => (float[N] y, float[T,N] s) { k = Abs(z)  y, s = Scan<num_scan_inputs = 1,"
    " body = b (float[N] h, float[N] v) => (float[N] g, float[N] o) { d = OP(v)  g = Add(h, d)  o = Mul(g, k) }>(z, x) }"
)
NESTED = (
    "(int64 n, bool c, float[N] x) => (float[N] y) { p = Constant<value = bool {1}>()  k = Abs(x)"
    " y = Loop(n, p, x) <body = b (int64 i, bool r, float[N] v) => (bool q, float[N] w) { q = Identity(r)  f = Mul(v, k)"
    " w = If(c) <then_branch = t () => (float[N] t1) { t1 = OP(f) },"
    " else_branch = e () => (float[N] e1) { m = Neg(k)  e1 = Add(v, m) }> }> }"
)
ALONE = (
    "(float[T,N] x, float[N] z) => (float[N] y, float[T,N] s) { k = Abs(z)  y, s = Scan<num_scan_inputs = 1,"
    " body = b (float[N] h, float[N] v) => (float[N] g, float[N] o) { d = OP(v)  g = Add(h, d)  o = Mul(g, v) }>(k, x) }"
)
ROW = np.array([-0.5, 0.25, 0.5], np.float32)
FLAGS = [{"c": np.array(flag)} for flag in (True, False)]
COUNTS = [{"n": np.array(count)} for count in (3, 1, 0)]
BODIES = {
    "If": (IF, [{"x": ROW, **flag} for flag in FLAGS]),
    "Loop": (LOOP, [{"x": ROW, **count} for count in COUNTS[:2]]),  # none: onnxruntime's stacked result has no shape
    "Scan": (SCAN, [{"x": np.stack([ROW] * length), "z": ROW} for length in (4, 1)]),
    "no captures": (ALONE, [{"x": np.stack([ROW] * 4), "z": ROW}]),
    "nested": (NESTED, [{"x": ROW, **count, **flag} for count in COUNTS for flag in FLAGS]),
}


def with_operator(text: str, op_type: str) -> bytes:
    return model(text.replace("OP(", f"{op_type}("))


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_are_taken_whole(kind: str) -> None:
    text, feeds = BODIES[kind]
    source = with_operator(text, "Tanh")
    for feed in feeds:
        compared(source, OWN, feed)
        if PASSES_CAPTURES or kind == "no captures":
            assert not report(OWN).declined
        else:
            assert any("does not pass values that bodies read" in node.reason for node in report(OWN).declined)


@pytest.mark.parametrize("kind", BODIES)
def test_a_node_that_stays_keeps_the_node_around_it_in_onnxruntime(kind: str) -> None:
    text, feeds = BODIES[kind]
    source = with_operator(text, "Exp")
    for feed in feeds:
        compared(source, NO_EXP, feed)
    reasons = {node.operator: node.reason for node in report(NO_EXP).declined}
    assert "Exp is left out" in reasons.pop("Exp")
    assert set(reasons) == {"nested": {"Loop", "If"}, "no captures": {"Scan"}}.get(kind, {kind})
    assert taken(NO_EXP), "nodes of the bodies are taken on their own"
    assert {node.operator for node in report(NO_EXP).nodes if node.graph != "main" and node.partition}


@pytest.mark.parametrize("kind", BODIES)
def test_each_node_apart(kind: str) -> None:
    text, feeds = BODIES[kind]
    for feed in feeds:
        compared(with_operator(text, "Tanh"), APART, feed)


@pytest.mark.parametrize("provider", [OWN, APART], ids=["together", "apart"])
def test_the_body_of_a_function_stays(provider: Any) -> None:
    """onnxruntime has no kernel for SequenceMap: it puts a Loop in its place, and would not know the fused nodes inside."""
    source = model(
        "(float[N] x) => (float[M] y) { a = Abs(x)  s = SequenceConstruct(a, x)"
        " t = SequenceMap<body = each (float[N] e) => (float[N] f) { f = Neg(e) }>(s)  y = ConcatFromSequence<axis = 0>(t) }"
    )
    (y,) = compared(source, provider, {"x": np.array([-1, 2], np.float32)})
    assert y.tolist() == [-1, -2, 1, -2]
    (why,) = {node.reason for node in report(OWN).nodes if node.graph == "each"}
    assert "puts a function in the place of the node" in why


def test_functions_of_a_model_are_inlined() -> None:
    own = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Twice", ["x"], ["y"], domain="own")], "g", [x], [y])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    made = helper.make_model(graph, opset_imports=imports, functions=[own], ir_version=10)
    assert compared(made.SerializeToString(), OWN, {"x": ROW})[0].tolist() == (2 * ROW).tolist()


def test_external_data(tmp_path: Any) -> None:
    made = onnx.load_from_string(model("(float[N,8] x, float[8,8] w) => (float[N,8] y) { y = MatMul(x, w) }"))
    weight = np.random.default_rng(0).standard_normal((8, 8), dtype=np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    del made.graph.input[1]
    path = str(tmp_path / "model.onnx")
    onnx.save(made, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    inside = session(path, OWN)
    x = np.ones((2, 8), np.float32)
    np.testing.assert_allclose(inside.run(None, {"x": x})[0], x @ weight, rtol=1e-5)
