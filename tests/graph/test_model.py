"""Models: copies, pickles, names."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.errors import RuntimeException
from ort_lite.graph import Attr, Function, Graph, Model, Names, TensorType, Value
from ort_lite.graph.released import drop_constant
from ort_lite.shapes import symbol
from tests.graph.test_graph import chain, op, value, with_body


def of_every_kind() -> Model:
    """A body that captures, tensors in attributes, an array that is in two places, symbolic dims, a function with defaults."""
    w = Value("w", constant=np.array([1, 2], ml_dtypes.bfloat16))
    again, text = Value("again", constant=w.constant), Value("text", constant=np.array(["a", "bc"], object))
    x = Value("x", TensorType("float32", (symbol("n"), symbol("n") // 2)))
    graph = Graph("main", [x])
    for constant in (w, again, text):
        graph.add_initializer(constant)
    captured = graph.append(op("Relu", x, None, x, to="captured", tensors=[w.constant, np.array(3, np.int8)])).output
    graph.append(with_body(captured, captured)[1])
    graph.set_outputs([captured, captured])
    body, (inner,) = chain("LeakyRelu")
    inner.attributes["alpha"] = Attr("alpha", "FLOAT", None, "slope")
    function = Function(
        "my", "f", "", body, ["beta"], {"slope": Attr.of("slope", 0.5), "g": Attr.of("g", Graph("g"))}, {"": 17}
    )
    return Model(graph, {"": 17, "my": 1}, 9, {("my", "f", ""): function}, {"a": "b"}, unnamed_dims={"x_0": ""})


class TestClone:
    def test_a_copy_of_a_model_does_not_see_changes(self) -> None:
        graph, (relu,) = chain("Relu")
        model = Model(graph, {"": 17}, metadata_props={"a": "b"}, unnamed_dims={"x_0": ""})
        copy = model.clone()
        graph.set_outputs([])
        graph.remove(relu)
        model.opset_imports["com.microsoft"] = 1
        model.metadata_props["c"] = "d"
        model.unnamed_dims.clear()
        assert [node.op_type for node in copy.graph] == ["Relu"]
        assert (copy.opset_imports, copy.metadata_props, copy.unnamed_dims) == ({"": 17}, {"a": "b"}, {"x_0": ""})

    def test_functions_have_graphs_of_their_own(self) -> None:
        model = of_every_kind()
        for made in (model.clone(), copy.copy(model)):
            (mine,), (theirs,) = made.functions.values(), model.functions.values()
            theirs_node, mine_node = theirs.graph.nodes[0], mine.graph.nodes[0]
            assert mine_node is not theirs_node
            del mine.defaults["slope"]
            assert "slope" in theirs.defaults
            assert made.graph.initializers["w"].constant is model.graph.initializers["w"].constant


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deepcopy", "pickle"])
class TestPickle:
    def test_what_comes_back_is_the_same_and_shares_nothing(self, again: Callable[[Model], Model]) -> None:
        model = of_every_kind()
        made = again(model)
        assert str(made.graph) == str(model.graph)
        assert made.graph.inputs[0].type == model.graph.inputs[0].type
        assert (made.opset_imports, made.ir_version, made.metadata_props) == (model.opset_imports, 9, {"a": "b"})
        (key,), (mine,), (theirs,) = made.functions, made.functions.values(), model.functions.values()
        assert (key, mine.attributes, mine.defaults["slope"]) == (("my", "f", ""), ["beta"], theirs.defaults["slope"])
        assert mine.graph.nodes[0].attributes == theirs.graph.nodes[0].attributes
        assert isinstance(mine.defaults["g"].value, Graph)
        for name in ("w", "text"):
            one, other = made.graph.initializers[name].constant, model.graph.initializers[name].constant
            assert one is not None
            assert other is not None
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()
            assert not np.shares_memory(one, other)

    def test_who_reads_what_stays(self, again: Callable[[Model], Model]) -> None:
        graph = again(of_every_kind()).graph
        relu, if_ = graph.nodes
        assert relu.inputs == (graph.inputs[0], None, graph.inputs[0])
        assert if_.captures() == [relu.output]
        assert graph.outputs == (relu.output, relu.output)
        assert [node.op_type for node in relu.output.readers] == ["Add"]
        assert graph.initializers["w"].constant is graph.initializers["again"].constant is relu.attr("tensors")[0]
        assert relu.output.is_graph_output()

    def test_a_graph_may_be_long_and_bodies_deep(self, again: Callable[[Model], Model]) -> None:
        graph, _ = chain(*["Relu"] * 5000)
        for depth in range(200):
            outer = Graph(f"outer{depth}")
            outer.append(op("If", None, to=f"out{depth}", body=graph))
            graph = outer
        made = again(Model(graph, {"": 17})).graph
        for _ in range(200):
            made = made.nodes[0].attr("body")
        assert len(made) == 5000

    def test_a_constant_that_was_given_up_cannot_be_copied(self, again: Callable[[Model], Model]) -> None:
        graph = Graph("main")
        gone = graph.add_initializer(Value("w", constant=np.zeros(2, np.float32)))
        gone.constant = drop_constant(gone)
        with pytest.raises(RuntimeException, match="constant 'w' was given up"):
            again(Model(graph, {"": 17}))


def test_a_pickle_means_the_same_in_another_process() -> None:
    """Hashes of strings differ there, and symbols are looked up by theirs."""
    script = (
        "import pickle, sys; from ort_lite.shapes import symbol; n = symbol('n')\n"
        "shape = pickle.load(sys.stdin.buffer).graph.inputs[0].shape\n"
        "assert {n: 1, n // 2: 2}[shape[0]] == 1 and shape[0] == n and shape[1] == n // 2"
    )
    subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(of_every_kind()),
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )


class TestNames:
    def test_a_taken_name_gets_a_number(self) -> None:
        graph, _ = chain("Relu")
        _, node = with_body(graph.inputs[0])
        graph.append(node)
        names = Names(graph)
        assert [names("x"), names("x"), names("new"), names("new")] == ["x_1", "x_2", "new", "new_1"]
        assert names("result") == "result_1"
        assert names("") == "_1"

    @given(st.lists(st.sampled_from(["a", "a_1", "a_1_1", "b"]), max_size=12))
    def test_no_name_comes_twice(self, bases: list[str]) -> None:
        names = Names(Graph("g", [value("a")]))
        made = [names(base) for base in bases]
        assert len({"a", *made}) == len(made) + 1
