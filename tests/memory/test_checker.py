"""The checker against every byte of every operator, and against plans that were spoilt on purpose."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ort_lite.errors import InvalidPlan
from ort_lite.memory.planning.checker import Occupied, check, check_disjoint, find_overlap
from ort_lite.memory.planning.lifetimes import TensorLifetime
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorAllocation, TensorBinding
from ort_lite.memory.planning.planner import PLANNERS
from ort_lite.memory.planning.requests import ArenaRole, Platform
from tests.memory.problems import Problem, disjoint, problems

SPANS = st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(0, 8), st.integers(0, 4))


@given(st.lists(SPANS, max_size=9))
def test_an_overlap_is_found_exactly_if_a_byte_has_two_owners(rows: list[tuple[int, int, int, int]]) -> None:
    tensors = [Occupied(str(i), low, low + size, op, op + more) for i, (low, size, op, more) in enumerate(rows)]
    found = find_overlap(tensors)
    assert (found is None) == disjoint((t.offset, t.top, t.start_op, t.end_op + 1) for t in tensors)
    if found is not None:
        assert not disjoint((t.offset, t.top, t.start_op, t.end_op + 1) for t in found)


def test_both_tensors_their_bytes_and_their_lifetimes_are_named() -> None:
    tensors = [Occupied("conv1", 0, 128, 1, 3), Occupied("relu", 64, 192, 2, 5), Occupied("far", 512, 600, 0, 9)]
    message = (
        r"scratch arena in 'cpu': 'conv1', bytes \[0, 128\), ops 1 to 3 and 'relu', bytes \[64, 192\), ops 2 to 5 "
        r"share bytes \[64, 128\) during ops 2 to 3"
    )
    with pytest.raises(InvalidPlan, match=message):
        check_disjoint(tensors, "scratch arena in 'cpu'")


def moved(plan: MemoryPlan, tensor: str, by: int) -> MemoryPlan:
    """The plan with one offset changed, everything else consistent."""
    slot = plan.tensor_allocs[tensor]
    assert slot.binding is not None
    at = slot.offset + by
    changed = replace(slot, offset=at, binding=replace(slot.binding, offset=at))
    arena = replace(plan.arena_usages["cpu"], used=10**6, total_size=10**6)
    return replace(plan, tensor_allocs={**plan.tensor_allocs, tensor: changed}, arena_usages={"cpu": arena})


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANNERS)
@given(problem=problems(), data=st.data())
def test_a_moved_tensor_is_caught_exactly_if_it_hits_another(kind: str, problem: Problem, data: st.DataObject) -> None:
    plan = Memories(Platform(min_alignment=1)).plan(PLANNERS[kind], problem.requests(), problem.lifetimes())
    assume(plan.tensor_allocs)
    tensor = data.draw(st.sampled_from(sorted(plan.tensor_allocs)))
    plan = moved(plan, tensor, data.draw(st.integers(-plan.tensor_allocs[tensor].offset, 40)))
    rows = [
        (slot.offset, slot.offset + slot.size, *plan.tensor_lifetimes[t].half_open()) for t, slot in plan.tensor_allocs.items()
    ]
    if disjoint(rows):
        check(plan)
    else:
        with pytest.raises(InvalidPlan, match=f"'{tensor}', bytes "):
            check(plan)


# --- One thing wrong at a time
def sound() -> MemoryPlan:
    def slot(name: str, role: ArenaRole, offset: int, size: int) -> TensorAllocation:
        return TensorAllocation(name, "cpu", offset, size, TensorBinding(role, "cpu", offset, "cpu"))

    return MemoryPlan(
        {
            "a": slot("a", ArenaRole.scratch, 0, 64),
            "b": slot("b", ArenaRole.scratch, 64, 32),
            "view": slot("view", ArenaRole.scratch, 0, 16),
            "s": slot("s", ArenaRole.persistent, 0, 8),
            "t": slot("t", ArenaRole.persistent, 8, 8),
            "w": slot("w", ArenaRole.constant, 0, 8),
        },
        {"cpu": ArenaUsage("cpu", 96, 96)},
        {"cpu": ArenaUsage("cpu", 8, 8, ArenaRole.constant, "cpu")},
        {"cpu": ArenaUsage("cpu", 16, 16, ArenaRole.persistent)},
        {name: TensorLifetime(name, op, op) for op, name in enumerate(("a", "b", "view", "s", "t", "w"))},
        {"view": "a"},
    )


def with_slot(name: str, **changes: Any) -> Callable[[MemoryPlan], MemoryPlan]:
    def spoil(plan: MemoryPlan) -> MemoryPlan:
        slot = replace(plan.tensor_allocs[name], **changes)
        return replace(plan, tensor_allocs={**plan.tensor_allocs, name: slot})

    return spoil


def at(role: ArenaRole, offset: int, source: str = "cpu") -> dict[str, object]:
    return {"offset": offset, "binding": TensorBinding(role, "cpu", offset, source)}


def test_a_sound_plan_passes() -> None:
    check(sound())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (with_slot("a", binding=None), "'a'.*expected this tensor, and a binding"),
        (with_slot("a", tensor_id="b"), "'a'.*expected this tensor"),
        (with_slot("b", offset=32), "'b'.*a binding to the same memory and offset"),
        (with_slot("b", memory="gpu"), "'b'.*a binding to the same memory and offset"),
        (with_slot("b", size=33), r"'b', bytes \[64, 97\), lies outside .*scratch arena in 'cpu' uses: \[0, 96\)"),
        (with_slot("b", size=-1), "'b'.*lies outside"),
        (with_slot("view", **at(ArenaRole.scratch, 16)), "'view' is .* shares the bytes of 'a'"),
        (with_slot("t", **at(ArenaRole.persistent, 4)), r"persistent arena in 'cpu': 's'.* and 't'.*share bytes \[4, 8\)"),
        (with_slot("w", **at(ArenaRole.constant, 0, "rom")), "'w' comes from 'rom', but .* is filled from 'cpu'"),
        (lambda plan: replace(plan, arena_usages={}), "'a'.*the scratch arena in 'cpu' is None"),
        (lambda plan: replace(plan, tensor_lifetimes={}), "'a' has no lifetime"),
        (
            lambda plan: replace(plan, constant_arenas={"cpu": ArenaUsage("cpu", 9, 8, ArenaRole.constant)}),
            "constant arena in 'cpu': 8 of 9 bytes used, expected all",
        ),
    ],
)
def test_one_thing_wrong_is_named(spoil: Callable[[MemoryPlan], MemoryPlan], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        check(spoil(sound()))
