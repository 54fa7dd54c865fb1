"""Protobuf: the generated classes are onnx's own, types and attributes keep everything in both directions."""

import subprocess
import sys

import numpy as np
import onnx
import pytest

from ort_lite.errors import InvalidGraph, InvalidProtobuf
from ort_lite.graph import Attr, Graph, MapType, OptionalType, SequenceType, TensorType, Type
from ort_lite.load.proto import AttributeReader, parse, pb, read_type, same_operator, serialize, write_attribute, write_type
from ort_lite.load.tensor_proto import read_tensor, write_tensor
from ort_lite.load.wire import InMemory
from ort_lite.shapes import Dim, symbol

AFTER = "from ort_lite.load.proto import pb; assert 'onnx' not in sys.modules; import onnx"
BEFORE = "import onnx; from ort_lite.load.proto import pb"
SAME = """
model = pb.ModelProto(ir_version=8)
assert isinstance(model, onnx.ModelProto) and isinstance(onnx.ModelProto(), pb.ModelProto)
assert all(getattr(pb, name) is getattr(onnx, name) for name in ("ModelProto", "TensorProto", "AttributeProto", "TypeProto"))
assert onnx.onnx_ml_pb2.ModelProto is pb.ModelProto
assert type(pickle.loads(pickle.dumps(model))) is pb.ModelProto
onnx.checker.check_model(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] x) {}'))
"""


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["upb", "python"])
@pytest.mark.parametrize("order", [AFTER, BEFORE], ids=["onnx after", "onnx before"])
def test_the_classes_are_those_of_onnx_whoever_comes_first(order: str, implementation: str) -> None:
    script = f"import os, pickle, sys\nos.environ['PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION'] = '{implementation}'\n"
    subprocess.run([sys.executable, "-c", f"{script}{order}{SAME}"], check=True, timeout=240)


def test_without_onnx_the_message_says_what_to_install() -> None:
    hidden = """
import sys
for finder in sys.meta_path:
    find = finder.find_spec
    finder.find_spec = lambda name, *rest, find=find: None if name == "onnx" else find(name, *rest)
import ort_lite.load.proto
"""
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False, timeout=240)
    assert done.stderr.rstrip().endswith("reads models with the classes of the package 'onnx': pip install onnx")


class TestBytes:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"hello, this is text", "origin .19 bytes. is no ONNX model: it is text"),
            (onnx.ModelProto(doc_string="x" * 50).SerializeToString()[:-1], "cut short"),
            (b"\x10\x00\x00\x00ORTM\x00\x00", "origin is in ORT format"),
        ],
        ids=["text", "truncated", "ORT format"],
    )
    def test_other_bytes_than_a_model_are_refused(self, data: bytes, message: str) -> None:
        with pytest.raises(InvalidProtobuf, match=message):
            parse(InMemory(memoryview(data)), "origin")

    def test_equal_models_have_equal_bytes(self) -> None:
        model = onnx.ModelProto(ir_version=8, producer_name="p")
        assert parse(InMemory(memoryview(serialize(model))), "origin")[0] == model
        assert serialize(model) == serialize(onnx.ModelProto(producer_name="p", ir_version=8))


N = symbol("n")
TYPES: list[Type] = [
    TensorType("float32", (N, 3)),
    TensorType("string", ()),
    TensorType("bfloat16"),
    SequenceType(TensorType("int64", (2 * N + 1,))),
    OptionalType(SequenceType(TensorType("bool", (4,)))),
    SequenceType(MapType("string", TensorType("float64", ()))),
]


def named(proto: pb.TensorShapeProto.Dimension, axis: int) -> Dim:
    return symbol(proto.dim_param) if proto.dim_param else proto.dim_value or -1 - axis


class TestTypes:
    @pytest.mark.parametrize("type_", TYPES, ids=str)
    def test_a_type_is_what_it_was_when_it_comes_back(self, type_: Type) -> None:
        proto = pb.TypeProto()
        write_type(type_, proto)
        assert str(read_type(proto, named, "x")) == str(type_)

    def test_a_symbol_that_stands_for_nothing_is_left_out_or_as_it_was(self) -> None:
        proto = pb.TypeProto()
        write_type(
            TensorType("float32", (symbol("x_0"), symbol("x_1"), N)),
            proto,
            lambda dim: {"x_0": "", "x_1": "?"}.get(str(dim), str(dim)),
        )
        dims = proto.tensor_type.shape.dim
        assert [d.WhichOneof("value") for d in dims] == [None, "dim_param", "dim_param"]
        assert [d.dim_param for d in dims] == ["", "?", "n"]

    @pytest.mark.parametrize("text", ["", "tensor_type {}", "sequence_type { elem_type {} }", "optional_type {}"])
    def test_an_open_type_is_none(self, text: str) -> None:
        from google.protobuf import text_format

        assert read_type(text_format.Parse(text, pb.TypeProto()), named, "x") is None

    def test_an_unknown_element_type_is_named(self) -> None:
        proto = pb.TypeProto()
        proto.tensor_type.elem_type = 999
        with pytest.raises(InvalidGraph, match="value 'x': element type 999 is not known"):
            read_type(proto, named, "value 'x'")

    def test_sparse_types_are_refused_by_name(self) -> None:
        proto = pb.TypeProto()
        proto.sparse_tensor_type.elem_type = 1
        with pytest.raises(InvalidGraph, match="value 'x': values of sparse_tensor_type are not supported"):
            read_type(proto, named, "value 'x'")


def read_attribute(proto: pb.AttributeProto) -> Attr:
    return AttributeReader(lambda graph: Graph(graph.name), read_tensor, named)(proto, lambda: "Op 'o'")


class TestAttributes:
    @pytest.mark.parametrize(
        "attribute",
        [
            Attr("a", "INT", -3),
            Attr("a", "INTS", [1, 2**40]),
            Attr("a", "INTS", []),
            Attr("a", "FLOAT", 0.5),
            Attr("a", "FLOATS", [0.5, -1.0]),
            Attr("a", "STRING", "naïve"),
            Attr("a", "STRING", b"\xff\x00".decode("utf-8", "surrogateescape")),
            Attr("a", "STRINGS", ["x", ""]),
            Attr("a", "TYPE_PROTO", TYPES[0]),
            Attr("a", "TYPE_PROTOS", TYPES[:2]),
            Attr("a", "INT", None, "axis"),
            Attr("a", "GRAPH", None, "body"),
        ],
        ids=repr,
    )
    def test_an_attribute_is_what_it_was_when_it_comes_back(self, attribute: Attr) -> None:
        proto = pb.AttributeProto()
        write_attribute(attribute, proto, lambda graph, into: None, write_tensor)
        assert read_attribute(proto) == attribute

    def test_tensors_and_graphs_come_back(self) -> None:
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        for attribute in (
            Attr.of("a", array),
            Attr.of("a", [array, array + 1]),
            Attr.of("a", Graph("g")),
            Attr.of("a", [Graph("g")]),
        ):
            proto = pb.AttributeProto()
            write_attribute(attribute, proto, lambda graph, into: setattr(into, "name", graph.name), write_tensor)
            found = read_attribute(proto)
            assert found.type == attribute.type
            if "TENSOR" in found.type:
                np.testing.assert_array_equal(found.value, attribute.value)
            else:
                assert (found.value[0] if found.type == "GRAPHS" else found.value).name == "g"

    def test_a_sparse_tensor_becomes_a_dense_one(self) -> None:
        values = onnx.helper.make_tensor("", onnx.TensorProto.FLOAT, [2], [5, 7])
        indices = onnx.helper.make_tensor("", onnx.TensorProto.INT64, [2], [1, 3])
        sparse = onnx.helper.make_sparse_tensor(values, indices, [2, 2])
        found = read_attribute(onnx.helper.make_attribute("sparse_value", sparse))
        assert (found.name, found.type) == ("value", "TENSOR")
        assert found.value.tolist() == [[0, 5], [0, 7]]
        many = read_attribute(onnx.helper.make_attribute("other", [sparse]))
        assert (many.name, many.type) == ("other", "TENSORS")
        assert many.value[0].tolist() == [[0, 5], [0, 7]]

    def test_a_type_that_old_files_do_not_state_is_that_of_the_field_which_is_set(self) -> None:
        assert read_attribute(pb.AttributeProto(name="a", ints=[1, 2])) == Attr("a", "INTS", [1, 2])
        assert read_attribute(pb.AttributeProto(name="a", f=0.0)) == Attr("a", "FLOAT", 0.0)

    def test_an_attribute_without_type_and_value_is_named(self) -> None:
        with pytest.raises(InvalidGraph, match="Op 'o', attribute 'a': type 0 is not known"):
            read_attribute(pb.AttributeProto(name="a"))


@pytest.mark.parametrize(
    ("domain", "op_type", "one", "other", "expected"),
    [("", "Relu", 14, 20, True), ("", "Softmax", 11, 13, False), ("", "Nothing", 1, 2, False), ("my", "Relu", 1, 2, False)],
)
def test_operator_versions_are_compared(domain: str, op_type: str, one: int, other: int, expected: bool) -> None:
    assert same_operator(domain, op_type, one, other) is expected
