"""What packs a session's scratch memory is what `ort_lite.memory_planner` names: one of PLANNERS, or a plugin's."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument, InvalidPlan, OutOfMemory, ProviderError
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.checker import check
from ort_lite.memory.planning.packing import LIMIT
from ort_lite.memory.planning.plan import MemoryPlan
from ort_lite.memory.planning.planner import PLANNERS, MemoryPlanner
from ort_lite.plugins import Registry, plugins
from tests.load.models import proto

KEY = "ort_lite.memory_planner"
TEXT = """main (float[N, 32] x) => (float[N, 32] y, float[N, 1] z) {
    a = Softmax(x) b = MatMul(a, w) c = Softmax(b) d = MatMul(c, w) e = Concat<axis=1>(a, d) f = ReduceMax<keepdims=1>(e)
    g = Softmax(d) y = MatMul(g, w) z = Neg(f)
}"""
X = np.random.default_rng(0).standard_normal((20, 32)).astype(np.float32)


def model() -> onnx.ModelProto:
    made = proto(TEXT)
    weight = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return made


def session(planner: str | None = None, text: onnx.ModelProto | None = None) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    if planner is not None:
        options.add_session_config_entry(KEY, planner)
    return ort_lite.InferenceSession(text if text is not None else model(), options, ["CPUExecutionProvider"])


def plan_of(made: ort_lite.InferenceSession) -> MemoryPlan:
    [plan] = made.memory_plans().values()
    assert isinstance(plan, MemoryPlan)
    return plan


class Stacked(MemoryPlanner):
    """Nothing shares a byte with anything, at any time."""

    name = "stacked"

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> list[int]:
        return [int(blocks.size[:k].sum()) for k in range(blocks.n)]


class Overlapping(MemoryPlanner):
    name = "overlapping"

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> list[int]:
        return [0] * blocks.n


class Nowhere(MemoryPlanner):
    name = "nowhere"

    def pack(self, blocks: Blocks, capacity: int = LIMIT) -> list[int]:
        return [-1] * blocks.n


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """With the planners above; sessions ask it."""
    made = Registry(paths=())
    made.register_plugin(SimpleNamespace(ort_lite_memory_planners=lambda: [Stacked(), Overlapping(), Nowhere()]))
    monkeypatch.setattr(plugins, "memory_planner", made.memory_planner)
    return made


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_runs_a_model_to_the_same_results(name: str) -> None:
    made, default = session(name), session()
    for x in (X, X[:3], np.tile(X, (9, 1))):
        for got, expected in zip(made.run(None, {"x": x}), default.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(got, expected)
        plan = plan_of(made)
        check(plan)
        assert plan.planner == name
        assert f"packed by {name}" in str(plan)


def test_the_default_is_adaptive() -> None:
    made = session()
    made.run(None, {"x": X})
    assert plan_of(made).planner == "adaptive"


def test_a_session_uses_the_planner_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    kind = type(PLANNERS["greedy"])
    pack: Callable[..., Any] = kind.pack

    def counted(self: MemoryPlanner, blocks: Blocks, capacity: int = LIMIT) -> list[int]:
        asked.append(blocks.n)
        return [int(offset) for offset in pack(self, blocks, capacity)]

    monkeypatch.setattr(kind, "pack", counted)
    made = session("greedy")
    made.run(None, {"x": X})
    assert asked == [len(plan_of(made).tensor_allocs)]
    made.run(None, {"x": X})
    assert len(asked) == 1  # the shape is known


@pytest.mark.usefixtures("registry")
def test_a_planner_of_a_plugin_packs_the_scratch_that_a_session_leases() -> None:
    made, default = session("stacked"), session()
    for got, expected in zip(made.run(None, {"x": X}), default.run(None, {"x": X}), strict=True):
        np.testing.assert_array_equal(got, expected)
    plan, usual = plan_of(made), plan_of(default)
    check(plan)
    total = sum(slot.size for slot in plan.tensor_allocs.values())
    assert plan.planner == "stacked"
    assert plan.arena_usages["cpu"].used == total > usual.arena_usages["cpu"].used
    assert made.memory()["scratch"]["held"] >= total


@pytest.mark.usefixtures("registry")
def test_other_parameters_change_no_planner() -> None:
    made = session("stacked")
    made.load_params(ort_lite.save_params({"w": np.zeros((32, 32), np.float32)}))
    made.run(None, {"x": X})
    assert plan_of(made).planner == "stacked"


@pytest.mark.usefixtures("registry")
def test_what_is_lowered_during_a_run_has_the_same_planner() -> None:
    text = """main (float[N] x) => (float[K, 1] y) {
        i = NonZero(x) t = Transpose<perm=[1, 0]>(i) f = Cast<to=1>(t) s = Softmax<axis=0>(f) r = Softmax<axis=0>(s) y = Neg(r)
    }"""
    feed = {"x": np.ones(5, np.float32)}
    np.testing.assert_array_equal(
        session("stacked", proto(text)).run(None, feed)[0], session(None, proto(text)).run(None, feed)[0]
    )
    with pytest.raises(InvalidPlan, match="memory planner 'overlapping'"):
        session("overlapping", proto(text)).run(None, feed)


@pytest.mark.usefixtures("registry")
def test_a_planner_that_overlaps_live_buffers_is_refused_by_name_before_anything_runs() -> None:
    message = r"memory planner 'overlapping' \(.*\.Overlapping\): 'a', .* and 'b', .* share bytes \[0, "
    with pytest.raises(InvalidPlan, match=message):
        session("overlapping").run(None, {"x": X})


@pytest.mark.usefixtures("registry")
def test_a_planner_that_places_nothing_is_refused() -> None:
    with pytest.raises(OutOfMemory, match="memory planner 'nowhere' found no place"):
        session("nowhere").run(None, {"x": X})


@pytest.mark.usefixtures("registry")
def test_an_unknown_planner_is_refused_with_the_known_ones() -> None:
    message = r"no memory planner is called 'greed'; did you mean 'greedy'\? \(known: adaptive, .*, stacked, .*\)"
    with pytest.raises(InvalidArgument, match=message):
        session("greed")


@pytest.mark.parametrize("answer", [Stacked, "stacked", MemoryPlanner])
def test_what_is_no_planner_is_refused(answer: object) -> None:
    registry = Registry(paths=())
    registry.register_plugin(SimpleNamespace(ort_lite_memory_planners=lambda: [answer]))
    with pytest.raises(ProviderError, match=r"ort_lite_memory_planners gave .*; expected MemoryPlanner objects with a name"):
        registry.memory_planner("stacked")


def test_of_two_planners_with_one_name_the_first_counts_and_ours_come_before(registry: Registry) -> None:
    class Greedy(Stacked):
        name = "greedy"

    second = Stacked()
    registry.register_plugin(SimpleNamespace(ort_lite_memory_planners=lambda: [second, Greedy()]))
    assert registry.memory_planner("stacked") is not second
    assert registry.memory_planner("greedy") is PLANNERS["greedy"]
