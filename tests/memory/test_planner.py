"""Every planner against the plainest judge, and the rules that all planners share."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.errors import InvalidArgument, InvalidPlan, OutOfMemory
from ort_lite.memory.planning import packing
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.plan import MemoryPlan
from ort_lite.memory.planning.planner import (
    DEFAULT_PLANNER,
    PLANNERS,
    SEARCHES,
    TOLERABLE,
    GreedyMemoryPlanner,
    MemoryPlanner,
    MemoryPlannerType,
    pack_blocks,
)
from ort_lite.memory.planning.requests import ArenaRole, MemoryConstraint, Platform, TensorAttributes, TensorRequest
from tests.memory.problems import Problem, disjoint, first_fit, problems, random_problem, smallest_peak

BYTES = Memories(Platform(min_alignment=1))
SCRATCH, PERSISTENT, CONSTANT = ArenaRole.scratch, ArenaRole.persistent, ArenaRole.constant
GREEDY, BY_SIZE = PLANNERS["greedy"], PLANNERS["by_size"]
BANKS = Platform(writable=("dtcm", "sram"), read_only=("flash", "rom"), min_alignment=16)
every_planner = pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)


def tensor(name: str, size: int, role: ArenaRole = SCRATCH, memory: str = "dtcm", to: str | None = None) -> TensorRequest:
    return TensorRequest(name, size, role, TensorAttributes(memory, to))


def offsets(plan: MemoryPlan) -> list[int]:
    return [plan.tensor_allocs[f"t{i}"].offset for i in range(len(plan.tensor_allocs))]


# --- Packing
@every_planner
@given(problem=problems())
def test_what_lives_together_is_apart_and_the_bound_holds(planner: MemoryPlanner, problem: Problem) -> None:
    plan = BYTES.plan(planner, problem.requests(), problem.lifetimes())
    slots = [plan.tensor_allocs[f"t{i}"] for i in range(len(problem.size))]
    rows = zip(slots, problem.start, problem.end, strict=True)
    assert disjoint((slot.offset, slot.offset + slot.size, start, end) for slot, start, end in rows)
    assert [slot.size for slot in slots] == list(problem.size)
    certificate = plan.certificate()
    assert certificate.peak == max((slot.offset + slot.size for slot in slots), default=0)
    assert certificate.lower_bound == problem.most_alive() <= certificate.peak


@every_planner
@given(problem=problems(most=5))
def test_the_best_of_all_plans_lies_between_bound_and_peak(planner: MemoryPlanner, problem: Problem) -> None:
    certificate = BYTES.plan(planner, problem.requests(), problem.lifetimes()).certificate()
    assert certificate.lower_bound <= smallest_peak(problem) <= certificate.peak


@given(problems(most=20))
def test_spec_4_13_greedy_is_first_fit_in_the_order_of_starts(problem: Problem) -> None:
    order = sorted(range(len(problem.size)), key=lambda i: problem.start[i])
    plan = BYTES.plan(GREEDY, problem.requests(), problem.lifetimes())
    assert offsets(plan) == first_fit(problem, order)


@given(problems(most=20))
def test_by_size_is_first_fit_largest_first(problem: Problem) -> None:
    order = sorted(range(len(problem.size)), key=lambda i: -problem.size[i])
    plan = BYTES.plan(BY_SIZE, problem.requests(), problem.lifetimes())
    assert offsets(plan) == first_fit(problem, order)


@every_planner
def test_equal_calls_give_equal_plans(planner: MemoryPlanner) -> None:
    problem = random_problem(5, 100, 40, 20)
    assert BYTES.plan(planner, problem.requests(), problem.lifetimes()) == BYTES.plan(
        planner, problem.requests(), problem.lifetimes()
    )


# --- Bindings and alignment
@every_planner
def test_spec_4_4_planners_bind_every_tensor(planner: MemoryPlanner) -> None:
    problem = random_problem(1, 20, 10, 5)
    requests = [
        *problem.requests(attributes=TensorAttributes("dtcm")),
        tensor("state", 40, PERSISTENT, "sram"),
        tensor("cold", 50, CONSTANT, "flash"),
        tensor("staged", 60, CONSTANT, "rom", "sram"),
    ]
    plan = Memories(BANKS).plan(planner, requests, problem.lifetimes())
    assert set(plan.tensor_allocs) == {request.tensor_id for request in requests}
    for request in requests:
        slot = plan.get_allocation(request.tensor_id)
        assert slot.binding is not None
        assert (slot.binding.role, slot.binding.memory, slot.binding.offset) == (request.role, slot.memory, slot.offset)
        assert slot.binding.is_staged is (request.tensor_id == "staged")
        assert slot.binding.source_memory == ("rom" if request.tensor_id == "staged" else slot.memory)


@every_planner
@pytest.mark.parametrize("arena_alignment", [None, 64])
def test_spec_4_6_slots_are_aligned_as_the_constraint_says(planner: MemoryPlanner, arena_alignment: int | None) -> None:
    problem = random_problem(2, 40, 10, 5)
    requests = [
        TensorRequest(f"t{i}", size, attributes=TensorAttributes("dtcm"), dtype_alignment=8, alignment_hint=1 << (i % 7))
        for i, size in enumerate(problem.size)
    ]
    constraint = MemoryConstraint("dtcm", arena_alignment=arena_alignment)
    plan = Memories(BANKS, [constraint]).plan(planner, requests, problem.lifetimes())
    expected = [arena_alignment or max(16, request.alignment_hint) for request in requests]
    assert [offset % alignment for offset, alignment in zip(offsets(plan), expected, strict=True)] == [0] * 40
    assert all(slot.size % (arena_alignment or 16) == 0 for slot in plan.tensor_allocs.values())


# --- Arenas and roles
def test_spec_4_5_arenas_that_only_grow_end_full() -> None:
    requests = [
        tensor("s0", 5, PERSISTENT),
        tensor("s1", 70, PERSISTENT),
        tensor("c0", 33, CONSTANT, "flash"),
        tensor("c1", 1, CONSTANT, "flash"),
    ]
    plan = Memories(BANKS).plan(GREEDY, requests, {})
    assert {name: slot.offset for name, slot in plan.tensor_allocs.items()} == {"s0": 0, "s1": 16, "c0": 0, "c1": 48}
    assert (plan.persistent_arenas["dtcm"].used, plan.persistent_arenas["dtcm"].total_size) == (96, 96)
    assert (plan.constant_arenas["flash"].used, plan.constant_arenas["flash"].total_size) == (64, 64)


def test_spec_4_7_constant_arenas_have_the_memory_that_kernels_read_as_key_and_one_source() -> None:
    requests = [
        tensor("cold", 8, CONSTANT, "flash"),
        tensor("staged", 8, CONSTANT, "flash", "sram"),
        tensor("also", 8, CONSTANT, "flash", "sram"),
    ]
    arenas = Memories(BANKS).plan(GREEDY, requests, {}).constant_arenas
    assert {memory: (arena.source_memory, arena.is_staged) for memory, arena in arenas.items()} == {
        "flash": ("flash", False),
        "sram": ("flash", True),
    }
    with pytest.raises(InvalidArgument, match=r"'other' \(8 bytes\) comes from 'rom', but .*'sram' is filled from 'flash'"):
        Memories(BANKS).plan(GREEDY, [*requests, tensor("other", 8, CONSTANT, "rom", "sram")], {})


@pytest.mark.parametrize("destination", ["flash", "rom", "nowhere"])
def test_spec_4_11_a_destination_that_is_not_writable_is_refused(destination: str) -> None:
    with pytest.raises(InvalidArgument, match=f"'w'.*'{destination}' is not writable, expected dtcm or sram"):
        Memories(BANKS).plan(GREEDY, [tensor("w", 8, CONSTANT, "flash", destination)], {})


def test_spec_4_11_the_destination_is_where_kernels_read() -> None:
    plan = Memories(BANKS).plan(GREEDY, [tensor("w", 8, CONSTANT, "flash", "dtcm"), tensor("v", 8, CONSTANT, "rom")], {})
    assert [(plan.tensor_allocs[name].memory) for name in ("w", "v")] == ["dtcm", "rom"]


# --- Limits
@every_planner
def test_spec_4_13_what_exceeds_a_memory_goes_to_the_next_writable_one(planner: MemoryPlanner) -> None:
    problem = Problem((48, 64, 32, 80), (0, 0, 0, 0), (1, 1, 1, 1))
    constraints = [MemoryConstraint("dtcm", max_size=112)]
    plan = Memories(BANKS, constraints).plan(
        planner, problem.requests(attributes=TensorAttributes("dtcm")), problem.lifetimes()
    )
    assert sum(arena.used for arena in plan.arena_usages.values()) == sum(problem.size)
    assert plan.arena_usages["dtcm"].used == 112
    assert {slot.memory for slot in plan.tensor_allocs.values()} == {"dtcm", "sram"}


def test_spec_4_13_constants_come_first_then_persistent_tensors_then_scratch() -> None:
    problem = Problem((32,), (0,), (1,))
    requests = [
        *problem.requests(attributes=TensorAttributes("dtcm")),
        tensor("state", 32, PERSISTENT),
        tensor("weight", 32, CONSTANT, "flash", "dtcm"),
    ]
    for limit, expected in [(96, ("dtcm", "dtcm")), (64, ("dtcm", "sram")), (32, ("sram", "sram"))]:
        memories = Memories(BANKS, [MemoryConstraint("dtcm", max_size=limit)])
        plan = memories.plan(GREEDY, requests, problem.lifetimes())
        assert (plan.tensor_allocs["state"].memory, plan.tensor_allocs["t0"].memory) == expected
        assert plan.tensor_allocs["weight"].memory == "dtcm"


@every_planner
@pytest.mark.parametrize(
    ("request_", "tried"),
    [
        (tensor("t0", 99), r"1 tensors do not fit 'dtcm' \(64 of 64 bytes left\), 'sram' \(32 of 32 .*: scratch tensor 't0'"),
        (tensor("t0", 99, PERSISTENT), r"persistent tensor 't0' \(99 bytes\) does not fit 'dtcm' \(64 of 64 .*'sram' \(32"),
        (tensor("t0", 99, memory="sram"), r"do not fit 'sram' \(32 of 32 bytes left\): scratch"),
        (tensor("t0", 99, CONSTANT, "flash", "dtcm"), r"constant tensor 't0' \(99 bytes\) does not fit 'dtcm' \(64"),
        (tensor("t0", 9, CONSTANT, "flash"), r"constant tensor 't0' \(9 bytes\) does not fit 'flash' \(8 of 8"),
    ],
)
def test_spec_4_13_what_fits_nowhere_names_the_capacities_tried(
    planner: MemoryPlanner, request_: TensorRequest, tried: str
) -> None:
    limits = [MemoryConstraint("dtcm", 64), MemoryConstraint("sram", 32), MemoryConstraint("flash", 8)]
    with pytest.raises(OutOfMemory, match=tried):
        Memories(BANKS, limits).plan(planner, [request_], Problem((9,), (0,), (1,)).lifetimes())


def test_the_bytes_before_an_aligned_slot_count_against_the_limit() -> None:
    wide = TensorRequest("wide", 64, PERSISTENT, TensorAttributes("dtcm"), alignment_hint=64)
    for limit, expected in [(127, "sram"), (128, "dtcm")]:
        memories = Memories(BANKS, [MemoryConstraint("dtcm", limit)])
        assert memories.plan(GREEDY, [tensor("narrow", 16, PERSISTENT), wide], {}).tensor_allocs["wide"].memory == expected


# --- Aliases
@pytest.mark.slow
@every_planner
@given(problem=problems(), pairs=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=4))
def test_aliases_share_a_slot_and_strangers_do_not(
    planner: MemoryPlanner, problem: Problem, pairs: list[tuple[int, int]]
) -> None:
    n = len(problem.size)
    groups = [(f"t{a}", f"t{b}") for a, b in pairs if a < n and b < n]
    plan = BYTES.plan(planner, problem.requests(), problem.lifetimes(), groups)
    for a, b in groups:
        assert plan.tensor_allocs[a].offset == plan.tensor_allocs[b].offset
        assert plan.tensor_lifetimes[a].half_open() == plan.tensor_lifetimes[b].half_open()
        assert plan.tensor_lifetimes[a].tensor_id == a
    roots = {name: plan.aliases.get(name, name) for name in plan.tensor_allocs}
    for a, b in combinations(plan.tensor_allocs, 2):
        if roots[a] != roots[b]:
            slots = (plan.tensor_allocs[a], plan.tensor_allocs[b])
            spans = (plan.tensor_lifetimes[a].half_open(), plan.tensor_lifetimes[b].half_open())
            assert disjoint((s.offset, s.offset + s.size, *span) for s, span in zip(slots, spans, strict=True))


def test_tensors_of_different_roles_cannot_share_bytes() -> None:
    problem = Problem((8,), (0,), (1,))
    requests = [*problem.requests(attributes=TensorAttributes("dtcm")), tensor("state", 8, PERSISTENT)]
    with pytest.raises(InvalidArgument, match=r"'t0' \(scratch, .* and 'state' \(persistent, .* cannot share bytes"):
        Memories(BANKS).plan(GREEDY, requests, problem.lifetimes(), [("t0", "state")])


# --- Wrong questions
@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([tensor("t0", 8), tensor("t0", 8)], "'t0' is asked for twice"),
        ([tensor("t0", 8, memory="flash")], "'t0'.*: memory 'flash', expected dtcm or sram"),
        ([tensor("t0", 8, CONSTANT, "moon")], "'t0'.*: memory 'moon', expected dtcm or sram or flash or rom"),
        ([tensor("t1", 8)], "'t1' has no lifetime"),
    ],
)
def test_wrong_requests_are_named(requests: list[TensorRequest], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Memories(BANKS).plan(GREEDY, requests, Problem((8,), (0,), (1,)).lifetimes())


def test_a_constraint_on_an_unknown_memory_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="MemoryConstraint 'gpu': expected one of cpu"):
        Memories(constraints=[MemoryConstraint("gpu")])


# --- Which planner
def test_spec_4_10_greedy_is_a_type_and_more_may_be_added() -> None:
    class Stacked(MemoryPlanner):
        """Everything on top of everything: no reuse."""

        name = "stacked"

        def pack(self, blocks: Blocks, capacity: int = packing.LIMIT) -> list[int]:
            return [int(blocks.size[:i].sum()) for i in range(blocks.n)]

    assert MemoryPlannerType.greedy.value == "greedy"
    assert isinstance(PLANNERS[MemoryPlannerType.greedy], GreedyMemoryPlanner)
    assert set(PLANNERS) == set(MemoryPlannerType)
    problem = Problem((32, 16), (0, 1), (1, 2))
    plan = BYTES.plan(Stacked(), problem.requests(), problem.lifetimes())
    assert (plan.certificate().peak, plan.certificate().gap, plan.planner) == (48, 16, "stacked")


@given(problem=problems(most=20))
def test_adaptive_is_never_worse_than_largest_first_or_auto_alone(problem: Problem) -> None:
    peaks = {
        name: BYTES.plan(planner, problem.requests(), problem.lifetimes()).certificate().peak
        for name, planner in PLANNERS.items()
    }
    assert peaks["adaptive"] == min(peaks["by_size"], peaks["auto"])


def test_adaptive_keeps_what_a_search_found_for_other_sizes_and_searches_no_more_than_it_may() -> None:
    problem = Problem.read("B")
    blocks = Blocks(problem.size, problem.start, problem.end)
    peaks = []
    for k in range(SEARCHES + 2):
        sizes = blocks.size * (k + 1)
        offsets = DEFAULT_PLANNER.pack(blocks.of(sizes))
        peaks.append(int((offsets + sizes).max()) // (k + 1))
    assert len(blocks.hints.orders) == SEARCHES
    by_size = BY_SIZE.pack(blocks)
    assert max(peaks) < int((by_size + blocks.size).max())
    assert peaks == sorted(peaks, reverse=True)


def test_adaptive_searches_again_only_where_much_is_missed() -> None:
    problem = Problem.read("B")
    size, end = sum(problem.size) * TOLERABLE, max(problem.end)  # a block that is always there: what is missed is a small part
    blocks = Blocks([*problem.size, size], [*problem.start, 0], [*problem.end, end])
    for k in range(SEARCHES):
        now = blocks.of(blocks.size * (k + 1))
        offsets = DEFAULT_PLANNER.pack(now)
        assert int((offsets + now.size).max()) > now.lower_bound()
    assert len(blocks.hints.orders) == 1


def test_sizes_that_were_not_the_first_wait_for_no_search_that_saves_little() -> None:
    """Also where largest first was best for the first ones, and no search was made."""
    problem = Problem.read("B")
    size, end = sum(problem.size) * TOLERABLE, max(problem.end)
    blocks = Blocks([*problem.size, size], [*problem.start, 0], [*problem.end, end])
    alone = blocks.size.copy()
    alone[1:-1] = 0
    for now in (blocks.of(alone), blocks):
        DEFAULT_PLANNER.pack(now)
    assert blocks.hints.orders == ()


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3], [[0, 1, 2]]])
def test_what_is_no_order_places_nothing(order: list[int]) -> None:
    with pytest.raises(ValueError, match="expected an order of 3 blocks"):
        Blocks([8, 8, 8], [0, 0, 0], [1, 1, 1]).place(order)


def test_any_order_places_blocks_first_fit() -> None:
    assert Blocks([8, 16, 8], [0, 0, 0], [1, 1, 1]).place([2, 1, 0], 24).tolist() == [-1, 8, 0]


class Wrong(MemoryPlanner):
    """Says what it is told."""

    name = "wrong"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def pack(self, blocks: Blocks, capacity: int = packing.LIMIT) -> Any:
        return self.answer(blocks) if callable(self.answer) else self.answer


def shrunk(blocks: Blocks) -> list[int]:
    """Claims that blocks are smaller, and packs those."""
    blocks.size[:] = 0
    return [0, 0, 0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0, 32, 48], r"'b', bytes \[32, 64\), ops 1 to 2 and 'c', bytes \[48, 64\), ops 2 to 3 share bytes \[48, 64\)"),
        (shrunk, r"'a', bytes \[0, 32\), ops 0 to 1 and 'b', .* share bytes \[0, 32\)"),
        ([0, 32, -16], "'c', 16 bytes, is at -16; expected a multiple of 16, and to end at 4611686018427387904 at most"),
        ([0, 40, 80], "'b', 32 bytes, is at 40; expected a multiple of 16"),
        ([0, 32, packing.LIMIT], "'c', 16 bytes, is at 4611686018427387904; .* and to end at 4611686018427387904"),
        ([0, 32], r"int64 of shape \(2,\), expected 3 integers"),
        ([0.0, 32.0, 64.0], r"float64 of shape \(3,\), expected 3 integers"),
        (None, "object of shape"),
        (lambda blocks: blocks.place([0]), "failed: ValueError: expected an order of 3 blocks"),
        (lambda blocks: blocks.end.fill(0), "failed: ValueError: .*read-only"),
    ],
)
def test_a_planner_of_others_that_is_wrong_is_refused_by_name(answer: Any, message: str) -> None:
    blocks = Blocks([32, 32, 16], [0, 1, 2], [2, 3, 4], [16, 16, 16])
    with pytest.raises(InvalidPlan, match=r"memory planner 'wrong' \(tests\.memory\.test_planner\.Wrong\).*" + message):
        pack_blocks(Wrong(answer), blocks, "abc")


def test_a_planner_that_has_the_name_of_another_one_is_looked_at_all_the_same() -> None:
    class Adaptive(Wrong):
        name = "adaptive"

    with pytest.raises(InvalidPlan, match=r"'a', .* and 'b', .* share bytes"):
        pack_blocks(Adaptive([0, 0]), Blocks([8, 8], [0, 0], [1, 1]), "ab")


def test_blocks_that_do_not_fit_may_be_left_out() -> None:
    assert pack_blocks(Wrong([-1, 0]), Blocks([8, 8], [0, 0], [1, 1]), "ab", 8).tolist() == [-1, 0]
