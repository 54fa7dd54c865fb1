"""What providers of accelerators share: claims by units, numbers in options, saved formats, profiles."""

from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest

from ort_lite.errors import ProviderError
from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.inference.annotate import annotate
from ort_lite.plugins import plugins
from ort_lite.provider import Capability, GraphView, Rejection
from ort_lite.provider.accelerators import Format, claim_units, count, elementwise_groups
from tests.provider.numpy_provider import CpuStandIn
from tests.provider.texts import graph


def chain(*operators: str) -> Graph:
    """Each node reads the one before."""
    value = Value("x", TensorType("float32", (3,)))
    graph = Graph("main", [value])
    for k, operator in enumerate(operators):
        value = graph.append(Node(operator, [value], [Value(f"v{k}", value.type)], version=17, name=f"{operator}{k}")).output
    graph.set_outputs([value])
    return graph


def no_exp(node: Node) -> Rejection | None:
    return Rejection(node, "operator", "it cannot") if node.op_type == "Exp" else None


def with_relu(node: Node, free: Collection[Node]) -> list[Node]:
    """The node with the Relu behind it."""
    return [node, *(reader for reader in node.output.readers if reader.op_type == "Relu" and reader in free)]


def test_nodes_are_claimed_by_units_and_declined_one_by_one() -> None:
    answers = claim_units(GraphView(chain("Neg", "Relu", "Relu", "Exp", "Relu")), no_exp, with_relu)
    said = [[node.name for node in a.nodes] if isinstance(a, Capability) else str(a) for a in answers]
    assert said == [["Neg0", "Relu1"], ["Relu2"], "operator: it cannot", ["Relu4"]]


def test_without_units_each_node_is_one() -> None:
    answers = list(claim_units(GraphView(chain("Neg", "Exp", "Relu")), no_exp))
    assert [type(answer) for answer in answers] == [Capability, Rejection, Capability]


@pytest.mark.parametrize(
    ("saved", "fits"),
    [
        ("npu 2.0", True),
        ("npu 2.3", True),
        ("npu 2.4", False),
        ("npu 1.0", False),
        ("gpu 2.0", False),
        ("npu 2.x", False),
        ("", False),
    ],
)
def test_a_format_runs_what_its_compilers_made_so_far(saved: str, fits: bool) -> None:
    made = Format("npu", 2, 3)
    assert str(made) == "npu 2.3"
    assert made.misfit(saved) == (None if fits else f"it was compiled for {saved!r}; this runs 'npu 2.3'")


def test_a_number_may_be_text() -> None:
    assert [count(CpuStandIn(), "cards", given) for given in (0, 3, "17")] == [0, 3, 17]
    for wrong in (-1, "-1", "", "two", 1.5, "1_0", "٣"):
        with pytest.raises(ProviderError, match=f"CPUExecutionProvider: cards is {wrong!r}; expected a number, 0 or more"):
            count(CpuStandIn(), "cards", cast(Any, wrong))


# Groups


def groups(text: str, nodes: Sequence[str] = (), max_operands: int | None = None) -> str:
    """The groups, nodes by the names of their outputs. MatMul is an anchor."""
    made = graph(text)
    annotate(made, plugins.shape_rules())
    found = elementwise_groups(
        [node for node in made if not nodes or node.output.name in nodes],
        anchors=lambda node: node.op_type == "MatMul",
        elementwise=lambda node: node.op_type in ("Add", "Mul", "Relu", "Tanh"),
        max_operands=max_operands,
    )
    return " ".join("+".join(node.output.name for node in group) for group in found)


LAYER = "(float[N, 4] x, float[4, 4] w, float[4] b) => (float[N, 4] y) { a = MatMul(x, w)  c = Add(a, b)  d = Relu(c)  y = Add(x, d) }"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LAYER, "a+c+d+y"),
        (LAYER.replace("(float[N, 4] y)", "(float[N, 4] y, float[N, 4] c)"), "a+c d y"),
        (LAYER.replace("Add(x, d)", "Add(a, d)"), "a c d y"),
        (LAYER.replace("Relu(c)", "Softmax(c)"), "a+c d y"),
        (LAYER.replace("Relu(c)", "Mul(c, c)"), "a+c+d+y"),
        (LAYER.replace("float[4] b", "float[2, N, 4] b").replace("(float[N, 4] y)", "(float[2, N, 4] y)"), "a c d y"),
        (LAYER.replace("Add(x, d)", "MatMul(d, w)"), "a+c+d y"),
        (LAYER.replace("Add(x, d)", "If (f) <then_branch = t () => (float[N, 4] p) { p = Abs(d) }, "
         "else_branch = e () => (float[N, 4] q) { q = Abs(x) }>").replace("(float[N, 4] x", "(bool f, float[N, 4] x"), "a+c+d y"),
    ],
)  # fmt: skip
def test_elementwise_nodes_follow_their_anchor(text: str, found: str) -> None:
    assert groups(text) == found


def test_a_group_has_the_place_of_its_last_node() -> None:
    text = "(float[4, 4] x, float[4, 4] w) => (float[4, 4] y) { a = MatMul(x, w)  b = Tanh(x)  c = Softmax(b)  y = Add(a, c) }"
    assert groups(text) == "b c a+y"
    two = "(float[4, 4] x, float[4, 4] w) => (float[4, 4] y) { a = MatMul(x, w)  b = MatMul(w, x)  c = Relu(b)  y = Add(a, c) }"
    assert groups(two) == "b+c a+y", "the first anchor gets the node that two could have"


@pytest.mark.parametrize(("most", "found"), [(1, "a c d y"), (2, "a c d y"), (3, "a+c+d+y"), (None, "a+c+d+y")])
def test_a_group_reads_a_limited_number_of_values(most: int | None, found: str) -> None:
    assert groups(LAYER, max_operands=most) == found


def test_nodes_outside_are_in_no_group() -> None:
    assert groups(LAYER, ["a", "c"]) == "a+c"
    assert groups(LAYER, ["c", "d", "y"]) == "c d y"
