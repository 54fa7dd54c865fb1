"""The IR: stable order, captures, copies, text."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.errors import InvalidGraph
from ort_lite.graph import Attr, Graph, MapType, Node, OptionalType, SequenceType, TensorType, Type, Value, type_name
from ort_lite.shapes import symbol
from tests.graph.test_graph import chain, op, value, with_body
from tests.partition.random_graphs import random_graph


class TestOrder:
    def test_a_sorted_graph_keeps_its_order(self) -> None:
        graph = random_graph(seed=1, size=40, depth=2)
        before = list(graph.all_nodes())
        graph.sort()
        assert list(graph.all_nodes()) == before

    @given(st.integers(0, 1000), st.randoms(use_true_random=False))
    def test_any_shuffled_graph_becomes_topological(self, seed: int, random: Random) -> None:
        graph = random_graph(seed, size=20, depth=2)
        shuffled = Graph("shuffled", graph.inputs)
        nodes = graph.nodes
        for node in nodes:
            graph._unlink(node)
        random.shuffle(nodes)
        shuffled.extend(nodes)
        shuffled.sort()
        position = {node: k for k, node in enumerate(shuffled)}
        for node in shuffled:
            read = [v.producer for v in (*node.inputs, *node.captures()) if v is not None]
            assert all(position[producer] < position[node] for producer in read if producer in position)

    def test_ready_nodes_keep_their_order(self) -> None:
        x = value("x")
        late, early = op("Relu", x, to="a"), op("Neg", x, to="b")
        reader = op("Add", late.output, early.output, to="c")
        graph = Graph("g", [x])
        graph.extend([reader, late, early])
        graph.sort()
        assert graph.nodes == [late, early, reader]

    def test_a_body_waits_for_what_it_captures(self) -> None:
        x = value("x")
        producer = op("Relu", x, to="a")
        _, node = with_body(producer.output)
        graph = Graph("g", [x])
        graph.extend([node, producer])
        graph.sort()
        assert graph.nodes == [producer, node]

    def test_bodies_are_sorted_too(self) -> None:
        body, node = with_body(value("x"), value("y"))
        add, relu = body.nodes
        body._unlink(add)
        body.append(add)
        graph = Graph("g")
        graph.append(node)
        graph.sort()
        assert body.nodes == [add, relu]

    def test_a_cycle_is_named_in_the_direction_of_the_data(self) -> None:
        x = value("x")
        first = op("Relu", x, to="a")
        second = op("Neg", first.output, to="b")
        first.replace_input(0, second.output)
        graph = Graph("g", [x])
        graph.extend([op("Abs", x, to="c"), second, first, op("Exp", second.output, to="d")])
        with pytest.raises(InvalidGraph, match="the graph has a cycle: Neg 'b' -> Relu 'a' -> Neg 'b'"):
            graph.sort()

    def test_a_node_that_reads_itself_is_a_cycle(self) -> None:
        node = op("Relu", value("x"), to="a")
        node.replace_input(0, node.output)
        graph = Graph("g")
        graph.append(node)
        with pytest.raises(InvalidGraph, match="cycle: Relu 'a' -> Relu 'a'"):
            graph.sort()

    def test_a_body_that_reads_the_result_of_its_own_node_is_a_cycle(self) -> None:
        body, node = with_body(value("x"))
        body.nodes[0].replace_input(0, node.output)
        graph = Graph("g")
        graph.append(node)
        with pytest.raises(InvalidGraph, match="cycle: If 'if' -> If 'if'"):
            graph.sort()


class TestCaptures:
    def test_they_come_once_in_order_of_appearance_from_all_levels(self) -> None:
        x, y, z = value("x"), value("y"), value("z")
        inner, inner_node = with_body(z, x)
        outer = Graph("outer")
        outer.append(op("Relu", y, to="own"))
        outer.append(inner_node)
        outer.set_outputs([inner_node.output])
        assert inner.captures() == [z, x]
        flag = inner_node.inputs[0]
        assert outer.captures() == [y, flag, z, x]

    def test_a_body_that_returns_an_outer_value_captures_it(self) -> None:
        x = value("x")
        body = Graph("body")
        body.set_outputs([x])
        assert body.captures() == [x]

    def test_own_inputs_initialisers_and_results_are_no_captures(self) -> None:
        x, w = value("x"), Value("w", constant=np.zeros(2, np.float32))
        body = Graph("body", [x])
        body.add_initializer(w)
        body.set_outputs([body.append(op("Add", x, w, to="y")).output])
        assert body.captures() == []


class TestClone:
    def test_a_copy_has_the_same_text_and_values_of_its_own(self) -> None:
        graph = random_graph(seed=3, size=40, depth=2)
        copy = graph.clone()
        assert str(copy) == str(graph)
        theirs = {v for node in graph.all_nodes() for v in (*node.inputs, *node.outputs)}
        ours = {v for node in copy.all_nodes() for v in (*node.inputs, *node.outputs)}
        assert not theirs & ours - {None}
        assert not copy.captures()

    def test_constants_are_shared(self) -> None:
        graph = random_graph(seed=3, size=3)
        copy = graph.clone()
        assert copy.initializers["w0"].constant is graph.initializers["w0"].constant

    def test_a_mapping_puts_other_values_in_the_place_of_inputs(self) -> None:
        graph, _ = chain("Relu")
        other = value("other")
        copy = graph.clone({graph.inputs[0]: other}, name="copy")
        assert str(copy) == "copy (float32[2] other) => (float32[2] y0) {\n  y0 = Relu(other)\n}"

    def test_an_overridable_initialiser_stays_one_value(self) -> None:
        w = Value("w", constant=np.zeros(2, np.float32))
        graph = Graph("g", [w])
        graph.add_initializer(w)
        copy = graph.clone()
        assert copy.inputs[0] is copy.initializers["w"]


class TestText:
    def test_a_graph_with_everything(self) -> None:
        n = symbol("n")
        x = Value("x", TensorType("float32", (n, 2)))
        _, node = with_body(x)
        [flag] = node.inputs
        assert flag is not None
        graph = Graph("main", [x, flag])
        graph.add_initializer(Value("w", constant=np.zeros((2, 3), np.float32)))
        graph.append(node)
        perm = graph.append(Node("Transpose", [node.output], [Value("t", TensorType("float32"))], {"perm": [1, 0]}))
        text = {
            "mode": "same",
            "scale": 0.5,
            "table": np.array([1, 2]),
            "big": np.zeros(9),
            "up": Attr("up", "INT", None, "axis"),
        }
        z = value("z")
        graph.append(Node("Op", [perm.output, None], [None, z], text, domain="my.domain"))
        graph.set_outputs([z])
        assert str(graph).splitlines() == [
            "main (float32[n, 2] x, float32[2] flag) => (float32[2] z) {",
            "  w = constant float32[2, 3]",
            "  out = If(flag)",
            "      body () => (float32[2] result) {",
            "        result = Relu(x)",
            "      }",
            "  t = Transpose<perm=[1, 0]>(out)",
            '  , z = my.domain.Op<mode="same", scale=0.5, table=int64[2] [1, 2], big=float64[9], up=@axis>(t, )',
            "}",
        ]

    @pytest.mark.parametrize(
        ("type_", "text", "ort"),
        [
            (TensorType("float32", (2, symbol("n"))), "float32[2, n]", "tensor(float)"),
            (TensorType("int64", ()), "int64[]", "tensor(int64)"),
            (TensorType("string"), "string[...]", "tensor(string)"),
            (SequenceType(TensorType("float64")), "seq(float64[...])", "seq(tensor(double))"),
            (
                SequenceType(MapType("int64", TensorType("float32", ()))),
                "seq(map(int64, float32[]))",
                "seq(map(int64,tensor(float)))",
            ),
            (OptionalType(SequenceType(TensorType("bool"))), "optional(seq(bool[...]))", "optional(seq(tensor(bool)))"),
            (None, "None", "unknown"),
        ],
        ids=str,
    )
    def test_types(self, type_: Type | None, text: str, ort: str) -> None:
        assert str(type_) == text
        assert type_name(type_) == ort

    def test_a_value_and_a_node_show_what_they_are(self) -> None:
        node = op("Relu", value("x"), to="y", name="r")
        assert repr(node) == "y = Relu(x)"
        assert str(node) == "Relu 'r'"
        assert repr(node.output) == "%y: float32[2]"
