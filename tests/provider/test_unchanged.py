"""Providers that change the graph they are shown are named, with the hook and the place; nothing runs on what they made."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import ProviderError
from ort_lite.graph import Attr, Graph, Node, TensorType, Value
from ort_lite.provider import Capability, CompiledPartition, GraphView, Partition, Rejection
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.provider.texts import plain
from tests.text_graphs import model

SIGNATURE = "(float[3] x, bool f) => (float[3] y)"
BODY = """{
    a = Abs(x)
    b = Add(a, w)
    c = If (f) <then_branch = p () => (float[3] t) { t = Neg(b) }, else_branch = n () => (float[3] e) { e = Abs(b) }>
    y = Neg<tag = 1, tags = [1, 2]>(c)
}"""
CONSTANTS = "<float[3] w = {1, 2, 3}>"

Change = Callable[[Graph], Any]


def node(graph: Graph, operator: str) -> Node:
    return next(found for found in graph if found.op_type == operator)


def inner(graph: Graph) -> Node:
    return next(iter(node(graph, "If").subgraphs()[0]))


CHANGES: dict[str, Change] = {
    "the input of a node": lambda g: node(g, "Add").replace_input(0, g.inputs[0]),
    "the inputs of a node": lambda g: setattr(node(g, "Add"), "inputs", ()),
    "an output of a node": lambda g: node(g, "Add").replace_output(0, Value("other")),
    "the name of a node": lambda g: setattr(node(g, "Add"), "name", "renamed"),
    "the operator of a node": lambda g: setattr(node(g, "Abs"), "op_type", "Neg"),
    "the version of a node": lambda g: setattr(node(g, "Abs"), "version", 99),
    "an attribute that comes": lambda g: node(g, "Abs").attributes.update(mine=Attr("mine", "INT", 1)),
    "an attribute that goes": lambda g: node(g, "If").attributes.pop("then_branch"),
    "an attribute that is another": lambda g: node(g, "If").attributes.update(then_branch=Attr("then_branch", "INT", 1)),
    "the name of a value": lambda g: setattr(node(g, "Abs").output, "name", "renamed"),
    "the type of a value": lambda g: setattr(node(g, "Abs").output, "type", TensorType("float16", (3,))),
    "a constant": lambda g: setattr(node(g, "Abs").output, "constant", np.ones(3, np.float32)),
    "an initialiser": lambda g: setattr(g.initializers["w"], "constant", np.ones(3, np.float32)),
    "an initialiser more": lambda g: g.add_initializer(Value("more", constant=np.ones(3, np.float32))),
    "a node more": lambda g: g.append(Node("Abs", [g.inputs[0]], [Value("more")])),
    "a node less": lambda g: g.clear(),
    "the outputs": lambda g: g.set_outputs([node(g, "Add").output]),
    "the inputs": lambda g: g.inputs.pop(),
    "a node of a body": lambda g: setattr(inner(g), "op_type", "Abs"),
    "a value of a body": lambda g: setattr(inner(g).output, "name", "renamed"),
}


class Meddling(NumpyProvider):
    name: ClassVar[str] = "MeddlingExecutionProvider"

    def __init__(self, hook: str, change: Change) -> None:
        super().__init__(lambda node: node.op_type != "If")
        self.hook, self.change = hook, change

    def get_capability(self, graph: GraphView) -> Iterable[Capability | Rejection]:
        yield from super().get_capability(graph)
        if self.hook == "get_capability":
            self._meddle(graph.graph)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        if self.hook == "compile" and (graph := partitions[0].nodes[0].graph) is not None:
            self._meddle(graph)
        return super().compile(partitions)

    def _meddle(self, graph: Graph) -> None:
        if "w" in graph.initializers:
            self.change(graph)


def session(provider: Any, **policy: Any) -> ort_lite.InferenceSession:
    made = model(SIGNATURE, BODY.replace("<tag = 1, tags = [1, 2]>", ""), CONSTANTS)
    return ort_lite.InferenceSession(made, plain(), providers=[(provider, policy) if policy else provider, CpuStandIn()])


@pytest.mark.parametrize("hook", ["get_capability", "compile"])
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_refused_naming_provider_and_hook(hook: str, what: str) -> None:
    message = rf"^MeddlingExecutionProvider: {hook} changed the graph: .*transforms do, through the Rewriter"
    with pytest.raises(ProviderError, match=message):
        session(Meddling(hook, CHANGES[what]))


def test_the_place_is_named() -> None:
    with pytest.raises(ProviderError, match="compile changed the graph: the node Add 'Add"):
        session(Meddling("compile", CHANGES["the input of a node"]))
    with pytest.raises(ProviderError, match="get_capability changed the graph: the node Neg 'Neg"):
        session(Meddling("get_capability", CHANGES["a node of a body"]))


@pytest.mark.parametrize("hook", ["get_capability", "compile"])
def test_constants_cannot_be_written_to(hook: str) -> None:
    def write(graph: Graph) -> None:
        constant = graph.initializers["w"].constant
        assert constant is not None
        constant[0] = 7

    with pytest.raises(ort_lite.errors.OrtLiteError, match=r"(?s)MeddlingExecutionProvider.*read-only"):
        session(Meddling(hook, write), on_compile_error="raise")


def test_a_provider_that_only_looks_is_left_alone() -> None:
    made = session(Meddling("none", lambda graph: None))
    y = made.run(None, {"x": np.array([1, -2, 3], np.float32), "f": np.array(True)})[0]
    np.testing.assert_array_equal(y, [2, 4, 6])
