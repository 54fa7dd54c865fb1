"""Reduction of failing models."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, parser

from ort_lite.testing.generator.reduction import reduce
from ort_lite.testing.generator.reduction.graphs import all_graphs

HEAD = '<ir_version: 10, opset_import: ["": 18]>\n'


def operators(model: Any) -> list[str]:
    """The operators of all nodes, bodies and functions included."""
    nodes = [node for graph in all_graphs(model.graph) for node in graph.node]
    return [node.op_type for node in (*nodes, *(node for one in model.functions for node in one.node))]


def has(*wanted: str) -> Any:
    """A failure that needs nodes of these operators, each of which reads the one before."""

    def fails(model: Any, feeds: Mapping[str, Any]) -> bool:
        assert {value.name for value in model.graph.input} == {*feeds}
        if not valid(model):
            return False
        for graph in all_graphs(model.graph):
            producers = {name: node for node in graph.node for name in node.output}
            for node in graph.node:
                chain = [node]
                while chain[-1].input and (before := producers.get(chain[-1].input[0])) is not None:
                    chain.append(before)
                if tuple(one.op_type for one in reversed(chain[: len(wanted)])) == wanted:
                    return True
        return False

    return fails


def valid(model: Any) -> bool:
    """The checker wants outputs to have types, which it does not compare."""
    other = onnx.ModelProto.FromString(model.SerializeToString())
    for value in other.graph.output:
        value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    try:
        onnx.checker.check_model(other)
    except onnx.checker.ValidationError:
        return False
    return True


def test_nodes_around_a_failure_are_cut() -> None:
    model = parser.parse_model(
        HEAD
        + """agraph (float[3, 4] x, float[3, 4] y) => (float[3, 4] a, float[3, 4] b, float[4, 3] c) {
        p = Add (x, y)
        q = Exp (p)
        r = Relu (q)
        s = Neg (r)
        t = Tanh (s)
        a = Mul (t, y)
        b = Sub (p, y)
        u = Transpose <perm = [1, 0]> (t)
        c = Abs (u)
    }"""
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    small, feeds = reduce(model, {"x": x, "y": x}, has("Relu", "Neg"))
    assert operators(small) == ["Relu", "Neg"]
    assert [value.name for value in small.graph.output] == ["s"]
    assert list(feeds) == ["q"]
    assert feeds["q"].size < 4


def test_recorded_values_take_the_place_of_nodes() -> None:
    """The failure depends on the contents of an intermediate value."""
    model = parser.parse_model(
        HEAD
        + """agraph (float[2] x) => (float[2] y) {
        p = Add (x, x)
        q = Mul (p, p)
        y = Sqrt (q)
    }"""
    )

    def fails(model: Any, feeds: Mapping[str, Any]) -> bool:
        return (
            valid(model)
            and "Sqrt" in operators(model)
            and (len(operators(model)) > 1 or 36.0 in feeds[model.graph.node[0].input[0]])
        )

    small, feeds = reduce(model, {"x": np.array([1, 3], np.float32)}, fails)
    assert operators(small) == ["Sqrt"]
    assert 36.0 in feeds["q"]


def test_constants_stay_constants_where_that_matters() -> None:
    model = parser.parse_model(
        HEAD
        + """agraph (float[2] x) => (float[2] y) {
        c = Constant <value = float[2] {1, 2}> ()
        y = Pow (x, c)
    }"""
    )

    def fails(model: Any, feeds: Mapping[str, Any]) -> bool:
        return valid(model) and "Pow" in operators(model) and "c" not in feeds

    small, _ = reduce(model, {"x": np.ones(2, np.float32)}, fails)
    assert operators(small) == ["Pow"]
    assert [one.name for one in small.graph.initializer] == ["c"]


def body_model() -> tuple[Any, dict[str, Any]]:
    """A Loop whose body has an If whose branches have the failure."""
    text = """agraph (float[2] x) => (float[2] y) <int64 m = {3}> {
        r = Relu (x)
        y = Loop (m, , r) <body = body (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
            w = If (c) <then_branch = then () => (float[2] f) { e = Erf (v)  f = Add (e, v) },
                        else_branch = other () => (float[2] g) { g = Neg (v) }>
            d = Identity (c)
        }>
    }"""
    return parser.parse_model(HEAD + text), {"x": np.ones(2, np.float32)}


def test_bodies_are_taken_apart() -> None:
    model, feeds = body_model()
    small, _ = reduce(model, feeds, has("Erf"))
    assert operators(small) == ["Erf"]


def test_bodies_are_reduced_where_they_are_needed() -> None:
    model, feeds = body_model()

    def fails(model: Any, feeds: Mapping[str, Any]) -> bool:
        return valid(model) and "x" in feeds and "Loop" in operators(model) and "Erf" in operators(model)

    small, _ = reduce(model, feeds, fails)
    assert sorted(operators(small)) == ["Erf", "If", "Loop", "Neg"]


def test_functions_are_inlined() -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "own": 1]>'
        + """agraph (float[2] x) => (float[2] y) { y = own.twice (x) }
        <domain: "own", opset_import: ["": 18]> twice (a) => (b) {
            c = Erf (a)
            d = Add (c, c)
            b = Neg (d)
        }"""
    )
    small, _ = reduce(model, {"x": np.ones(2, np.float32)}, has("Erf"))
    assert operators(small) == ["Erf"]
    assert not small.functions


def test_attributes_and_optional_inputs_are_dropped() -> None:
    model = parser.parse_model(
        HEAD
        + """agraph (float[6] x) => (float[6] y) <float low = {0}, float high = {1}> {
        p = LeakyRelu <alpha = 0.5> (x)
        y = Clip (p, low, high)
    }"""
    )
    small, feeds = reduce(model, {"x": np.ones(6, np.float32)}, has("LeakyRelu", "Clip"))
    assert [len(node.attribute) for node in small.graph.node] == [0, 0]
    assert [len(node.input) for node in small.graph.node] == [1, 1]
    assert feeds["x"].shape == (1,)


def test_time_is_limited() -> None:
    model, feeds = body_model()
    small, _ = reduce(model, feeds, has("Erf"), seconds=0)
    assert operators(small) == operators(model)
