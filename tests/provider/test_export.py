"""Partitions as models of their own: onnxruntime computes from them what it computes from the whole."""

from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Node, Value
from ort_lite.inference import ShapeRules
from ort_lite.inference.annotate import annotate
from ort_lite.load.load import load
from ort_lite.partition.partition import partition
from ort_lite.plugins import plugins
from ort_lite.provider import Capability, ExecutionProvider, GraphView, Partition
from ort_lite.provider.export import PartitionModel, node_model, partition_model

CHAIN = "(float[N] x) => (float[N] y, float[N] b) <float[1] w = {2}> { a = Mul(x, w)  b = Exp(a)  y = Sub(b, a) }"
BRANCH = (
    "(bool c, float[N] x) => (float[N] y) <float[1] w = {3}> { z = Neg(x) "
    "y = If(c) <then_branch = a () => (float[N] t) { t = Mul(z, w) }, else_branch = b () => (float[N] e) { e = Exp(z) }> }"
)


class Everything(ExecutionProvider):
    """Claims every node, control flow whole."""

    name = "Everything"

    def get_capability(self, graph: GraphView) -> Iterator[Capability]:
        yield Capability(list(graph), whole=True)


def only(text: str, opset: int = 17) -> Partition:
    """The model as one partition."""
    graph = load(parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')).graph
    annotate(graph, plugins.shape_rules())
    (found,) = partition(graph, [Everything()], ShapeRules(())).partitions
    return found


def run(model: PartitionModel, *inputs: Array) -> list[Array]:
    onnx.checker.check_model(model.data, full_check=True)
    session = onnxruntime.InferenceSession(model.data, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(list(model.outputs), dict(zip(model.inputs, inputs, strict=True)))
    return results


class TestPartitionModel:
    def test_inputs_and_outputs_are_the_partitions_in_order(self) -> None:
        model = partition_model(only(CHAIN))
        assert (model.inputs, model.outputs) == (("x",), ("y", "b"))
        y, b = run(model, np.array([0, 1], np.float32))
        np.testing.assert_allclose(b, np.exp([0, 2]), rtol=1e-6)
        np.testing.assert_allclose(y, np.exp([0, 2]) - [0, 2], rtol=1e-6)

    def test_bodies_come_along_with_what_they_capture(self) -> None:
        model = partition_model(only(BRANCH))
        for choice, expected in ((True, -3), (False, np.exp(-1))):
            np.testing.assert_allclose(run(model, np.array(choice), np.ones(2, np.float32))[0], [expected] * 2, rtol=1e-6)

    def test_the_graph_it_comes_from_stays_as_it_was(self) -> None:
        whole = only(BRANCH)
        graph = whole.nodes[0].graph
        assert graph is not None
        before, uses = str(graph), {value: dict(value.uses) for value in (*whole.inputs, *whole.constants)}
        partition_model(whole)
        assert str(graph) == before
        assert {value: dict(value.uses) for value in uses} == uses

    def test_values_of_one_name_are_told_apart(self) -> None:
        type_ = only(CHAIN).inputs[0].type
        x, w, y = Value("v", type_), Value("v", constant=np.array([2], np.float32)), Value("v", type_)
        node = Node("Mul", [x, w], [y], version=17)
        model = partition_model(Partition("p", Everything(), (node,), (x,), (y,), ShapeRules(())))
        assert len({*model.inputs, *model.outputs}) == 2
        np.testing.assert_array_equal(run(model, np.array([3], np.float32))[0], [6])

    def test_change_rewrites_the_copy(self) -> None:
        def negated(graph: Graph) -> None:
            for node in graph:
                node.op_type = "Neg" if node.op_type == "Exp" else node.op_type

        whole = only(CHAIN)
        _, b = run(partition_model(whole, negated), np.array([0, 1], np.float32))
        np.testing.assert_array_equal(b, [0, -2])
        assert [node.op_type for node in whole.nodes] == ["Mul", "Exp", "Sub"]


class TestVersions:
    def versions(self, *nodes: tuple[str, int]) -> onnx.ModelProto:
        """The model of a chain of (operator, opset version)."""
        values = [only(CHAIN).inputs[0], *(Value(f"v{k}") for k in range(len(nodes)))]
        made = tuple(Node(op, [values[k]], [values[k + 1]], version=v) for k, (op, v) in enumerate(nodes))
        whole = Partition("p", Everything(), made, (values[0],), (values[-1],), ShapeRules(()))
        return onnx.load_from_string(partition_model(whole).data)

    def imported(self, *nodes: tuple[str, int]) -> int:
        (opset,) = self.versions(*nodes).opset_import
        return int(opset.version)

    def test_the_version_of_most_nodes_is_imported(self) -> None:
        assert self.imported(("Exp", 12), ("Relu", 12), ("Neg", 17)) == 12
        assert self.imported(("Exp", 12), ("Neg", 17)) == 17

    def test_an_operator_that_it_lacks_stands_there_all_the_same(self) -> None:
        assert self.imported(("Exp", 12), ("Relu", 12), ("HardSwish", 14)) == 12

    def test_a_node_that_would_mean_something_else_is_an_error(self) -> None:
        with pytest.raises(InvalidGraph, match="another version of the operator"):
            self.imported(("Exp", 17), ("Relu", 17), ("Softmax", 12))


class TestNodeModel:
    def models(self, text: str, opset: int = 17) -> list[bytes]:
        return [node_model(node) for node in only(text, opset).nodes]

    def test_names_lengths_and_weights_make_no_difference(self) -> None:
        first, second = self.models("(float[N,3] x, float[2,7] z) => (float[N,3] y, float[2,7] v) { y = Exp(x)  v = Exp(z) }")
        assert first == second
        first, second = self.models("(float[N] x, float[M,M] z) => (float[N] y, float[M,M] v) { y = Exp(x)  v = Exp(z) }")
        assert first != second

    def test_small_constants_do(self) -> None:
        one, two, same = self.models(
            "(float[N,3] x) => (float[a] u, float[b] v, float[c] w) <int64[1] i = {0}, int64[1] j = {1}, int64[1] k = {0}>"
            "{ u = ReduceSum(x, i)  v = ReduceSum(x, j)  w = ReduceSum(x, k) }"
        )
        assert one != two
        assert one == same

    def test_it_loads_with_its_bodies(self) -> None:
        model = self.models(BRANCH)[1]
        onnx.checker.check_model(model, full_check=True)

    def test_a_value_without_a_type_is_an_error(self) -> None:
        with pytest.raises(InvalidGraph, match="the type of 'x' is not known"):
            node_model(Node("Exp", [Value("x")], [Value("y")], version=17))
