"""The IR: exact def-use, attributes."""

import numpy as np
import pytest

from ort_lite.errors import InvalidGraph
from ort_lite.graph import Attr, Graph, Node
from tests.graph.test_graph import FLOAT, chain, op, value, with_body


class TestDefUse:
    def test_a_value_knows_its_producer_and_every_read(self) -> None:
        x = value("x")
        node = op("Add", x, x, to="y")
        assert list(x.uses) == [(node, 0), (node, 1)]
        assert x.readers == [node]
        assert node.output.producer is node
        assert not node.output.uses

    def test_replacing_an_input_moves_the_use(self) -> None:
        x, z = value("x"), value("z")
        node = op("Add", x, x, to="y")
        node.replace_input(1, z)
        node.replace_input(0, None)
        assert node.inputs == (None, z)
        assert not x.uses
        assert list(z.uses) == [(node, 1)]

    def test_reads_in_a_body_are_reads(self) -> None:
        x = value("x")
        body, node = with_body(x)
        assert x.readers == body.nodes
        assert node.captures() == [x]

    def test_two_producers_are_refused_and_leave_no_use_behind(self) -> None:
        x, node = value("x"), op("Relu", value("a"), to="y", name="first")
        with pytest.raises(InvalidGraph, match=r"Neg 'second': 'y' is already an output of .*Relu"):
            Node("Neg", [x], [node.output], name="second")
        assert not x.uses

    def test_all_uses_are_replaced_also_in_bodies(self) -> None:
        x, z = value("x"), value("z")
        reader = op("Neg", x, to="y")
        body, _ = with_body(x)
        x.replace_all_uses_with(z)
        assert not x.uses
        assert z.readers == [reader, *body.nodes]

    def test_a_graph_output_hands_its_name_on(self) -> None:
        graph, (relu, neg) = chain("Relu", "Neg")
        neg.output.replace_all_uses_with(relu.output)
        assert [v.name for v in graph.outputs] == ["y1"]
        assert graph.outputs == (relu.output,)
        assert neg.output.name == "y0"
        assert not neg.output.is_graph_output()

    def test_a_graph_output_keeps_its_name_where_the_other_value_has_one_to_keep(self) -> None:
        graph, (relu, neg) = chain("Relu", "Neg")
        graph.set_outputs([neg.output, relu.output])
        for one, other in [(neg.output, relu.output), (neg.output, graph.inputs[0]), (neg.output, value("constant"))]:
            assert not one.can_be_replaced_by(other)
            with pytest.raises(InvalidGraph, match="'y1' would lose its name"):
                one.replace_all_uses_with(other)

    def test_an_input_that_is_an_output_too_keeps_its_name(self) -> None:
        graph, (relu,) = chain("Relu")
        graph.set_outputs([graph.inputs[0]])
        assert not graph.inputs[0].can_be_replaced_by(relu.output)

    def test_a_value_may_be_an_output_twice(self) -> None:
        graph, (relu,) = chain("Relu")
        graph.set_outputs([relu.output, relu.output])
        assert relu.output.is_graph_output()
        graph.set_outputs([])
        assert not relu.output.is_graph_output()


class TestNode:
    def test_the_first_output_may_be_missing(self) -> None:
        with pytest.raises(InvalidGraph, match="Split 's' has no first output"):
            _ = Node("Split", [], [None, value("y")], name="s").output

    def test_attributes_have_values_and_defaults(self) -> None:
        node = op("Softmax", value("x"), to="y", axis=1)
        assert node.attr("axis", -1) == 1
        assert node.attr("absent", -1) == -1
        assert node.attr("absent") is None

    @pytest.mark.parametrize(
        ("given", "type_", "expected"),
        [
            (3, "INT", 3),
            (True, "INT", 1),
            (np.int64(3), "INT", 3),
            (np.bool_(True), "INT", 1),
            (0.5, "FLOAT", 0.5),
            (np.float32(0.5), "FLOAT", 0.5),
            ("same", "STRING", "same"),
            ([1, 2], "INTS", [1, 2]),
            ((1, 2), "INTS", [1, 2]),
            (range(2), "INTS", [0, 1]),
            ([np.int32(1)], "INTS", [1]),
            ([], "INTS", []),
            ([1, 0.5], "FLOATS", [1.0, 0.5]),
            (["a", "b"], "STRINGS", ["a", "b"]),
            (FLOAT, "TYPE_PROTO", FLOAT),
            ([FLOAT], "TYPE_PROTOS", [FLOAT]),
        ],
        ids=repr,
    )
    def test_python_values_become_attributes(self, given: object, type_: str, expected: object) -> None:
        attribute = Attr.of("a", given)
        assert (attribute.name, attribute.type, attribute.value) == ("a", type_, expected)
        assert type(attribute.value) is type(expected)

    def test_arrays_graphs_and_attributes_become_attributes(self) -> None:
        array, graph = np.zeros(2), Graph()
        assert Attr.of("a", array).type == "TENSOR"
        assert Attr.of("a", array).value is array
        assert Attr.of("a", [array]).type == "TENSORS"
        assert Attr.of("a", graph).type == "GRAPH"
        assert Attr.of("a", [graph]).type == "GRAPHS"
        reference = Attr("a", "INT", None, "axis")
        assert Attr.of("b", reference) is reference

    @pytest.mark.parametrize(
        "given", [None, object(), {}, [1, "a"], [None]], ids=["None", "object", "dict", "mixed", "list of None"]
    )
    def test_other_values_are_refused(self, given: object) -> None:
        with pytest.raises(TypeError, match="attribute a"):
            Attr.of("a", given)
