"""Memory plans in a document: rectangles, what is alive, and which node each tensor is of."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.memory.planning.lifetimes import TensorLifetime
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorAllocation, TensorBinding
from ort_lite.memory.planning.requests import ArenaRole
from ort_lite.tools.view.keys import key_of
from ort_lite.tools.view.memory_chart import arenas_of

CHAIN = """<ir_version: 8, opset_import: ["": 17]> main (float[N, 8] x, float[8, 8] w) => (float[N, 8] y) {
    a = MatMul(x, w)  b = Softmax(a)  c = MatMul(b, w)  y = Softmax(c) }"""


def document(*nodes: str, fused: list[dict[str, Any]] | None = None) -> Any:
    return {"partitions": [{"name": "P_0", "nodes": nodes, "fused": fused or []}], "placements": dict.fromkeys(nodes)}


def plan() -> MemoryPlan:
    made = MemoryPlan(
        arena_usages={"m": ArenaUsage("m", 192, 192)},
        constant_arenas={"m": ArenaUsage("m", 64, 64, ArenaRole.constant)},
        aliases={"c": "a"},
        steps={"m": ["one", "two+three", "(inserted)"]},
        shapes={"x": [1, "N"]},
    )
    for name, offset, size, first, last in (("a", 0, 128, 0, 1), ("b", 128, 64, 1, 2), ("c", 0, 128, 1, 1)):
        made.tensor_allocs[name] = TensorAllocation(name, "m", offset, size)
        made.tensor_lifetimes[name] = TensorLifetime(name, first, last)
    made.bind("w", TensorBinding(ArenaRole.constant, "m", 0, "m"), 64)
    return made


def test_a_plan_is_an_arena_for_each_role_that_holds_something() -> None:
    scratch, constant = arenas_of({"P_0": plan(), "gone": plan()}, document("one", "two", "three"))
    assert arenas_of({"P_0": "in words of its own"}, document()) == []
    assert scratch == {
        "partition": "P_0",
        "memory": "m",
        "role": "scratch",
        "size": 192,
        "bound": 192,
        "steps": ["one", "two+three", "(inserted)"],
        "live": [128, 192, 64],
        "tensors": [
            {"name": "a", "offset": 0, "size": 128, "first": 0, "last": 1, "role": "scratch", "node": "one"},
            {"name": "b", "offset": 128, "size": 64, "first": 1, "last": 2, "role": "scratch", "node": "three"},
        ],
        "shapes": "x [1, N]",
    }
    assert (constant["role"], constant["live"], constant["bound"]) == ("constant", [64], 64)
    assert constant["tensors"] == [{"name": "w", "offset": 0, "size": 64, "first": 0, "last": 0, "role": "constant"}]


def test_steps_that_a_plan_does_not_name_have_numbers() -> None:
    made = MemoryPlan(arena_usages={"m": ArenaUsage("m", 8, 8)})
    made.tensor_allocs["a"], made.tensor_lifetimes["a"] = TensorAllocation("a", "m", 0, 8), TensorLifetime("a", 1, 2)
    [arena] = arenas_of({"P_0": made}, document())
    assert (arena["steps"], arena["live"]) == (["step 0", "step 1", "step 2"], [0, 8, 8])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", "a"),
        ("x+b", "b"),
        ("Gelu_b", "b"),
        ("whole", "c"),
        ("x+whole", "c"),
        ("(inserted)", ""),
        ("other_1", ""),
        ("", ""),
    ],
)
def test_names_of_what_providers_run_lead_to_nodes(name: str, expected: str) -> None:
    assert key_of(name, {"a", "b", "c"}, {"whole": ["b", "c"], "lost": ["z"]}) == expected


def test_the_cpu_provider_tells_its_steps_and_shapes() -> None:
    session = ort_lite.InferenceSession(onnx.parser.parse_model(CHAIN), providers=["CPUExecutionProvider"])
    assert session.view().document["memory"] == [], "nothing is planned before a run"
    session.run(None, {"x": np.ones((5, 8), np.float32), "w": np.ones((8, 8), np.float32)})
    [arena] = session.view().document["memory"]
    assert (arena["partition"], arena["shapes"]) == ("CPUExecutionProvider_0", "x [5, 8], w [8, 8]")
    assert {tensor["name"]: tensor.get("node") for tensor in arena["tensors"]}.items() >= {("a", "MatMul_0"), ("c", "MatMul_1")}
    assert max(arena["live"]) == arena["bound"] <= arena["size"]
    assert all(t["first"] <= t["last"] < len(arena["steps"]) for t in arena["tensors"])


def test_a_run_of_the_view_plans_for_its_feeds_in_the_session_itself() -> None:
    session = ort_lite.InferenceSession(onnx.parser.parse_model(CHAIN), providers=["CPUExecutionProvider"])
    view = session.view({"x": np.ones((3, 8), np.float32), "w": np.ones((8, 8), np.float32)})
    assert [arena["shapes"] for arena in view.document["memory"]] == ["x [3, 8], w [8, 8]"]
    assert session.view().document["memory"] == view.document["memory"]


def test_a_partition_that_only_ran_as_a_program_for_some_shapes_has_the_plan_of_that() -> None:
    session = ort_lite.InferenceSession(onnx.parser.parse_model(CHAIN), providers=["CPUExecutionProvider"])
    program: Any = session._stage_results.compiled.partitions["CPUExecutionProvider_0"]
    shapes = (2, 8), (8, 8)
    special = program._checked.keep(shapes, program._specialize(shapes))
    assert not program.memory_plan().tensor_allocs, "nothing ran yet"
    program([np.ones(shape, np.float32) for shape in shapes])
    assert program.memory_plan() == special.memory_plan()
    assert program.memory_plan().shapes == {"x": [2, 8], "w": [8, 8]}
