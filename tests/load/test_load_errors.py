"""What breaks a rule of ONNX is refused with the name of the node, tensor or value that does."""

from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from ort_lite.errors import InvalidGraph, InvalidProtobuf, OrtLiteError
from ort_lite.load.load import load
from ort_lite.load.save import to_proto
from tests.load.models import FUNCTIONS, NESTED, nodes, proto

RELU = helper.make_node("Relu", ["x"], ["y"], "relu")
MAIN = "main (float[2] x, bool c) => (float[2] y)"
FUNCTION = '<domain: "my", opset_import: ["": 17, "my": 1]>'


def node(op_type: str, inputs: list[str], outputs: list[str], name: str = "n", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, name, **attributes)


def tensor(name: str = "w", data_type: int = TensorProto.FLOAT, raw: bytes = bytes(8)) -> onnx.TensorProto:
    return TensorProto(name=name, data_type=data_type, dims=[2], raw_data=raw)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nodes(node("Neg", ["absent"], ["y"])), "Neg 'n': input 'absent' is no input, initialiser or node output of the model"),
        (nodes(node("Neg", ["absent"], ["y"], "")), "Neg with outputs 'y': input 'absent' is no input"),
        (nodes(RELU, node("Neg", ["x"], ["y"])), "Neg 'n': 'y' is already an output of another node"),
        (nodes(RELU, node("Neg", ["y"], ["x"])), "Neg 'n': 'x' is already an input of graph 'main'"),
        (nodes(RELU, node("Neg", ["y"], ["w"]), initializer=[tensor()]), "Neg 'n': 'w' is already an initialiser"),
        (nodes(RELU, initializer=[tensor(), tensor()]), "graph 'main': 'w' is already an initialiser"),
        (nodes(RELU, initializer=[tensor("")]), "graph 'main': '' is no name"),
        (nodes(node("Neg", ["z"], ["y"]), node("Abs", ["y"], ["z"], "m")), "cycle: Neg 'n' -> Abs 'm' -> Neg 'n'"),
        (nodes(node("Neg", ["y"], ["y"])), "cycle: Neg 'n' -> Neg 'n'"),
        (nodes(RELU, outputs=("y", "z")), "graph 'main': its output 'z' is computed by no node"),
        (
            nodes(helper.make_node("Op", ["x"], ["y"], "n", domain="their")),
            "Op 'n': its domain 'their' is not imported; .* ai.onnx 17",
        ),
        (nodes(RELU, initializer=[tensor(data_type=999)]), "initialiser 'w': element type 999 is not known"),
        (
            nodes(RELU, initializer=[tensor(raw=bytes(7))]),
            "initialiser 'w': dimensions .* need 8 bytes of float32, there are 7",
        ),
        (
            nodes(node("Constant", [], ["y"], value=tensor(raw=bytes(7)))),
            "Constant 'n', attribute 'value': dimensions .* need 8 bytes of float32, there are 7",
        ),
        (
            proto(f"{MAIN} {{ y = If (c) <then_branch = t () => (float[2] a) {{ [bad] a = Neg(z) }}> }}"),
            "Neg 'bad': input 'z' is no input",
        ),
        (
            proto(f"{MAIN} {{ y = If (c) <then_branch = t () => (float[2] a) {{ b = Neg(x) }}> }}"),
            "graph 't': its output 'a' is computed by no node",
        ),
        (
            proto(f"{MAIN} {{ y = my.f(x) }} {FUNCTION} f (a) => (b) {{ b = my.f(a) }}", 10, '"": 17, "my": 1'),
            "function 'f' of domain 'my' calls itself: f -> f",
        ),
        (
            proto(f"{MAIN} {{ y = Neg(x) }} {FUNCTION} f (a) => (b) {{ [bad] b = Neg(c) }}", 10),
            "Neg 'bad': input 'c' is no input",
        ),
        (
            proto(f"{MAIN} {{ y = Neg(x) }} {FUNCTION} f (a, a) => (b) {{ b = Neg(a) }}", 10),
            "function 'f': 'a' is already an input of graph 'f'",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_the_message_names_what_is_wrong(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InvalidGraph, match=message):
        load(model)


def test_the_default_domain_needs_an_import() -> None:
    model = nodes(RELU)
    del model.opset_import[:]
    with pytest.raises(InvalidGraph, match=r"Relu 'relu': its domain 'ai\.onnx' is not imported; the model imports nothing"):
        load(model)


def test_functions_that_double_over_and_over_are_refused_before_they_are_inlined() -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = []
    for k in range(31):
        inner = [helper.make_node(f"f{k + 1}", [i], [o], domain="my") for i, o in (("a", "b"), ("b", "c"))]
        functions.append(helper.make_function("my", f"f{k}", ["a"], ["c"], inner, imports))
    model = nodes(helper.make_node("f0", ["x"], ["y"], domain="my"))
    model.functions.extend(functions)
    with pytest.raises(InvalidGraph, match="stands for more than 100000 nodes"):
        load(model)


class TestText:
    DATA = onnx.ModelProto.SerializeToString(
        nodes(helper.make_node("Relu", ["x"], ["yyyy"], "nnnn"), outputs=("yyyy",), doc_string="dddd")
    )

    @pytest.mark.parametrize("name", [b"Relu", b"yyyy", b"nnnn"])
    def test_a_name_that_is_not_utf_8_is_refused(self, name: bytes) -> None:
        with pytest.raises(InvalidProtobuf, match=r"has the name b'.\\xff..', which is not UTF-8"):
            load(self.DATA.replace(name, name[:1] + b"\xff" + name[2:]))

    def test_other_text_that_is_not_utf_8_has_replacement_characters(self) -> None:
        assert load(self.DATA.replace(b"dddd", b"d\xffdd")).graph.doc_string == "d\ufffddd"


DATA = [model.SerializeToString() for model in (proto(NESTED), onnx.parser.parse_model(FUNCTIONS))]


@given(
    st.sampled_from(DATA),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 4), st.binary(max_size=3)), min_size=1, max_size=3),
)
def test_damaged_models_are_refused_or_loaded_and_nothing_else(data: bytes, changes: list[tuple[int, int, bytes]]) -> None:
    for position, removed, added in changes:
        position %= len(data)
        data = data[:position] + added + data[position + removed :]
    try:
        model = load(data)
        to_proto(model)
    except OrtLiteError:
        return
    assert str(model.graph)
