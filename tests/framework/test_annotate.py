import pytest

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference.annotate import annotate
from ort_lite.plugins import plugins
from ort_lite.serialization.overrides import override_dimensions
from tests.text_graphs import model


def test_every_value_gets_its_type() -> None:
    body = """{ s = Shape(x) y = Reshape(w, s) z = If (b) <then_branch = t () => (float[A,3] p) { p = Neg(y) },
                                                           else_branch = e () => (float[A,3] q) { q = Abs(x) }> }"""
    graph = model("(float[A,3] x, float[U] w, bool b) => (float[A,3] z)", body).graph
    annotate(graph, plugins.shape_rules())
    types = {v.name: str(v.type) for node in graph.all_nodes() for v in node.outputs if v is not None}
    assert types == {"s": "int64[2]", "y": "float32[A, 3]", "z": "float32[A, 3]", "p": "float32[A, 3]", "q": "float32[A, 3]"}


def test_declared_shapes_are_not_believed() -> None:
    graph = model("(float[A,3] x) => (float[7] z)", "{ z = Neg(x) }").graph
    annotate(graph, plugins.shape_rules())
    assert str(graph.outputs[0].type) == "float32[A, 3]"


def test_shapes_that_do_not_fit_name_the_node() -> None:
    graph = model("(float[2,3] x, float[2] y) => (float[2] z)", "{ z = Add(x, y) }").graph
    with pytest.raises(ShapeInferenceError, match="Add 'Add_0'"):
        annotate(graph, plugins.shape_rules())


def test_free_dimensions_become_numbers() -> None:
    loaded = model("(float[A,B] x, float[B] y) => (float[A,B] z)", "{ z = Add(x, y) }")
    graph = loaded.graph
    override_dimensions(loaded, {"B": 5, "nobody": 7})
    annotate(graph, plugins.shape_rules())
    assert [str(value.type) for value in (*graph.inputs, *graph.outputs)] == ["float32[A, 5]", "float32[5]", "float32[A, 5]"]
