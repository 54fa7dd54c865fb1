"""Models: copies, names."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.graph import Graph, Model, Names
from tests.framework.test_graph import chain, value, with_body


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


class TestNames:
    def test_a_taken_name_gets_a_number(self) -> None:
        graph, _ = chain("Relu")
        _, node = with_body(graph.inputs[0])
        graph.append(node)
        names = Names(graph)
        assert [names("x"), names("x"), names("new"), names("new")] == ["x_1", "x_2", "new", "new_1"]
        assert names("result") == "result_1"
        assert names("") == "_1"

    @settings(deadline=None)
    @given(st.lists(st.sampled_from(["a", "a_1", "a_1_1", "b"]), max_size=12))
    def test_no_name_comes_twice(self, bases: list[str]) -> None:
        names = Names(Graph("g", [value("a")]))
        made = [names(base) for base in bases]
        assert len({"a", *made}) == len(made) + 1
