"""Placement rules: who gets a node that a rule matches, and what happens where that cannot be."""

from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument, PlacementError
from ort_lite.partition.placement import place
from ort_lite.provider import Capability
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider
from tests.provider.texts import session

X = np.array([1, -2, 3], np.float32)
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"
BRANCHES = """(float[3] x, bool f) => (float[3] y) {
    a = Abs(x)
    y = If (f) <then_branch = p () => (float[3] t) { t = Neg(a) }, else_branch = n () => (float[3] e) { e = Relu(a) }>
}"""
NUMPY, CPU = "NumpyExecutionProvider", "CPUExecutionProvider"


def explained(text: str, rules: Any, *providers: Any) -> ort_lite.Explanation:
    providers = providers or (NumpyProvider(), CpuStandIn())
    made = session(text, *providers, placement_rules=rules)
    feed = {"x": X, "f": np.array(True)} if "bool f" in text else {"x": X}
    expected = -np.abs(X) if "bool f" in text else np.maximum(np.tanh(-np.abs(X)), 0)
    np.testing.assert_array_equal(made.run(None, feed)[0], expected)
    return made.explain()


def on_cpu(found: ort_lite.Explanation) -> str:
    return " ".join(p.node.output.name for p in found.assignment.placements.values() if p.provider == CPU)


@pytest.mark.parametrize(
    ("rule", "moved"),
    [
        (place(CPU, operator="Tanh"), "c"),
        (place(CPU, operator=("Tanh", "Abs")), "a c"),
        (place(CPU, name="[AN]*_0"), "a b"),
        (place(CPU, dtype="float32"), "a b c y"),
        (place(CPU, dtype=("int64", "float16")), ""),
        (place(CPU, domain=""), "a b c y"),
        (place(CPU, domain="other"), ""),
        (place(CPU, where=lambda node: node.op_type == "Conv"), ""),
        (place(CPU, operator="Neg", where=lambda node: node.output.shape == (3,)), "b"),
        (place(CPU, NUMPY, operator="Neg"), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else value.text,
)
def test_nodes_that_a_rule_matches_are_shown_to_its_providers_alone(rule: Any, moved: str) -> None:
    assert on_cpu(explained(CHAIN, [rule])) == moved


def test_explain_says_rule_on_both_sides() -> None:
    found = explained(CHAIN, [place(CPU, operator="Tanh", hard=True)])
    told = "hard rule operator='Tanh' -> CPUExecutionProvider"
    assert found.assignment.placements[next(iter(found.assignment.partitions[1].nodes))].rule == told
    reason = found.verdicts()["Tanh_0"][NUMPY]
    assert (reason.verdict, reason.code, reason.detail) == ("lost", "rule", f"{told} gives it to others")
    assert found.verdicts()["Tanh_0"][CPU].code == "rule"
    assert f"by {told}" in str(found)
    assert [node["rule"] for node in found.as_dict()["nodes"]] == ["", "", told, ""]


def test_nodes_of_bodies_are_ruled_too() -> None:
    assert on_cpu(explained(BRANCHES, [place(CPU, operator="Neg")])) == "t"


def test_a_rule_inside_a_node_that_is_taken_whole_refuses_the_whole() -> None:
    whole = NumpyProvider(group=lambda node: Capability([node], whole=True))
    found = explained(BRANCHES, [place(CPU, operator="Neg", hard=True)], whole, CpuStandIn())
    assert on_cpu(found) == "y t"
    assert found.verdicts()["If_0"][NUMPY].code == "rule"


def test_a_soft_rule_gives_way_and_says_so() -> None:
    picky = NumpyProvider(lambda node: node.op_type != "Tanh")
    found = explained(CHAIN, [place(NUMPY, operator="Tanh")], picky, CpuStandIn())
    assert on_cpu(found) == "c"
    assert found.assignment.remarks == (
        "soft rule operator='Tanh' -> NumpyExecutionProvider gave way for Tanh 'Tanh_0': nobody that it names takes it",
    )


def test_a_hard_rule_that_cannot_be_kept_names_node_and_reason() -> None:
    picky = NumpyProvider(lambda node: node.op_type != "Tanh")
    with pytest.raises(
        PlacementError, match=r"(?s)Tanh 'Tanh_0': hard rule .*NumpyExecutionProvider declined choice: not wanted; CPUExecution"
    ):
        explained(CHAIN, [place(NUMPY, operator="Tanh", hard=True)], picky, CpuStandIn())


def test_hard_rules_that_contradict_each_other_are_an_error() -> None:
    rules = [place(NUMPY, operator="Tanh", hard=True), place(CPU, dtype="float32", hard=True)]
    with pytest.raises(
        PlacementError, match=r"Tanh 'Tanh_0': hard rule operator='Tanh' .* and hard rule dtype='float32' .* contr"
    ):
        explained(CHAIN, rules)


def test_hard_rules_that_agree_leave_what_they_share() -> None:
    rules = [place(NUMPY, CPU, operator="Tanh", hard=True), place(CPU, dtype="float32", hard=True)]
    assert on_cpu(explained(CHAIN, rules)) == "a b c y"


@pytest.mark.parametrize("hard", [True, False])
def test_of_rules_that_contradict_softly_one_is_followed_and_the_other_reported(hard: bool) -> None:
    rules = [place(NUMPY, operator="Tanh"), place(CPU, dtype="float32", hard=hard)]
    found = explained(CHAIN, rules)
    assert on_cpu(found) == ("a b c y" if hard else "a b y")
    (remark,) = found.assignment.remarks
    assert "is not followed for Tanh 'Tanh_0'" in remark
    assert remark in str(found)


def test_a_soft_rule_that_gives_way_leaves_the_hard_one_in_force() -> None:
    picky = NumpyProvider(lambda node: node.op_type != "Tanh")
    rules = [place(NUMPY, CPU, operator="Tanh", hard=True), place(NUMPY, operator="Tanh")]
    found = explained(CHAIN, rules, picky, CpuStandIn())
    assert on_cpu(found) == "c"
    assert found.assignment.remarks[0].startswith("soft rule operator='Tanh' -> NumpyExecutionProvider gave way for Tanh")
    assert next(p.rule for p in found.assignment.placements.values() if p.rule).startswith("hard rule")


def test_rules_without_effect_are_reported() -> None:
    found = explained(CHAIN, [place(CPU, operator="Conv"), place("NoExecutionProvider", operator="Tanh")])
    assert on_cpu(found) == ""
    assert sorted(found.assignment.remarks) == [
        "soft rule operator='Conv' -> CPUExecutionProvider matches no node",
        "soft rule operator='Tanh' -> NoExecutionProvider names no provider of the session",
    ]
    with pytest.raises(PlacementError, match=r"Tanh 'Tanh_0': hard rule .* names no provider of the session"):
        explained(CHAIN, [place("NoExecutionProvider", operator="Tanh", hard=True)])


def test_one_of_two_instances_can_be_named() -> None:
    rules = [place("NumpyExecutionProvider#2", operator="Tanh", hard=True)]
    found = explained(CHAIN, rules, NumpyProvider(), NumpyProvider(), CpuStandIn())
    assert [p.provider for p in found.assignment.placements.values()] == [NUMPY, NUMPY, f"{NUMPY}#2", NUMPY]


def test_a_predicate_that_fails_names_rule_and_node() -> None:
    with pytest.raises(PlacementError, match=r"Abs 'Abs_0': soft rule where=<lambda> -> .* cannot be asked about it: ZeroDiv"):
        explained(CHAIN, [place(CPU, where=lambda node: 1 // 0 > 0)])


@pytest.mark.parametrize(("providers", "said"), [((), {"operator": "Conv"}), ((CPU,), {})])
def test_a_rule_says_who_and_which(providers: tuple[str, ...], said: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="expected a provider's name, and at least one of"):
        place(*providers, **said)
