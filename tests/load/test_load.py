"""Stage 1: every kind of source, order, scopes, names, versions."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ort_lite.errors import InvalidArgument, InvalidGraph, InvalidProtobuf, NoSuchFile
from ort_lite.graph import Graph, OptionalType, SequenceType, TensorType, Value
from ort_lite.load.load import load
from ort_lite.load.wire import LARGE
from ort_lite.shapes import Expr
from tests.load.models import FUNCTIONS, NESTED, Array, nodes, proto

SIMPLE = proto("main (float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 2}> { [add] y = Add(x, w) }")
TEXT = """main (float32[N, 2] x) => (float32[N, 2] y) {
  w = constant float32[2]
  y = Add(x, w)
}"""


class TestSources:
    def test_all_kinds_give_the_same_graph(self, tmp_path: Path) -> None:
        data = SIMPLE.SerializeToString()
        path = tmp_path / "model.onnx"
        path.write_bytes(data)
        spread = memoryview(bytes(byte for pair in data for byte in (pair, 0)))[::2]
        sources = [str(path), path, data, bytearray(data), memoryview(data), spread, SIMPLE, io.BytesIO(data)]
        assert [str(load(source).graph) for source in sources] == [TEXT] * len(sources)
        with path.open("rb") as file:
            assert str(load(file).graph) == TEXT

    def test_tensors_of_a_large_file_are_read_into_memory_of_their_own(self, tmp_path: Path) -> None:
        path = tmp_path / "large.onnx"
        big = np.arange(2**22, dtype=np.float32)
        small = np.arange(LARGE // 4 - 1, dtype=np.float32)
        tensors = [onnx.numpy_helper.from_array(array, name) for array, name in ((big, "big"), (small, "small"))]
        path.write_bytes(nodes(helper.make_node("Add", ["big", "small"], ["y"]), initializer=tensors).SerializeToString())
        data = path.read_bytes()
        for source in (path, data):
            graph = load(source).graph
            np.testing.assert_array_equal(constant(graph, "big"), big)
            np.testing.assert_array_equal(constant(graph, "small"), small)
            assert not np.shares_memory(constant(graph, "big"), np.frombuffer(data, np.uint8))
        maps = Path("/proc/self/maps")
        assert not maps.exists() or str(path) not in maps.read_text()

    @pytest.mark.parametrize("name", ["absent.onnx", "absent/model.onnx"])
    def test_a_path_that_leads_to_no_file_is_named(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(NoSuchFile, match="cannot be loaded"):
            load(tmp_path / name)

    def test_a_folder_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidProtobuf, match="is no ONNX model: it is a folder"):
            load(tmp_path)

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (None, "a model came as NoneType"),
            (3, "a model came as int"),
            (io.StringIO("text"), r"a model came as StringIO \(of str\); expected a path, bytes, a ModelProto or a file"),
        ],
        ids=["None", "int", "text file"],
    )
    def test_other_sources_are_refused(self, source: Any, message: str) -> None:
        with pytest.raises(InvalidArgument, match=message):
            load(source)

    def test_a_truncated_file_names_itself(self, tmp_path: Path) -> None:
        path = tmp_path / "cut.onnx"
        path.write_bytes(SIMPLE.SerializeToString()[:-20])
        with pytest.raises(InvalidProtobuf, match=r"cut\.onnx \(\d+ bytes\) .* cut short"):
            load(path)

    @pytest.mark.parametrize("end", range(0, len(SIMPLE.SerializeToString()), 7))
    def test_no_truncated_model_is_taken_for_a_whole_one(self, end: int) -> None:
        with pytest.raises((InvalidProtobuf, InvalidGraph)):
            load(SIMPLE.SerializeToString()[:end])

    @pytest.mark.parametrize("missing", ["graph", "ir_version"])
    def test_a_message_that_is_no_model_is_refused(self, missing: str) -> None:
        model = onnx.ModelProto()
        model.CopyFrom(SIMPLE)
        model.ClearField(missing)
        with pytest.raises(InvalidProtobuf, match=f"the model has no {missing}"):
            load(model)

    def test_a_newer_format_than_onnx_knows_is_refused(self) -> None:
        model = onnx.ModelProto()
        model.CopyFrom(SIMPLE)
        model.ir_version = 999
        with pytest.raises(
            InvalidGraph, match=r"IR version 999, the installed package onnx knows up to \d+: pip install -U onnx"
        ):
            load(model)


def constant(graph: Graph, name: str) -> Array:
    array = graph.initializers[name].constant
    assert array is not None
    return array


class TestOrderAndScopes:
    def test_nodes_may_come_in_any_order(self) -> None:
        relu, neg = helper.make_node("Relu", ["x"], ["a"], "relu"), helper.make_node("Neg", ["a"], ["y"], "neg")
        assert [node.name for node in load(nodes(neg, relu)).graph] == ["relu", "neg"]

    def test_bodies_refer_to_outer_values_of_all_levels(self) -> None:
        graph = load(proto(NESTED)).graph
        (add, branch) = graph.nodes
        yes, no = branch.subgraphs()
        inner, other = yes.nodes[1].subgraphs()
        x, w, shared = graph.inputs[0], graph.initializers["w"], add.output
        assert inner.captures() == [yes.nodes[0].output, shared]
        assert other.captures() == [yes.nodes[0].output, w]
        assert no.captures() == [x]
        assert branch.captures() == [shared, graph.inputs[2], w, x]
        assert no.nodes[1].inputs == (no.nodes[0].output,), "the body's `shared` hides the outer one"

    def test_a_body_may_read_what_a_later_node_computes(self) -> None:
        model = proto(NESTED)
        reversed_nodes = list(model.graph.node)[::-1]
        del model.graph.node[:]
        model.graph.node.extend(reversed_nodes)
        assert str(load(model).graph) == str(load(proto(NESTED)).graph)

    def test_a_body_may_return_an_outer_value(self) -> None:
        text = "main (float[2] x, bool c) => (float[2] y) { y = If (c) <then_branch = a () => (float[2] x) {}, "
        graph = load(proto(text + "else_branch = b () => (float[2] z) { z = Neg(x) }> }")).graph
        assert graph.nodes[0].subgraphs()[0].outputs == (graph.inputs[0],)

    def test_inputs_and_outputs_that_are_left_out_are_none(self) -> None:
        node = load(nodes(helper.make_node("Clip", ["x", "", "x"], ["", "y"]))).graph.nodes[0]
        assert [value and value.name for value in node.inputs] == ["x", None, "x"]
        assert [value and value.name for value in node.outputs] == [None, "y"]


class TestNames:
    def test_nodes_without_a_name_are_numbered_by_operator(self) -> None:
        made = [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Neg", ["a"], ["b"]),
            helper.make_node("Relu", ["b"], ["c"]),
            helper.make_node("Relu", ["c"], ["d"], "Relu_1"),
            helper.make_node("Neg", ["d"], ["y"]),
        ]
        assert [node.name for node in load(nodes(*made)).graph] == ["Relu_0", "Neg_0", "Relu_2", "Relu_1", "Neg_1"]

    def test_a_name_that_comes_again_gets_a_number(self) -> None:
        made = [
            helper.make_node("Relu", [i], [o], n)
            for i, o, n in (("x", "a", "n"), ("a", "b", "n"), ("b", "c", "n_1"), ("c", "y", "n"))
        ]
        assert [node.name for node in load(nodes(*made)).graph] == ["n", "n_2", "n_1", "n_3"]

    def test_names_are_unique_over_all_levels_and_the_same_each_time(self) -> None:
        names = [[node.name for node in load(proto(NESTED)).graph.all_nodes()] for _ in range(2)]
        assert names[0] == names[1]
        assert len(set(names[0])) == len(names[0]) == 8


class TestTypes:
    def test_sizes_names_and_open_dimensions(self) -> None:
        model = nodes(helper.make_node("Relu", ["x"], ["y"]))
        dims = model.graph.input[0].type.tensor_type.shape.dim
        dims[0].dim_value = 5
        for text in ("N", "?", "x_4"):
            dims.add().dim_param = text
        for size in (0, -1):
            dims.add().dim_value = size
        dims.add()
        loaded = load(model)
        assert str(loaded.graph.inputs[0].type) == "float32[5, N, x_2, x_4, x_4_2, x_5, x_6]"
        assert loaded.unnamed_dims == {"x_2": "?", "x_4_2": "", "x_5": "", "x_6": ""}

    def test_an_unknown_rank_is_not_rank_zero(self) -> None:
        infos = [helper.make_tensor_value_info("x", 1, None), helper.make_tensor_value_info("y", 1, [])]
        model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:]))
        graph = load(model).graph
        assert (graph.inputs[0].type, graph.outputs[0].type) == (TensorType("float32"), TensorType("float32", ()))

    def test_sequences_and_optionals(self) -> None:
        graph = load(proto("main (seq(float[2]) s, optional(int64[1]) o) => (seq(float[2]) s) {}")).graph
        assert graph.inputs[0].type == SequenceType(TensorType("float32", (2,)))
        assert graph.inputs[1].type == OptionalType(TensorType("int64", (1,)))

    def test_declared_types_of_intermediate_values_are_kept(self) -> None:
        graph = load(proto("main (float[2] x) => (float[2] y) <float[2] a> { a = Relu(x) y = Neg(a) }")).graph
        assert graph.nodes[0].output.type == TensorType("float32", (2,))


class TestInitialisers:
    WITH_INPUT = "main (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"

    def test_one_that_is_an_input_can_be_overridden_from_ir_version_4_on(self) -> None:
        graph = load(proto(self.WITH_INPUT, ir_version=4)).graph
        assert [value.name for value in graph.inputs] == ["x", "w"]
        assert graph.inputs[1] is graph.initializers["w"]
        assert constant(graph, "w").tolist() == [1, 2]

    def test_before_that_all_are_inputs_and_none_can_be(self) -> None:
        graph = load(proto(self.WITH_INPUT, ir_version=3)).graph
        assert [value.name for value in graph.inputs] == ["x"]
        assert graph.nodes[0].inputs[1] is graph.initializers["w"]

    def test_a_sparse_one_is_made_dense(self) -> None:
        model = nodes(helper.make_node("Add", ["x", "w"], ["y"]))
        sparse = model.graph.sparse_initializer.add(dims=[2])
        sparse.values.CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, [1], [7]))
        sparse.indices.CopyFrom(helper.make_tensor("", TensorProto.INT64, [1], [1]))
        assert constant(load(model).graph, "w").tolist() == [0, 7]


class TestVersions:
    def test_a_node_has_the_version_of_its_domain(self) -> None:
        model = load(proto("main (float[2] x) => (float[2] y) { a = Relu(x) y = my.Op(a) }", opsets='"": 17, "my": 3'))
        assert [(node.domain, node.version) for node in model.graph] == [("", 17), ("my", 3)]
        assert model.opset_imports == {"": 17, "my": 3}

    def test_the_default_domain_has_two_names_and_the_last_import_holds(self, caplog: pytest.LogCaptureFixture) -> None:
        model = proto("main (float[2] x) => (float[2] y) { y = ai.onnx.Relu(x) }", opsets='"": 11, "ai.onnx": 17, "unused": 5')
        loaded = load(model)
        assert loaded.opset_imports == {"": 17, "unused": 5}
        assert [(node.domain, node.version) for node in loaded.graph] == [("", 17)]
        assert "opsets 11 and 17 of ai.onnx: the last one holds" in caplog.text

    @pytest.mark.parametrize(("domain", "version"), [("com.microsoft", 1), ("ai.onnx.ml", 5)])
    def test_some_domains_need_no_import(self, domain: str, version: int) -> None:
        model = load(nodes(helper.make_node("Op", ["x"], ["y"], domain=domain)))
        assert model.graph.nodes[0].version == version
        assert model.opset_imports == {"": 17, domain: version}

    def test_files_older_than_the_import_have_version_1(self) -> None:
        model = nodes(helper.make_node("Relu", ["x"], ["y"]))
        model.ir_version = 2
        del model.opset_import[:]
        assert load(model).opset_imports == {"": 1}


def test_functions_have_bodies_defaults_and_versions_of_their_own() -> None:
    model = load(onnx.parser.parse_model(FUNCTIONS))
    assert [node.op_type for node in model.graph] == ["twice", "scale"]
    assert list(model.functions) == [("my", "twice", ""), ("my", "scale", "")]
    twice, scale = model.functions.values()
    assert twice.attributes == ["alpha"]
    assert scale.defaults["by"].value == 2.0
    assert [node.version for node in scale.graph] == [14, 14]
    assert scale.graph.nodes[0].attributes["value_float"].ref == "by"
    assert [value.name for value in twice.graph.inputs] == ["a"]
    shape = model.graph.inputs[0].shape
    assert shape is not None and isinstance(shape[0], Expr)
    assert all(isinstance(value, Value) for value in twice.graph.outputs)


def test_loading_imports_neither_onnx_nor_ml_dtypes(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(SIMPLE.SerializeToString())
    code = "import sys, ort_lite; ort_lite.load(sys.argv[1]); print(*{'onnx', 'ml_dtypes'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "m.onnx"], capture_output=True, text=True, check=True, timeout=240
    )
    assert done.stdout.split() == []
