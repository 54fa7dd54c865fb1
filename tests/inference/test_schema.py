"""Nodes against the schemas of their operators: what is refused when a model is loaded, and what the message says.

Long, and one file: every group checks nodes against the same few schemas.
"""

import gc
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser

import ort_lite
from ort_lite.errors import InvalidGraph, OrtLiteError
from ort_lite.graph import MapType, Node, OptionalType, SequenceType, TensorType, Type, Value
from ort_lite.inference import Info, Op, shape_rule
from ort_lite.inference.schema import Schemas, format_kind, kind_of
from ort_lite.inference.schema_text import SchemaFile, op_schema
from ort_lite.inference.traits import Traits, parse_traits
from ort_lite.load.load import load
from ort_lite.plugins import Registry
from ort_lite.plugins.selection import rules_of
from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition, Rejection
from ort_lite.transform import NHWC_DOMAIN

MIXED = "Mixed-2 a:T b:T? rest:T*0 -> y:T n:int64? | T=float16/float32 | mode:STRING axis:INT!"
FREE = "Free-1 a:T rest:V*1~ -> y:V*1~ | T=float32 V=float32/int8/seq(float32)"


def schemas(*texts: str) -> Schemas:
    return Schemas(op_schema(text, "own") for text in texts)


def node(
    op_type: str, inputs: Sequence[str | None], outputs: Sequence[str | None] = ("y",), version: int = 2, **attributes: Any
) -> Node:
    """Of domain "own"; None: left out."""
    made = [[None if name is None else Value(name) for name in names] for names in (inputs, outputs)]
    return Node(op_type, made[0], made[1], attributes, domain="own", version=version, name="n")


def refused(text: str, ops: str = '"": 17, "com.microsoft": 1, "local": 1') -> str:
    """What a session says of a model that it does not take."""
    with pytest.raises(InvalidGraph) as caught:
        ort_lite.InferenceSession(parser.parse_model(f"<ir_version: 8, opset_import: [{ops}]> {text}"))
    return str(caught.value)


def accepted(text: str, ops: str = '"": 17, "com.microsoft": 1, "local": 1') -> None:
    ort_lite.plan(parser.parse_model(f"<ir_version: 8, opset_import: [{ops}]> {text}"))


# Text


def test_a_line_of_text_says_all_of_a_schema() -> None:
    schema = op_schema(MIXED, "own")
    assert (schema.domain, schema.op_type, schema.since, str(schema)) == ("own", "Mixed", 2, "own.Mixed-2")
    assert [(one.name, one.type, one.option) for one in schema.inputs.formal] == [
        ("a", "T", "single"),
        ("b", "T", "optional"),
        ("rest", "T", "variadic"),
    ]
    assert (schema.outputs.least, schema.outputs.most) == (1, 2)
    assert schema.types == {"T": frozenset({"float16", "float32"})}
    assert schema.attributes == {"mode": "STRING", "axis": "INT"} and schema.required == ("axis",)
    assert not schema.deprecated and op_schema("Old-1! x:T -> y:T").deprecated


@pytest.mark.parametrize(
    ("operands", "least", "most"),
    [("", 0, 0), ("a:T", 1, 1), ("a:T b:T?", 1, 2), ("a:T? b:T", 2, 2), ("a:T*3", 3, None), ("a:T? b:T? c:T*0~", 2, None)],
)
def test_how_many_operands_there_may_be(operands: str, least: int, most: int | None) -> None:
    found = op_schema(f"Op-1 {operands} -> y:T").inputs
    assert found.least == least and (found.most == most or (most is None and found.most > 1000))


@pytest.mark.parametrize(
    ("type_", "kind", "text"),
    [
        (TensorType("float32", (2,)), "float32", "tensor(float)"),
        (SequenceType(TensorType("int8")), "seq(int8)", "seq(tensor(int8))"),
        (OptionalType(SequenceType(TensorType("bool"))), "optional(seq(bool))", "optional(seq(tensor(bool)))"),
        (SequenceType(MapType("int64", TensorType("float64"))), "seq(map(int64,float64))", "seq(map(int64,tensor(double)))"),
    ],
)
def test_types_without_their_shapes(type_: Type, kind: str, text: str) -> None:
    assert kind_of(type_) == kind and format_kind(kind) == text and kind_of(None) is None


# Finding


def test_the_newest_version_that_is_not_newer_than_the_opset() -> None:
    found = schemas("Op-1 x:T -> y:T", "Op-5 x:T -> y:T", "Op-9 x:T -> y:T")
    assert [str(found.find(node("Op", ["x"], version=version))) for version in (1, 4, 5, 8, 9, 30)] == [
        f"own.Op-{since}" for since in (1, 1, 5, 5, 9, 9)
    ]
    assert schemas("Op-5 x:T -> y:T").find(node("Op", ["x"], version=4)) is None
    assert found.find(node("Other", ["x"])) is None


def test_of_two_schemas_the_first_counts() -> None:
    one, other = op_schema("Op-1 x:T -> y:T", "own"), op_schema("Op-1 x:T -> y:T", "own")
    assert Schemas([other]).prepend([one]).find(node("Op", ["x"])) is one


def test_channels_last_operators_have_the_schema_of_onnx() -> None:
    conv = Node("Conv", [Value("x"), Value("w")], [Value("y")], domain=NHWC_DOMAIN, version=17)
    assert str(rules_of([]).schemas.find(conv)) == "Conv-11"


# Traits


def test_a_line_of_text_states_traits() -> None:
    found = schemas("Op-1 x:T -> y:T | T=float32 ; moves host=1,2", "Other-1 x:T -> y:T")
    assert found.traits(node("Op", ["x"])) == Traits(moves=True, host=(1, 2))
    assert found.traits(node("Other", ["x"])) == found.traits(node("Unknown", ["x"])) == Traits()
    assert parse_traits("random=2 operations=convolution(3) typed") == Traits(
        random=(2,), operations="convolution(3)", typed=""
    )
    assert parse_traits("random typed=dtype") == Traits(random=(), typed="dtype")


def test_a_trait_that_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="movess"):
        parse_traits("movess")


def test_a_version_of_a_file_has_the_traits_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text(
        "\n[own]\nOp-1 x:T -> y:T\nOp-3 x:T -> y:T ; moves\nOp-9 x:T -> y:T\nOp-11 x:T -> y:T ; exact\nOp-12 x:T -> y:T\n"
    )
    found = Schemas([SchemaFile(str(path))])
    said = [found.find(node("Op", ["x"], version=version)) for version in (1, 2, 3, 9, 11, 12)]
    assert [one.traits for one in said if one is not None] == ["", "", "moves", "moves", "exact", "exact"]


def test_a_file_lists_the_operators_with_a_trait(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("\n[own]\nMoves-1 x:T -> y:T ; exact\nOp-1 x:T -> y:T\nOp-2 moves:T -> y:T ; free moves\n")
    file = SchemaFile(str(path))
    assert (file.operators_with("moves", "own"), file.operators_with("moves", "")) == ({"Op"}, set())


# Form


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes", "message"),
    [
        ([], ["y"], {"axis": 1}, "has 0 inputs; own.Mixed-2 has 2 or more: a, b, rest"),
        (["a"], ["y"], {"axis": 1}, "has 1 input; own.Mixed-2 has 2 or more: a, b, rest"),
        ([None, "b"], ["y"], {"axis": 1}, "input 0 (a) is left out; own.Mixed-2 requires it"),
        (["a", None], ["y", "n", "m"], {"axis": 1}, "has 3 outputs; own.Mixed-2 has 1 to 2: y, n"),
        (["a", None], [None], {"axis": 1}, "output 0 (y) is left out; own.Mixed-2 requires it"),
        (["a", None], ["y"], {}, "attribute 'axis' (INT) is missing; own.Mixed-2 requires it"),
        (["a", None], ["y"], {"axis": 1.0}, "attribute 'axis' is FLOAT; in own.Mixed-2 it is INT"),
        (["a", None], ["y"], {"axis": 1, "of": 2}, "attribute 'of' is not known; own.Mixed-2 has only mode, axis"),
    ],
    ids=str,
)
def test_form(inputs: Sequence[str | None], outputs: Sequence[str | None], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraph) as caught:
        schemas(MIXED).check_form(node("Mixed", inputs, outputs, **attributes))
    assert str(caught.value).startswith("Mixed 'n'") and message in str(caught.value)


def test_form_that_is_right() -> None:
    found = schemas(MIXED)
    found.check_form(node("Mixed", ["a", None], axis=1))
    found.check_form(node("Mixed", ["a", None, "c", "d"], ["y", None], axis=1, mode="m", __mark="of a tool"))
    found.check_form(node("Nobody knows it", [None], foo=1))


def test_a_deprecated_operator_is_refused() -> None:
    with pytest.raises(InvalidGraph, match=r"Old 'n': own.Old-2 is deprecated; a model of opset 3 must not use it"):
        schemas("Old-1 x:T -> y:T", "Old-2! x:T -> y:T").check_form(node("Old", ["x"], version=3))


# Types


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["int8", None], "input 0 (a, 'a') is tensor(int8); own.Mixed-2 takes tensor(float16), tensor(float) there"),
        (
            ["float32", "float16"],
            "input 1 (b, 'b') is tensor(float16), but T is tensor(float) by input 0 (a, 'a'); own.Mixed-2 takes "
            "one type for both, of tensor(float16), tensor(float)",
        ),
        (
            ["float32", None, "float32", "int8"],
            "input 3 (rest, 'd') is tensor(int8), but T is tensor(float) by input 0 (a, 'a')",
        ),
    ],
)
def test_inputs_of_one_variable_have_one_type(kinds: Sequence[str | None], message: str) -> None:
    names = ["a", "b", "c", "d"][: len(kinds)]
    with pytest.raises(InvalidGraph) as caught:
        schemas(MIXED).check_types(node("Mixed", names), tuple(kinds))
    assert str(caught.value).startswith("Mixed 'n': ") and message in str(caught.value)


def test_outputs_are_bound_as_inputs_are() -> None:
    found, mixed = schemas(MIXED), node("Mixed", ["a", "b"], ["y", "n"])
    found.check_types(mixed, ("float32", "float32"), ("float32", "int64"))
    with pytest.raises(InvalidGraph, match=r"output 0 \(y, 'y'\) is tensor\(float16\), but T is tensor\(float\) by input 0"):
        found.check_types(mixed, ("float32", "float32"), ("float16", "int64"))
    with pytest.raises(InvalidGraph, match=r"output 1 \(n, 'n'\) is tensor\(int32\); own.Mixed-2 gives tensor\(int64\) there"):
        found.check_types(mixed, ("float32", "float32"), ("float32", "int32"))


def test_what_is_not_known_is_not_checked() -> None:
    schemas(MIXED).check_types(node("Mixed", ["a", "b"]), (None, "float32"), (None,))


def test_heterogeneous_operands_need_not_agree() -> None:
    found, free = schemas(FREE), node("Free", ["a", "b", "c"], ["y", "z"])
    found.check_types(free, ("float32", "int8", "seq(float32)"), ("int8", "float32"))
    with pytest.raises(InvalidGraph, match=r"input 2 \(rest, 'c'\) is seq\(tensor\(int8\)\); own.Free-1 takes"):
        found.check_types(free, ("float32", "int8", "seq(int8)"))


# Sessions

WRONG = (
    "{node} 'mm': input 1 (B, 'w') is tensor(int8), but T is tensor(float) by input 0 (A, 'x'); MatMul-13 takes one type for both, of "
    "tensor(bfloat16), tensor(float16), tensor(float), tensor(double), tensor(int32), tensor(int64), tensor(uint32), tensor(uint64)"
)


def mat_mul() -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, [64, 4096]), info("w", TensorProto.INT8, [4096, 512])]
    matmul = helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")
    graph = helper.make_graph([matmul], "g", inputs, [info("y", TensorProto.FLOAT, [64, 512])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("front", [ort_lite.plan, ort_lite.InferenceSession])
def test_a_matrix_product_of_two_types(front: Any) -> None:
    with pytest.raises(InvalidGraph) as caught:
        front(mat_mul())
    assert str(caught.value) == WRONG.format(node="MatMul")


def test_types_that_only_a_run_tells() -> None:
    proto = mat_mul()
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].ClearField("type")
    model = ort_lite.load(proto)
    for value in model.graph.inputs:
        value.type = None
    session = ort_lite.InferenceSession(model)
    x = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x, "w": x})[0], x @ x)
    with pytest.raises(InvalidGraph) as caught:
        session.run(None, {"x": x, "w": x.astype(np.int8)})
    assert str(caught.value) == WRONG.format(node="MatMul")


IF = """main (float[2] x, int8[2] i, bool c) => (float[2] y) {{
    y = If(c) <then_branch = t () => (float[2] p) {{ {then} }}, else_branch = e () => (float[2] q) {{ q = Neg(x) }}> }}"""
LOOP = """main (float[2] x, int64 n, bool c) => (float[2] y) {{
    y = Loop(n, c, x) <body = b ({inputs}) => ({outputs}) {{ {body} }}> }}"""
GOOD = {"inputs": "int64 k, bool d, float[2] s", "outputs": "bool e, float[2] t", "body": "e = Identity(d) t = Relu(s)"}
SCAN = """main (float[2] x, float[3,2] w) => (float[2] y, float[3,2] z) {{
    y, z = Scan<num_scan_inputs=1, body = b ({inputs}) => ({outputs}) {{ {body} }}>(x, w) }}"""


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ("p = Add(x, i)", "Add 'Add_0': input 1 (B, 'i') is tensor(int8), but T is tensor(float) by input 0 (A, 'x')"),
        ("p = Relu<foo=1>(x)", "Relu 'Relu_0': attribute 'foo' is not known; Relu-14 has none"),
        ("p = Cast<to=11>(x)", "Cast 'Cast_0': output 0 ('p') is tensor(double), but the model declares tensor(float)"),
    ],
)
def test_nodes_of_bodies(then: str, message: str) -> None:
    assert message in refused(IF.format(then=then))


@pytest.mark.parametrize(
    "text", ["y = Constant<value_float=2.0, mark=1>()", "c = Constant<value_float=2.0, mark=1>() y = Add(c, c)"]
)
def test_a_constant_may_have_another_attribute_as_in_onnxruntime(text: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main () => (float y) {{ {text} }}')
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {})
    assert ort_lite.InferenceSession(model).run(None, {}) == expected


def test_branches_have_one_type() -> None:
    text = IF.format(then="p = Cast<to=11>(x)").replace("(float[2] p)", "(double[2] p)")
    assert "element types differ" in refused(text)
    known = text.replace("{", "<bool c = {1}> {", 1).replace(", bool c", "")
    assert "types differ" in refused(known)
    assert "types differ" in refused(known.replace("bool c = {1}", "bool c = {0}"))
    assert "outputs of its body 't': 2, expected 1" in refused(IF.format(then="p = Relu(x)").replace("(float[2] p)", "(p, p)"))


def test_a_branch_that_never_runs_is_checked_for_types_alone() -> None:
    text = IF.replace("{{", "<bool c = {{1}}> {{", 1).replace(", bool c", "")
    swapped = text.replace("then_branch = t", "else_branch = t").replace("else_branch = e", "then_branch = e")
    accepted(swapped.format(then="d = Concat<axis=0>(x, x, x) p = Add(x, d)"))
    assert "Add 'Add_0': input 1" in refused(swapped.format(then="p = Add(x, i)"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": "int32 k, bool d, float[2] s"}, "input 0 ('k') of its body 'b' is declared tensor(int32), but"),
        ({"inputs": "int64 k, int64 d, float[2] s"}, "input 1 ('d') of its body 'b' is declared tensor(int64)"),
        ({"inputs": "int64 k, bool d, double[2] s"}, "input 2 ('s') of its body 'b' is declared tensor(double), but"),
        ({"inputs": "int64 k, bool d, float[2] s, float[2] u"}, "inputs of its body 'b': 4, expected 3"),
        ({"outputs": "bool e"}, "outputs of its body 'b': 1, expected 2"),
        ({"outputs": "bool e, double[2] t", "body": "e = Identity(d) t = Cast<to=11>(s)"}, "element types differ"),
    ],
)
def test_what_goes_in_and_out_of_a_loop(changes: dict[str, str], message: str) -> None:
    accepted(LOOP.format(**GOOD))
    assert message in refused(LOOP.format(**GOOD | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"inputs": "float[2] s, double[2] u"},
            "input 1 ('u') of its body 'b' is declared tensor(double), but is given tensor(float)",
        ),
        (
            {"outputs": "double[2] t, float[2] v", "body": "a = Add(s, u) t = Cast<to=11>(a) v = Identity(u)"},
            "element types differ",
        ),
        (
            {"outputs": "float[2] t, double[2] v", "body": "t = Add(s, u) v = Cast<to=11>(t)"},
            "output 1 ('z') is tensor(double), but",
        ),
        ({"outputs": "float[2] t"}, "outputs of its body 'b': 1, expected 2"),
    ],
)
def test_what_goes_in_and_out_of_a_scan(changes: dict[str, str], message: str) -> None:
    good = {"inputs": "float[2] s, float[2] u", "outputs": "float[2] t, float[2] v", "body": "t = Add(s, u) v = Identity(t)"}
    accepted(SCAN.format(**good))
    assert message in refused(SCAN.format(**good | changes))


FUNCTION = """main (float[2] x) => (float[2] y) {{ {call} }}
    <domain: "local", opset_import: ["": 17]> f <{attributes}> (a, b) => (c) {{ {body} }}"""


@pytest.mark.parametrize(
    ("call", "body", "message"),
    [
        ("y = Neg(x)", "c = Relu<foo=1>(a)", "function 'f' of domain 'local': Relu 'Relu_0': attribute 'foo' is not known"),
        (
            "y = Neg(x)",
            "c = Frobnicate(a)",
            "function 'f' of domain 'local': Frobnicate 'Frobnicate_0': ai.onnx has no operator",
        ),
        (
            "y = local.f(x, x)",
            "d = Cast<to=7>(a) c = Add(b, d)",
            "Add 'f_0/Add_0': input 1 (B, 'f_0/d') is tensor(int64), but T is",
        ),
        ("y = local.f(x)", "c = Add(a, b)", "Add 'f_0/Add_0': input 1 (B) is left out; Add-14 requires it"),
        (
            "y = local.f<k=1>(x)",
            "c = LeakyRelu<alpha: float = @k>(a)",
            "LeakyRelu 'f_0/LeakyRelu_0': attribute 'alpha' is INT; in",
        ),
        (
            "y = local.f(x)",
            "c = Cast<to: int = @k>(a)",
            "Cast 'f_0/Cast_0': attribute 'to' (INT) is missing; Cast-13 requires it",
        ),
    ],
)
def test_functions(call: str, body: str, message: str) -> None:
    assert message in refused(FUNCTION.format(call=call, body=body, attributes="k"))


def test_an_operator_that_onnx_lacks() -> None:
    message = refused("main (float[2] x) => (float[2] y) { y = Frobnicate(x) }")
    assert message.startswith("Frobnicate 'Frobnicate_0': ai.onnx has no operator Frobnicate (opset 1 to ")
    newer = refused("main (float[2] x) => (float[2] y) { y = Gelu(x) }")
    assert newer.startswith("Gelu 'Gelu_0': ai.onnx has Gelu from opset 20 on; the model imports 17")


def test_a_function_of_the_model_may_be_an_operator_that_onnx_lacks() -> None:
    body = '<domain: "", opset_import: ["": 17]> Frobnicate (a) => (b) { b = Neg(a) }'
    accepted(f"main (float[2] x) => (float[2] y) {{ y = Frobnicate(x) }} {body}")


@pytest.mark.parametrize("declared", ["int8[2] y", "seq(float[2]) y"])
def test_a_declared_type_that_is_another(declared: str) -> None:
    assert "Relu 'Relu_0': output 0 ('y') is tensor(float), but the model declares" in refused(
        f"main (float[2] x) => ({declared}) {{ y = Relu(x) }}"
    )


def test_an_initialiser_and_the_input_of_its_name() -> None:
    message = refused("main (float[2] x, int8[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    assert message == "graph 'main': initialiser 'w' is tensor(float), but the input of its name is tensor(int8)"


def test_an_attribute_that_comes_twice() -> None:
    twice = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.1)
    twice.attribute.append(twice.attribute[0])
    info = helper.make_tensor_value_info
    graph = helper.make_graph([twice], "g", [info("x", 1, [2])], [info("y", 1, [2])])
    with pytest.raises(InvalidGraph, match="LeakyRelu with outputs 'y': it has an attribute twice"):
        load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def test_a_refused_model_leaves_nothing_behind() -> None:
    options = ort_lite.SessionOptions()
    model = load(mat_mul())
    seen = weakref.ref(model.graph)
    for _ in range(3):
        with pytest.raises(InvalidGraph):
            ort_lite.InferenceSession(model, options)
    good = mat_mul()
    good.graph.input[1].type.tensor_type.elem_type = TensorProto.FLOAT
    x, w = np.ones((64, 4096), np.float32), np.ones((4096, 512), np.float32)
    assert ort_lite.InferenceSession(good, options).run(None, {"x": x, "w": w})[0][0, 0] == 4096
    del model
    gc.collect()
    assert seen() is None


# Providers


class OwnProvider(ExecutionProvider):
    name = "OwnExecutionProvider"

    @classmethod
    def schemas(cls) -> list[Any]:
        return [op_schema("Twice-1 x:T -> y:T | T=float32", "own"), op_schema("Unheard-1 x:T -> y:T | T=float32")]

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for found in graph:
            known = found.op_type in ("Twice", "Unheard", "Relu")
            yield Capability([found]) if known else Rejection(found, "operator", "not known")

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        return [lambda inputs: [2 * inputs[0]] for _ in partitions]


OWN = '<ir_version: 8, opset_import: ["": 17, "own": 1]> main ({type}[2] x) => ({type}[2] y) {{ y = {node}(x) }}'


def session(node: str, type_: str = "float", *providers: Any) -> ort_lite.InferenceSession:
    proto = parser.parse_model(OWN.format(node=node, type=type_))
    return ort_lite.InferenceSession(proto, providers=[*providers, "CPUExecutionProvider"])


def test_a_provider_brings_schemas_of_its_own() -> None:
    for name in ("own.Twice", "Unheard"):
        assert session(name, "float", OwnProvider()).run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [2, 2]
        with pytest.raises(InvalidGraph, match=r"input 0 \(x, 'x'\) is tensor\(int32\)"):
            session(name, "int32", OwnProvider())
    with pytest.raises(InvalidGraph, match=r"ai\.onnx has no operator Unheard"):
        session("Unheard")
    with pytest.raises(OrtLiteError) as caught:  # nobody says what it is: that nobody runs it is another matter
        session("own.Twice")
    assert not isinstance(caught.value, InvalidGraph)


def test_a_plugin_brings_schemas() -> None:
    plugin = SimpleNamespace(ort_lite_schemas=lambda: [op_schema(MIXED, "own")])
    registry = Registry([])
    assert registry.shape_rules().schemas.find(node("Mixed", ["a"])) is None
    registry.register_plugin(plugin)
    assert str(registry.shape_rules().schemas.find(node("Mixed", ["a"]))) == "own.Mixed-2"


def test_names_of_refused_models_are_not_kept() -> None:
    rules = rules_of([])
    for count in range(3):
        refused(f"main (float[2] x) => (float[2] y) {{ y = Frobnicate{count}(x) }}")
        with pytest.raises(OrtLiteError):
            session(f"own.Frobnicate{count}")
    kept = [*rules._ready, *rules.schemas._found, *rules.schemas._good]
    assert kept and not [key for key in kept if "Frobnicate" in str(key)]


def test_an_operator_with_a_shape_rule_of_its_provider_needs_no_schema() -> None:
    @shape_rule("Ruled")
    def ruled(op: Op) -> list[Info]:
        return [op.tensor(op.dtype(0), [2 * op.shape(0)[0]])]

    class Ruling(OwnProvider):
        @classmethod
        def shape_rules(cls) -> list[Any]:
            return [ruled]

        def get_capability(self, graph: GraphView) -> Iterator[Capability]:
            yield from (Capability([found]) for found in graph)

        def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
            return [lambda inputs: [np.tile(inputs[0], 2)] for _ in partitions]

    proto = parser.parse_model(OWN.format(node="Ruled", type="int32").replace("[2] y", "[M] y"))
    made = ort_lite.InferenceSession(proto, providers=[Ruling()])
    assert made.run(None, {"x": np.ones(2, np.int32)})[0].tolist() == [1] * 4
    assert made.get_outputs()[0].shape == [4]
