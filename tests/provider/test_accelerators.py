"""What providers of accelerators share: claims by units, numbers in options, saved formats, profiles."""

from collections.abc import Collection
from typing import Any, cast

import pytest

from ort_lite.errors import ProviderError
from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.provider import Capability, GraphView, Rejection
from ort_lite.provider.accelerators import Format, claim_units, count
from tests.provider.numpy_provider import CpuStandIn


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
