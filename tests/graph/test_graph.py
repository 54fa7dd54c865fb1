"""The IR: safe mutation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Node, TensorType, Value

FLOAT = TensorType("float32", (2,))


def value(name: str) -> Value:
    return Value(name, FLOAT)


def op(op_type: str, *inputs: Value | None, to: str, name: str = "", **attributes: object) -> Node:
    return Node(op_type, inputs, [value(to)], attributes, version=17, name=name or to)


def chain(*op_types: str) -> tuple[Graph, list[Node]]:
    """x -> op -> op -> ... ; the last output is the graph's."""
    x = value("x")
    graph, nodes = Graph("chain", [x]), []
    for k, op_type in enumerate(op_types):
        nodes.append(graph.append(op(op_type, x, to=f"y{k}")))
        x = nodes[-1].output
    graph.set_outputs([x])
    return graph, nodes


def with_body(*captured: Value) -> tuple[Graph, Node]:
    """A body that adds up what it captures, and the If that has it as both branches' pattern."""
    body = Graph("body")
    total = captured[0]
    for k, other in enumerate(captured[1:]):
        total = body.append(op("Add", total, other, to=f"sum{k}")).output
    body.set_outputs([body.append(op("Relu", total, to="result")).output])
    return body, Node("If", [value("flag")], [value("out")], {"then_branch": body}, version=17, name="if")


class TestMutation:
    def test_nodes_are_kept_in_the_order_in_which_they_were_put(self) -> None:
        graph, (relu, neg) = chain("Relu", "Neg")
        first = graph.insert_before(relu, op("Abs", graph.inputs[0], to="a"))
        last = graph.insert_after(neg, op("Abs", graph.inputs[0], to="b"))
        middle = graph.insert_after(relu, op("Abs", graph.inputs[0], to="c"))
        assert graph.nodes == [first, relu, middle, neg, last]
        assert len(graph) == 5
        assert all(node.graph is graph for node in graph)

    def test_a_node_is_in_one_graph(self) -> None:
        _, (relu,) = chain("Relu")
        with pytest.raises(InvalidGraph, match="Relu 'y0' is in a graph already"):
            Graph().append(relu)

    def test_a_removed_node_reads_nothing_and_can_be_put_elsewhere(self) -> None:
        graph, (relu, neg) = chain("Relu", "Neg")
        graph.set_outputs([relu.output])
        graph.remove(neg)
        assert graph.nodes == [relu]
        assert not relu.output.uses
        assert neg.graph is None

    def test_a_node_that_is_read_cannot_be_removed(self) -> None:
        graph, (relu, neg) = chain("Relu", "Neg")
        with pytest.raises(InvalidGraph, match="Relu 'y0' cannot be removed: its output 'y0' is read by Neg 'y1'"):
            graph.remove(relu)
        with pytest.raises(InvalidGraph, match="its output 'y1' is a graph output"):
            graph.remove(neg)

    def test_removing_a_node_gives_back_what_its_bodies_read(self) -> None:
        x = value("x")
        _, node = with_body(x, x)
        graph = Graph("g", [x])
        graph.append(node)
        graph.remove(node)
        assert not x.uses
        assert len(graph) == 0

    def test_clearing_empties_a_graph(self) -> None:
        graph, _ = chain("Relu", "Neg", "Abs")
        graph.clear()
        assert graph.nodes == []
        assert not graph.inputs[0].uses
        assert bool(graph)

    def test_a_node_inserted_after_the_current_one_is_visited(self) -> None:
        graph, _ = chain("Relu", "Neg")
        seen = []
        for node in graph:
            seen.append(node.op_type)
            if node.op_type == "Relu":
                graph.insert_after(node, op("Abs", node.output, to="a"))
                graph.insert_before(node, op("Exp", graph.inputs[0], to="e"))
        assert seen == ["Relu", "Abs", "Neg"]

    def test_nodes_removed_during_iteration_are_not_visited(self) -> None:
        graph, (relu, neg, absolute) = chain("Relu", "Neg", "Abs")
        graph.set_outputs([])
        seen = []
        for node in graph:
            seen.append(node)
            if node is relu:
                graph.remove(absolute)
                graph.remove(neg)
                graph.remove(relu)
                last = graph.append(op("Exp", graph.inputs[0], to="e"))
        assert seen == [relu]
        assert graph.nodes == [last]

    @given(st.lists(st.tuples(st.sampled_from(["append", "before", "after", "remove"]), st.integers(0, 30)), max_size=30))
    def test_any_sequence_of_changes_is_what_it_would_be_on_a_list(self, steps: list[tuple[str, int]]) -> None:
        graph = Graph()
        oracle: list[Node] = []
        for k, (step, where) in enumerate(steps):
            node = Node("Op", [], [], name=str(k))
            if not oracle or step == "append":
                oracle.append(graph.append(node))
                continue
            anchor = oracle[where % len(oracle)]
            if step == "remove":
                oracle.remove(anchor)
                graph.remove(anchor)
            else:
                oracle.insert(oracle.index(anchor) + (step == "after"), node)
                graph.insert_before(anchor, node) if step == "before" else graph.insert_after(anchor, node)
        assert graph.nodes == oracle
        assert len(graph) == len(oracle)

    def test_an_initialiser_has_a_name_of_its_own(self) -> None:
        graph = Graph("g")
        first = Value("w", constant=np.zeros(2, np.float32))
        assert graph.add_initializer(first) is first
        assert first.type == FLOAT
        with pytest.raises(InvalidGraph, match="graph 'g' has two initialisers named 'w'"):
            graph.add_initializer(Value("w", constant=np.zeros(2)))
