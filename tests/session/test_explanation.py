"""explain(): every node and provider, boundaries, comparison; plan() gives the same without compiling."""

import json
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.provider import Capability
from ort_lite.shapes import symbol
from tests.provider import numpy_provider
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice
from tests.provider.texts import named, proto
from tests.session.test_session import NoHalf

CHAIN = "(float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"
NUMPY, CPU = "NumpyExecutionProvider", "CPUExecutionProvider"


def explained(*providers: Any, text: str = CHAIN, **more: Any) -> ort_lite.Explanation:
    return ort_lite.InferenceSession(proto(text), providers=providers, **more).explain()


def test_every_node_has_a_verdict_of_every_provider() -> None:
    pairs = NumpyProvider(named("a", "y"), group=lambda n: Capability([n], minimum=1 if n.output.name == "a" else 2))
    verdicts = explained(pairs, CpuStandIn(), NumpyProvider()).verdicts()
    assert {node: {p: f"{r.verdict} {r.code}".strip() for p, r in by.items()} for node, by in verdicts.items()} == {
        "Abs_0": {NUMPY: "taken", CPU: "lost earlier", f"{NUMPY}#2": "lost earlier"},
        "Neg_0": {NUMPY: "declined choice", CPU: "taken", f"{NUMPY}#2": "lost earlier"},
        "Tanh_0": {NUMPY: "declined choice", CPU: "taken", f"{NUMPY}#2": "lost earlier"},
        "Relu_0": {NUMPY: "lost size", CPU: "taken", f"{NUMPY}#2": "lost earlier"},
    }
    assert verdicts["Abs_0"][NUMPY].detail == "NumpyExecutionProvider_0"


def test_boundary_tensors_have_their_bytes() -> None:
    found = explained(OtherDevice(named("b", "c")), CpuStandIn())
    assert found.boundaries()["BoxExecutionProvider_0"] == {"a": 12 * symbol("N"), "c": 12 * symbol("N")}
    assert found.as_dict()["levels"][0]["partitions"][1]["bytes"] == {"a": "12*N", "c": "12*N"}
    assert "BoxExecutionProvider_0: 2 nodes; in 'a' (12*N bytes); out 'c' (12*N bytes)" in str(found)
    assert json.loads(found.to_json()) == found.as_dict()


def test_inserted_casts_say_who_put_them_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_provider, "FUNCTIONS", {**numpy_provider.FUNCTIONS, "Cast": np.array})
    found = explained(NoHalf(), text="(float16[N] x) => (float16[N] y) { y = Abs(x) }")
    told = [place.inserted for place in found.assignment.placements.values()]
    why = "cast, for a node that nobody runs in its element type"
    assert told == [why, "", why]
    assert str(found).count(f"inserted: {why}") == 2


def test_two_sessions_are_compared() -> None:
    before = explained(NumpyProvider(named("a", "b", "c")), CpuStandIn())
    after = explained(NumpyProvider(named("b"), group=lambda n: Capability([n], minimum=2)), CpuStandIn())
    found = before.compare(after)
    assert [str(move) for move in found.moved] == [
        f"Abs_0 (Abs): {NUMPY} -> {CPU}: {NUMPY} declined choice: not wanted",
        f"Neg_0 (Neg): {NUMPY} -> {CPU}: {NUMPY} lost: group too small: 1 node, takes 2 or more",
        f"Tanh_0 (Tanh): {NUMPY} -> {CPU}: {NUMPY} declined choice: not wanted",
    ]
    assert json.loads(found.to_json())["moved"][0]["before"] == NUMPY
    assert bool(found)
    same = before.compare(before)
    assert not same
    assert str(same) == "no difference"


def test_a_comparison_tells_of_providers_rules_and_nodes_that_one_side_lacks() -> None:
    rule = [ort_lite.place(CPU, operator="Abs")]
    before, alone = explained(NumpyProvider(), CpuStandIn()), explained(CpuStandIn())
    assert before.compare(alone).moved[0].why == f"{NUMPY} is not there"
    ruled = explained(NumpyProvider(), CpuStandIn(), placement_rules=rule)
    assert "soft rule operator='Abs'" in before.compare(ruled).moved[0].why
    shorter = explained(NumpyProvider(), CpuStandIn(), text="(float[N,3] x) => (float[N,3] y) { a = Abs(x)  y = Sub(a, x) }")
    assert str(before.compare(shorter)) == "Neg_0: gone\nTanh_0: gone\nRelu_0: gone\nSub_0: new"


def test_a_plan_is_the_explanation_without_compiling() -> None:
    provider, cpu = NumpyProvider(named("a", "b")), CpuStandIn()
    planned = ort_lite.plan(proto(CHAIN), [provider, cpu])
    assert provider.compiled == cpu.compiled == []
    made = explained(NumpyProvider(named("a", "b")), CpuStandIn())
    assert planned.as_dict() == made.as_dict()
    assert not planned.compare(made)


def test_a_plan_takes_rules_options_and_policies() -> None:
    options = ort_lite.SessionOptions()
    options.add_free_dimension_override_by_name("N", 2)
    found = ort_lite.plan(
        proto(CHAIN),
        [(NumpyProvider(), {"limit_nodes": 1}), CpuStandIn()],
        options,
        placement_rules=[ort_lite.place(CPU, operator="Abs")],
    )
    assert [p.provider for p in found.assignment.placements.values()] == [CPU, NUMPY, CPU, CPU]
    assert found.boundaries()[f"{NUMPY}_0"] == {"a": 24, "b": 24}
