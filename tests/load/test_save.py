"""Saving: what comes back is what was there, onnx.checker accepts it, onnxruntime computes the same."""

import stat
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, parser

from ort_lite.errors import InvalidArgument, InvalidGraph
from ort_lite.graph import Graph, MapType, Model, Node, SequenceType, TensorType, Value
from ort_lite.graph.inline import inline_functions
from ort_lite.load import save as saving
from ort_lite.load.load import load
from ort_lite.load.save import save, to_proto
from ort_lite.shapes import floordiv, symbol
from tests.load.models import FUNCTIONS, NESTED, Array, nodes, proto, run
from tests.partition.random_graphs import random_graph

X = np.array([[1, -2], [3, 4]], np.float32)
LARGE = np.arange(600, dtype=np.float32)


def there_and_back(model: Model) -> Model:
    saved = to_proto(model)
    onnx.checker.check_model(saved, full_check=True)
    return load(saved.SerializeToString())


def weights(name: str, array: Array) -> Model:
    """x + the first two elements of a weight."""
    made = [helper.make_node("Slice", [name, "zero", "two"], ["s"], "slice"), helper.make_node("Add", ["x", "s"], ["y"], "add")]
    constants = [("zero", np.array([0])), ("two", np.array([2])), (name, array)]
    return load(nodes(*made, initializer=[onnx.numpy_helper.from_array(a, n) for n, a in constants]))


class TestRoundTrip:
    @given(st.integers(0, 10_000))
    def test_any_graph_comes_back_as_it_was(self, seed: int) -> None:
        graph = random_graph(seed, size=15, depth=2)
        back = there_and_back(Model(graph, {"": 17}, ir_version=8))
        assert str(back.graph) == str(graph)
        np.testing.assert_array_equal(back.graph.initializers["w0"].constant, graph.initializers["w0"].constant)

    def test_what_belongs_to_the_file_comes_back(self) -> None:
        model = Model(Graph("g"), {"": 17, "my": 2}, 9, {}, {"k": "v"}, "producer", "1.2", "domain", 7, "about")
        model.graph.doc_string = "about the graph"
        back = load(to_proto(model))
        assert (back.opset_imports, back.ir_version, back.metadata_props) == ({"": 17, "my": 2}, 9, {"k": "v"})
        assert (back.producer_name, back.producer_version, back.domain) == ("producer", "1.2", "domain")
        assert (back.model_version, back.doc_string, back.graph.doc_string) == (7, "about", "about the graph")

    def test_functions_come_back(self) -> None:
        model = load(parser.parse_model(FUNCTIONS))
        back = there_and_back(model)
        assert str(back.graph) == str(model.graph)
        for key, function in model.functions.items():
            other = back.functions[key]
            assert str(other.graph) == str(function.graph)
            assert (other.attributes, other.defaults) == (function.attributes, function.defaults)
            assert other.opset_imports == function.opset_imports
        feed = np.array([1, 2], np.float32)
        for one, other_result in zip(run(to_proto(model), feed), run(to_proto(back), feed), strict=True):
            np.testing.assert_array_equal(one, other_result)

    def test_types_come_back_with_a_new_name_for_each_expression(self) -> None:
        n = symbol("n")
        x = Value("x", TensorType("float32", (n, symbol("x_1"), symbol("x_2"))))
        y = Value("y", TensorType("float32", (2 * n + 1, floordiv(n, 2), 2 * n + 1, symbol("unk__0"))))
        s = Value("s", SequenceType(MapType("int64", TensorType("float32", ()))))
        graph = Graph("g", [x, s])
        graph.append(Node("Op", [x, s], [y], domain="my", name="op"))
        graph.set_outputs([y])
        model = Model(graph, {"": 17, "my": 1}, unnamed_dims={"x_1": "", "x_2": "?"})
        back = load(to_proto(model))
        assert str(back.graph.inputs) == str(graph.inputs)
        assert str(back.graph.outputs[0].type) == "float32[unk__1, unk__2, unk__1, unk__0]"
        assert back.unnamed_dims == model.unnamed_dims

    def test_types_of_intermediate_values_are_written(self) -> None:
        model = load(proto("main (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }"))
        assert [info.name for info in to_proto(model).graph.value_info] == []
        model.graph.nodes[0].output.type = TensorType("float32", (2,))
        assert [info.name for info in to_proto(model).graph.value_info] == ["a"]
        assert str(there_and_back(model).graph.nodes[0].output) == str(model.graph.nodes[0].output)

    def test_an_overridable_initialiser_stays_one(self) -> None:
        back = there_and_back(load(proto("main (float[1] x, float[1] w) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }")))
        assert back.graph.inputs[1] is back.graph.initializers["w"]

    def test_old_files_have_their_initialisers_among_the_inputs(self) -> None:
        old = proto("main (float[1] x, float[1] w) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }", ir_version=3)
        model = load(old)
        assert [info.name for info in to_proto(model).graph.input] == ["x", "w"]
        assert str(there_and_back(model).graph) == str(model.graph)


class TestNames:
    def test_a_hidden_outer_name_is_no_longer_hidden(self) -> None:
        model = load(proto(NESTED))
        saved = to_proto(model)
        onnx.checker.check_model(saved)
        inner = [node.output[0] for node in saved.graph.node[1].attribute[1].g.node]
        assert inner == ["shared_1", "e"]
        shared, w = np.add(X, [1, 2]), np.array([1, 2], np.float32)
        for flag, deep, expected in [(1, 1, -shared * shared), (1, 0, -shared * w), (0, 1, -np.maximum(X, 0))]:
            np.testing.assert_array_equal(run(saved, X, np.array(flag, bool), np.array(deep, bool))[0], expected)

    def test_two_values_of_one_name_are_told_apart_and_outputs_keep_theirs(self) -> None:
        x = Value("x", TensorType("float32", (2,)))
        graph = Graph("g", [x])
        first = graph.append(Node("Relu", [x], [Value("y", TensorType("float32", (2,)))], version=17))
        second = graph.append(Node("Neg", [first.output], [Value("y", TensorType("float32", (2,)))], version=17))
        graph.set_outputs([second.output])
        saved = to_proto(Model(graph, {"": 17}))
        assert [list(node.output) for node in saved.graph.node] == [["y_1"], ["y"]]

    def test_a_graph_without_a_name_gets_one(self) -> None:
        assert to_proto(Model(Graph(), {"": 17})).graph.name == "graph"


class TestVersions:
    def test_a_domain_that_nodes_need_is_imported(self) -> None:
        model = load(proto("main (float[2] x) => (float[2] y) { y = Relu(x) }"))
        model.graph.insert_before(model.graph.nodes[0], Node("Op", [], [], domain="my", version=3, name="op"))
        assert {opset.domain: opset.version for opset in to_proto(model).opset_import} == {"": 17, "my": 3}

    def test_a_node_of_another_opset_is_fine_where_its_operator_did_not_change(self) -> None:
        model = load(parser.parse_model(FUNCTIONS))
        inline_functions(model.graph, model)
        model.functions.clear()
        assert {node.version for node in model.graph} == {14}
        assert {opset.version for opset in to_proto(model).opset_import if not opset.domain} == {18}

    def test_a_node_of_another_opset_is_refused_where_it_did(self) -> None:
        model = load(proto("main (float[2] x) => (float[2] y) { y = Softmax(x) }"))
        model.graph.nodes[0].version = 11
        message = r"Softmax 'Softmax_0' is of ai\.onnx 11, another version of the operator than ai\.onnx 17, which the model"
        with pytest.raises(InvalidGraph, match=message):
            to_proto(model)


class TestErrors:
    def test_a_value_that_no_graph_defines(self) -> None:
        graph = Graph("g")
        graph.append(Node("Relu", [Value("lost")], [Value("y")], version=17, name="relu"))
        with pytest.raises(InvalidGraph, match="'lost' is read where no graph defines it, by Relu 'relu'"):
            to_proto(Model(graph, {"": 17}))

    def test_an_initialiser_without_an_array(self) -> None:
        graph = Graph("g")
        graph.add_initializer(Value("w"))
        with pytest.raises(InvalidGraph, match="initialiser 'w' has no array"):
            to_proto(Model(graph, {"": 17}))


class TestFiles:
    def test_a_model_is_written_and_read(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        save(weights("w", LARGE), path)
        onnx.checker.check_model(str(path))
        assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
        np.testing.assert_array_equal(load(path).graph.initializers["w"].constant, LARGE)

    def test_large_initialisers_go_to_the_file_beside_it(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        save(weights("w", LARGE), str(path), external_data="weights")
        onnx.checker.check_model(str(path))
        initializers = onnx.load(path, load_external_data=False).graph.initializer
        assert [t.name for t in initializers if t.data_location == TensorProto.EXTERNAL] == ["w"]
        assert len(initializers) == 3
        assert (tmp_path / "weights").stat().st_size == LARGE.nbytes
        np.testing.assert_array_equal(load(path).graph.initializers["w"].constant, LARGE)
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(None, {"x": X[0]})[0], X[0] + LARGE[:2])

    def test_a_model_may_replace_the_files_that_it_is_mapped_from(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        save(weights("w", LARGE), path, external_data="weights")
        model = load(path)
        weight = model.graph.initializers["w"]
        assert weight.constant is not None
        weight.constant = weight.constant[:300]
        save(model, path, external_data="weights")
        np.testing.assert_array_equal(model.graph.initializers["w"].constant, LARGE[:300])
        np.testing.assert_array_equal(load(path).graph.initializers["w"].constant, LARGE[:300])

    def test_files_have_the_ordinary_permissions(self, tmp_path: Path) -> None:
        save(weights("w", LARGE), tmp_path / "model.onnx")
        (tmp_path / "ordinary").touch()
        modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        assert len(modes) == 1

    def test_a_failure_leaves_the_old_files_and_no_others(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "model.onnx"
        save(weights("w", LARGE), path, external_data="weights")
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        monkeypatch.setattr(saving, "serialize", lambda proto: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            save(weights("w", -LARGE), path, external_data="weights")
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before

    @pytest.mark.parametrize("name", ["", "sub/weights", "../weights", "/weights", "model.onnx"])
    def test_external_data_is_a_file_beside_the_model(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InvalidArgument, match="expected the name of another file"):
            save(weights("w", LARGE), tmp_path / "model.onnx", external_data=name)
        assert not list(tmp_path.iterdir())
