"""Functions become the nodes of their bodies; the result computes the same."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Model
from ort_lite.graph.inline import inline_functions
from ort_lite.load.load import load
from ort_lite.load.save import to_proto
from tests.load.models import FUNCTIONS, Array, interpret, run

HEAD = '<ir_version: 10, opset_import: ["": 18, "my": 1]>'
MY = '<domain: "my", opset_import: ["": 18, "my": 1]>'
MAIN = "g (float[N] x) => (float[N] y)"
X = np.array([1, -2, 3], np.float32)


def inlined(text: str, run: Callable[..., list[Array]] = run) -> Model:
    """The model with its functions inlined, checked to compute the same as before."""
    proto = parser.parse_model(f"{HEAD} {text}")
    model = load(proto)
    inline_functions(model.graph, model)
    model.functions.clear()
    after = to_proto(model)
    onnx.checker.check_model(after)
    feeds = [X if info.type.tensor_type.elem_type == 1 else np.array(True) for info in proto.graph.input]
    for expected, got in zip(run(proto, *feeds), run(after, *feeds), strict=True):
        np.testing.assert_array_equal(got, expected)
    return model


def body(graph: Graph) -> str:
    return "\n".join(line.strip() for line in str(graph).splitlines()[1:-1])


def test_functions_in_functions_with_attributes_and_defaults() -> None:
    model = load(parser.parse_model(FUNCTIONS))
    assert inline_functions(model.graph, model) == 4
    assert body(model.graph).splitlines() == [
        "twice_0/scale_0/f = Constant<value_float=0.5>()",
        "twice_0/b = Mul(x, twice_0/scale_0/f)",
        "twice_0/scale_1/f = Constant<value_float=0.5>()",
        "y = Mul(twice_0/b, twice_0/scale_1/f)",
        "scale_0/f = Constant<value_float=2.0>()",
        "z = Mul(y, scale_0/f)",
    ]
    assert {node.version for node in model.graph} == {14}
    assert len({node.name for node in model.graph}) == 6
    assert str(model.graph.outputs[0].type) == "float32[N]"


def test_only_the_calls_that_are_asked_for() -> None:
    model = load(parser.parse_model(FUNCTIONS))
    assert inline_functions(model.graph, model, which=lambda call: call.op_type == "twice") == 1
    assert [node.op_type for node in model.graph] == ["scale", "scale", "scale"]


def test_without_functions_nothing_happens() -> None:
    model = load(parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] y) { y = Neg(x) }'))
    assert inline_functions(model.graph, model) == 0


def test_an_attribute_that_nobody_gives_is_left_out() -> None:
    function = f"{MY} f <slope> (a) => (b) {{ b = LeakyRelu <alpha: float = @slope> (a) }}"
    model = inlined(f"{MAIN} {{ y = my.f(x) }} {function}")
    assert model.graph.nodes[0].attributes == {}


def test_inputs_that_the_call_leaves_out_are_left_out_inside() -> None:
    model = inlined(f"{MAIN} {{ y = my.f(x) }} {MY} f (a, low) => (b) {{ b = Clip (a, low) }}")
    assert model.graph.nodes[0].inputs == (model.graph.inputs[0], None)


def test_outputs_that_the_call_leaves_out_are_computed_for_nobody() -> None:
    model = inlined(f"{MAIN} {{ , y = my.f(x) }} {MY} f (a) => (b, c) {{ b = Neg(a) c = Abs(b) }}")
    assert body(model.graph) == "f_0/b = Neg(x)\ny = Abs(f_0/b)"


@pytest.mark.parametrize(
    ("function", "call", "expected"),
    [
        ("f (a) => (a) {}", "y = my.f(x)", "y = Identity(x)"),
        ("f (a) => (b, b) { b = Neg(a) }", "y, z = my.f(x)", "y = Neg(x)\nz = Identity(y)"),
        ("f (a) => (b, b) { b = Neg(a) }", "p, q = my.f(x)\n y = Add(p, q)", "q = Neg(x)\ny = Add(q, q)"),
    ],
    ids=["an input returned", "one result twice, both outputs", "one result twice, both inside"],
)
def test_every_output_has_a_value(function: str, call: str, expected: str) -> None:
    outputs = "float[N] y, float[N] z" if "z" in call else "float[N] y"
    model = inlined(f"g (float[N] x) => ({outputs}) {{ {call} }} {MY} {function}", interpret)
    assert body(model.graph) == expected


def test_calls_in_bodies_and_bodies_in_functions() -> None:
    function = f"""{MY} f <by> (a, c) => (b) {{
        b = If (c) <
            then_branch = t () => (p) {{ k = Constant <value_float: float = @by> () p = Mul(a, k) }},
            else_branch = e () => (q) {{ q = Neg(a) }}
        >
    }}"""
    model = inlined(f"""g (float[N] x, bool c) => (float[N] y, float[N] z) {{
        y = If (c) <
            then_branch = t () => (float[N] p) {{ p = my.f <by = 3.0> (x, c) }},
            else_branch = e () => (float[N] q) {{ q = Neg(x) }}
        >
        z = my.f <by = 2.0> (y, c)
    }} {function}""")
    names = [node.name for node in model.graph.all_nodes()]
    assert len(set(names)) == len(names) == 10
    values = [value.name for node in model.graph.all_nodes() for value in node.outputs if value]
    assert len(set(values)) == len(values)


def test_a_body_that_was_replaced_with_its_call_is_left_alone() -> None:
    """`choose` takes a graph as attribute; the calls in it belong to the copy that replaces it."""
    graph = helper.make_graph(
        [helper.make_node("f", ["x"], ["p"], "inner", domain="my")], "t", [], [helper.make_tensor_value_info("p", 1, [3])]
    )
    branch = helper.make_node("If", ["c"], ["b"])
    for name in ("then_branch", "else_branch"):
        branch.attribute.add(name=name, ref_attr_name="how", type=onnx.AttributeProto.GRAPH)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    functions = [
        helper.make_function("my", "choose", ["c"], ["b"], [branch], opsets, ["how"]),
        helper.make_function("my", "f", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets),
    ]
    infos = [helper.make_tensor_value_info("x", 1, [3]), helper.make_tensor_value_info("c", 9, [])]
    outputs = [helper.make_tensor_value_info("y", 1, [3])]
    call = helper.make_node("choose", ["c"], ["y"], "call", domain="my", how=graph)
    made = helper.make_graph([call], "g", infos, outputs)
    model = load(helper.make_model(made, functions=functions, opset_imports=opsets, ir_version=10))
    inline_functions(model.graph, model)
    model.functions.clear()
    assert [node.op_type for node in model.graph.all_nodes()] == ["If", "Neg", "Neg"]
    np.testing.assert_array_equal(run(to_proto(model), X, np.array(True))[0], -X)


def test_new_names_do_not_meet_old_ones() -> None:
    text = f"{MAIN} {{ [c] z = my.f(x) y = Neg(z) }} {MY} f (a) => (b) {{ t = Abs(a) b = Neg(t) }}"
    model = load(parser.parse_model(f"{HEAD} {text}"))
    model.graph.nodes[0].output.name = "c/t"
    inline_functions(model.graph, model)
    assert body(model.graph) == "c/t_1 = Abs(x)\nc/t = Neg(c/t_1)\ny = Neg(c/t)"
    assert [node.name for node in model.graph] == ["c/Abs_0", "c/Neg_0", "Neg_0"]


def test_overloads_are_told_apart() -> None:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    functions = [
        helper.make_function(
            "my", "f", ["a"], ["b"], [helper.make_node(op, ["a"], ["b"])], [helper.make_opsetid("", 18)], overload=overload
        )
        for op, overload in (("Neg", ""), ("Abs", "other"))
    ]
    calls = [helper.make_node("f", [i], [o], domain="my", overload=v) for i, o, v in (("x", "t", "other"), ("t", "y", ""))]
    infos = [helper.make_tensor_value_info(name, 1, [3]) for name in ("x", "y")]
    proto = helper.make_model(helper.make_graph(calls, "g", infos[:1], infos[1:]), functions=functions, opset_imports=opsets)
    model = load(proto)
    inline_functions(model.graph, model)
    assert [node.op_type for node in model.graph] == ["Abs", "Neg"]


class TestErrors:
    def test_more_inputs_than_the_function_has(self) -> None:
        text = f"{HEAD} {MAIN} {{ [call] y = my.f(x, x) }} {MY} f (a) => (b) {{ b = Neg(a) }}"
        model = load(parser.parse_model(text))
        with pytest.raises(InvalidGraph, match="f 'call': 2 inputs and 1 outputs, the function has 1 and 1"):
            inline_functions(model.graph, model)

    def test_a_function_that_returns_what_it_was_not_given(self) -> None:
        main = "g (float[N] x) => (float[N] y, float[N] z)"
        text = f"{HEAD} {main} {{ [call] y, z = my.f(x) }} {MY} f (a, b) => (c, b) {{ c = Neg(a) }}"
        model = load(parser.parse_model(text))
        with pytest.raises(InvalidGraph, match="f 'call': the function returns its input 'b', which the call leaves out"):
            inline_functions(model.graph, model)
