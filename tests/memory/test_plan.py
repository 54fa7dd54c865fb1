import pytest

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.planning.lifetimes import TensorLifetime
from ort_lite.memory.planning.live import max_live
from ort_lite.memory.planning.plan import ArenaUsage, Certificate, MemoryPlan, TensorAllocation, TensorBinding
from ort_lite.memory.planning.requests import ArenaRole

SCRATCH, PERSISTENT, CONSTANT = ArenaRole.scratch, ArenaRole.persistent, ArenaRole.constant


@pytest.mark.parametrize("role", [SCRATCH, PERSISTENT])
def test_spec_4_2_writable_bindings_have_no_other_source(role: ArenaRole) -> None:
    assert not TensorBinding(role, "cpu", 0, "cpu").is_staged
    with pytest.raises(InvalidArgument, match=f"{role} in 'cpu': source_memory 'flash', expected 'cpu'"):
        TensorBinding(role, "cpu", 0, "flash")


def test_spec_4_2_a_constant_is_staged_exactly_if_its_source_differs() -> None:
    assert TensorBinding(CONSTANT, "cpu", 0, "flash").is_staged
    assert not TensorBinding(CONSTANT, "flash", 0, "flash").is_staged


def test_a_binding_at_a_negative_offset_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="offset -1"):
        TensorBinding(SCRATCH, "cpu", -1, "cpu")


def test_spec_4_4_an_allocation_made_directly_needs_no_binding() -> None:
    assert TensorAllocation("x", "cpu", 64, 32).binding is None


# --- ArenaUsage
@pytest.mark.parametrize(
    ("role", "source", "staged"),
    [
        (SCRATCH, None, False),
        (SCRATCH, "cpu", False),
        (PERSISTENT, "cpu", False),
        (CONSTANT, None, False),
        (CONSTANT, "cpu", False),
        (CONSTANT, "flash", True),
    ],
)
def test_spec_4_5_is_staged(role: ArenaRole, source: str | None, staged: bool) -> None:
    assert ArenaUsage("cpu", 8, role=role, source_memory=source).is_staged is staged


@pytest.mark.parametrize("role", [SCRATCH, PERSISTENT])
def test_spec_4_5_writable_arenas_are_never_staged(role: ArenaRole) -> None:
    with pytest.raises(InvalidArgument, match="only constants are copied"):
        ArenaUsage("cpu", 8, role=role, source_memory="flash")


def test_spec_4_5_allocating_moves_up_to_the_end() -> None:
    arena = ArenaUsage("cpu", 100, role=PERSISTENT)
    assert [arena.allocate(30), arena.allocate(0), arena.allocate(8, alignment=64), arena.allocate(28)] == [0, 30, 64, 72]
    assert arena.used == arena.total_size
    assert arena.allocate(0) == 100


def test_spec_4_5_overflow_says_how_much_there_is_and_takes_nothing() -> None:
    arena = ArenaUsage("dtcm", 100, used=90, role=CONSTANT)
    with pytest.raises(OutOfMemory, match="constant arena in 'dtcm': 11 bytes asked for at offset 90, it has 100"):
        arena.allocate(11)
    assert arena.used == 90
    with pytest.raises(InvalidArgument, match="-1 bytes"):
        arena.allocate(-1)


def test_an_arena_with_more_used_than_there_is_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="used 9 of 8 bytes"):
        ArenaUsage("cpu", 8, 9)


# --- MemoryPlan
def plan() -> MemoryPlan:
    """Two live together, the third reuses the first; `v` is a view of `a`."""
    spans = {"a": (0, 1), "b": (1, 2), "c": (2, 3), "v": (0, 1)}
    slots = {"a": (0, 64), "b": (64, 32), "c": (0, 48), "v": (0, 16)}
    return MemoryPlan(
        {t: TensorAllocation(t, "cpu", *slot, TensorBinding(SCRATCH, "cpu", slot[0], "cpu")) for t, slot in slots.items()},
        {"cpu": ArenaUsage("cpu", 96, 96)},
        {"cpu": ArenaUsage("cpu", 12, 12, CONSTANT, "flash")},
        tensor_lifetimes={t: TensorLifetime(t, *span) for t, span in spans.items()},
        aliases={"v": "a"},
    )


def test_spec_4_7_a_tensor_is_found_by_its_id() -> None:
    assert plan().get_allocation("b").offset == 64
    with pytest.raises(KeyError, match="nobody"):
        plan().get_allocation("nobody")


def test_the_certificate_of_an_unknown_memory_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="gpu"):
        plan().certificate("gpu")


def test_a_certificate_tells_its_gap() -> None:
    certificate = Certificate(1200, 1000)
    assert (certificate.gap, certificate.ratio) == (200, 1.2)
    assert str(certificate) == "peak 1,200, lower bound 1,000, gap 200 (20.0%)"
    assert (Certificate(0, 0).gap, Certificate(0, 0).ratio) == (0, 1.0)


def test_a_plan_is_printed_arena_by_arena() -> None:
    assert str(plan()).splitlines() == [
        "scratch     cpu  peak 96, lower bound 96, gap 0 (0.0%)",
        "constant    cpu  12 bytes, from flash",
    ]


def test_intervals_that_touch_do_not_live_together() -> None:
    assert max_live([(0, 2, 10), (2, 4, 10), (1, 3, 5)]) == 15
    assert max_live([]) == 0
