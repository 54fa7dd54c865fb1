"""Transforms that leave an invalid graph are named, and nothing goes on with what they left."""

from collections.abc import Callable

import pytest

import ort_lite
from ort_lite.errors import Fail
from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.plugins import plugins
from ort_lite.transform import Done, Rewriter, Skip, graph_pass, op, rule
from ort_lite.transform.fusions import Fusions
from ort_lite.transform.transform import transform
from tests.provider.numpy_provider import CpuStandIn
from tests.text_graphs import model

SIGNATURE = "(float[2] x, bool f) => (float[2] y, float[2] z)"
BODY = """{
    a = Abs(x)
    b = Neg(a)
    y = Tanh(b)
    z = If (f) <then_branch = p () => (float[2] t) { t = Neg(a) }, else_branch = n () => (float[2] e) { e = Exp(a) }>
}"""


def node(graph: Graph, operator: str) -> Node:
    return next(found for found in graph.all_nodes() if found.op_type == operator)


def _late(graph: Graph) -> None:
    made = graph.append(Node("Abs", [graph.inputs[0]], [Value("late", TensorType("float32", (2,)))], name="late"))
    node(graph, "Tanh").replace_input(0, made.output)


def _narrow(graph: Graph) -> None:
    node(graph, "Tanh").output.type = TensorType("float32", (3,))


def _from_a_body(graph: Graph) -> None:
    node(graph, "Tanh").replace_input(0, node(graph, "Exp").output)


FAULTS: dict[str, tuple[Callable[[Graph], None], str]] = {
    "a cycle": (lambda g: node(g, "Abs").replace_input(0, node(g, "Neg").output), "the graph has a cycle: Abs"),
    "a value that nobody makes": (
        lambda g: node(g, "Neg").replace_input(0, Value("v")),
        "Neg .* reads 'v', which nobody makes",
    ),
    "one inside a body": (lambda g: node(g, "Exp").replace_input(0, Value("v")), "Exp .* reads 'v', which nobody makes"),
    "an output less": (lambda g: g.set_outputs([g.outputs[1]]), "its outputs are z; expected y, z"),
    "outputs in another order": (lambda g: g.set_outputs(reversed(g.outputs)), "its outputs are z, y; expected y, z"),
    "an output of another type": (_narrow, r"its output 'y' is .*3.*; expected .*2"),
    "an input more": (lambda g: g.inputs.append(Value("more")), "the inputs of the graph are others"),
    "a node that comes too late": (_late, "Tanh .* reads 'late', which Abs 'late' makes after it"),
    "a value of a body": (_from_a_body, "Tanh .* reads 'e', which Exp .* makes after it or in another graph"),
    "an output that nobody makes": (lambda g: g.set_outputs([Value("y"), g.outputs[1]]), "nobody makes its output 'y'"),
}


@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("counted", [1, 0])
def test_a_pass_that_leaves_an_invalid_graph_is_named(what: str, counted: int) -> None:
    fault, message = FAULTS[what]
    done: list[str] = []

    @graph_pass(level="basic")
    def careless(graph: Graph, rewriter: Rewriter) -> int:
        if done:
            return 0
        done.append(what)
        fault(graph)
        return counted

    expected = rf"the transform careless left '.*' an invalid graph: .*{message}.*disabled_optimizers=\['careless'\]"
    with pytest.raises(Fail, match=expected):
        transform(model(SIGNATURE, BODY), [careless], rules=plugins.shape_rules())


@rule(op("Neg", "x", name="found"), level="basic")
def to_cycle(rewriter: Rewriter, x: Value, found: Node) -> Done | Skip:
    made = rewriter.node("Sin", [x])
    result = rewriter.replace(found, made.output)
    made.replace_input(0, made.output)
    return result


@rule(op("Tanh", "x", name="found"), level="basic")
def harmless(rewriter: Rewriter, x: Value, found: Node) -> Done | Skip:
    return rewriter.replace(found, rewriter.op("Cos", x))


def test_of_several_that_changed_something_the_one_at_the_place_is_named() -> None:
    for order in ([to_cycle, harmless], [harmless, to_cycle]):
        with pytest.raises(Fail, match=r"^the transform to_cycle left '.*' an invalid graph: the graph has a cycle: Sin"):
            transform(model(SIGNATURE, BODY), order, rules=plugins.shape_rules())


def test_fusions_of_a_partition_are_looked_at_too() -> None:
    class Fusing(CpuStandIn):
        def fusions(self) -> list[ort_lite.transform.Transform | str]:
            return [to_cycle]

    with pytest.raises(Fail, match=r"the transform to_cycle left '.*' an invalid graph"):
        ort_lite.InferenceSession(model("(float[2] x) => (float[2] y)", "{ a = Abs(x) y = Neg(a) }"), providers=[Fusing()])
    assert Fusions([harmless]).apply(model(SIGNATURE, BODY).graph, plugins.shape_rules(), {"": 21})
