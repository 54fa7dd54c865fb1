"""Plans for limited memories: every operator finds its operands, the plan lists every move, errors name the tensor."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.errors import InvalidArgument, InvalidPlan, OutOfMemory
from ort_lite.memory.planning.declarations import parse_memories
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.plan import MemoryPlan, TensorBinding
from ort_lite.memory.planning.planner import PLANNERS
from ort_lite.memory.planning.requests import ArenaRole, Memory, TensorAttributes, TensorRequest
from ort_lite.memory.planning.use_check import check_uses
from tests.memory.replay import replay

PLANNER = PLANNERS["adaptive"]


@dataclass(frozen=True)
class Tensor:
    size: int
    uses: tuple[int, ...]
    kind: str = "scratch"


def requests_of(memories: Memories, tensors: dict[str, Tensor], caller: str) -> list[TensorRequest]:
    """The requests for tensors whose kinds are roles, input and output; the last two are in the memory `caller`."""
    made = []
    for name, one in tensors.items():
        if one.kind == "input":
            made.append(TensorRequest(name, one.size, attributes=TensorAttributes(caller), uses=one.uses, outside="input"))
        elif one.kind == "output":
            made.append(TensorRequest(name, one.size, attributes=TensorAttributes(caller), uses=one.uses, outside="output"))
        else:
            role = ArenaRole(one.kind)
            made.append(TensorRequest(name, one.size, role, memories.attributes(role), uses=one.uses))
    return made


def planned(text: str, tensors: dict[str, Tensor], caller: str = "slow") -> tuple[MemoryPlan, int]:
    """Plan, run the plan, and return it with the bytes that the run moved."""
    memories = Memories.of(parse_memories(text), min_alignment=1)
    requests = requests_of(memories, tensors, caller)
    plan = memories.plan(PLANNER, requests, {})
    random = np.random.default_rng(0)
    contents = {one.tensor_id: random.integers(1, 256, one.size).astype(np.uint8) for one in requests}
    moved = replay(plan, requests, contents)
    assert moved == plan.moved_bytes
    return plan, moved


CHAIN = {
    "x": Tensor(40, (0,), "input"),
    "w": Tensor(30, (1,), "constant"),
    "a": Tensor(40, (0, 1, 5)),
    "b": Tensor(60, (1, 2)),
    "c": Tensor(60, (2, 3)),
    "d": Tensor(40, (3, 4)),
    "e": Tensor(20, (4, 5)),
    "y": Tensor(40, (5,), "output"),
}


def test_without_a_limit_everything_is_fast_and_nothing_moves() -> None:
    plan, moved = planned("fast=*, slow=*", CHAIN)
    assert moved == 0
    assert {plan.tensor_allocs[name].memory for name in "abcde"} == {"fast"}
    assert plan.tensor_allocs["w in fast from op 0"].binding is not None
    assert plan.accesses == {"slow": 80, "fast": 510}


def test_a_tensor_leaves_the_fast_memory_between_its_uses() -> None:
    plan, moved = planned("fast=120, slow=*", CHAIN)
    assert moved == plan.moved_bytes > 0
    assert next(str(move) for move in plan.moves) == "'a', 40 bytes, fast -> slow, before op 2"
    assert plan.tensor_allocs["a"].memory == "slow"
    assert all(plan.tensor_allocs[name].memory == "fast" for name in "bcde")


def test_kernels_do_not_use_a_remote_memory() -> None:
    plan, moved = planned("fast=160, slow=*:remote", CHAIN)
    assert set(plan.accesses) == {"fast"}
    assert moved >= 40 + 30 + 40  # x, w and y at least
    with pytest.raises(
        OutOfMemory, match=r"operator 1 uses 130 bytes at once.*'fast' \(110 of 110 .*'b' \(60 bytes\) is the largest of 3"
    ):
        planned("fast=110, slow=*:remote", CHAIN)


def test_what_is_only_stored_between_uses_goes_to_a_remote_memory() -> None:
    for machine in ("fast=135, slow=*:remote", "fast=135, mid=0, slow=*:remote"):
        plan, _ = planned(machine, CHAIN)
        assert plan.tensor_allocs["a"].memory == "slow"
        assert set(plan.accesses) == {"fast"}


def test_what_fits_nowhere_is_named_with_its_size_and_the_limits() -> None:
    with pytest.raises(
        OutOfMemory, match=r"do not fit 'fast' \(50 of 50 .*'slow' \(80 of 110 .*: scratch tensor 'c' \(60 bytes\)"
    ):
        planned("fast=50, slow=110", CHAIN)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7, 1.0])
def test_fewer_bytes_are_slow_with_more_room(share: float) -> None:
    peak = 180
    plan, moved = planned(f"fast={int(share * peak)}, slow=*", CHAIN)
    slower, moves = planned(f"fast={int(share * peak / 2)}, slow=*", CHAIN)
    assert plan.accesses.get("slow", 0) + moved <= slower.accesses["slow"] + moves


def test_constants_go_where_constants_may_live() -> None:
    plan, _ = planned("fast=1K:scratch, slow=*:scratch, flash=1K:constant", CHAIN)
    assert plan.tensor_allocs["w"].memory == "flash"
    assert list(plan.constant_arenas) == ["flash"]
    plan, _ = planned("fast=120, slow=*, flash=*:constant+remote", CHAIN)
    assert str(plan.tensor_allocs["w"].binding) == str(TensorBinding(ArenaRole.constant, "slow", 0, "flash"))
    with pytest.raises(OutOfMemory, match=r"constant tensor 'w' \(30 bytes\) does not fit 'flash' \(16 of 16 bytes left\)"):
        planned("fast=*:scratch, slow=*:scratch, flash=16:constant", CHAIN)
    with pytest.raises(InvalidArgument, match=r"state \(no limit\), flash \(no limit\): none may hold scratch tensors"):
        planned("state=*:persistent, flash=*:constant", CHAIN, "state")
    with pytest.raises(InvalidArgument, match=r"memories flash \(no limit\): expected that kernels can write to the first"):
        planned("flash=*:constant", CHAIN)


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Tensor]:
    count, made = draw(st.integers(1, 8)), {}
    for op in range(count):
        readers = draw(st.sets(st.integers(op + 1, count), max_size=3)) - {count}
        kind = "output" if op == count - 1 else draw(st.sampled_from(("scratch", "scratch", "scratch", "output")))
        made[f"t{op}"] = Tensor(draw(st.integers(0, 40)), (op, *sorted(readers)), kind)
    for kind in ("input", "constant", "persistent"):
        for k in range(draw(st.integers(0, 2))):
            uses = draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3))
            made[f"{kind}{k}"] = Tensor(draw(st.integers(0, 40)), tuple(sorted(uses)), kind)
    return made


MACHINES = (
    "fast={0}, slow=*",
    "fast={0}, slow=*:remote",
    "fast={0}, mid={1}, slow=*:remote",
    "fast={0}:scratch, slow=*, rom=*:constant",
    "fast={0}, slow=*, flash=*:constant+remote",
)


@given(programs(), st.sampled_from(MACHINES), st.integers(0, 200), st.integers(0, 100))
def test_every_operator_finds_its_operands(tensors: dict[str, Tensor], machine: str, fast: int, mid: int) -> None:
    try:
        planned(machine.format(fast, mid), tensors)
    except OutOfMemory:
        if "slow=*:remote" not in machine:
            raise  # where kernels can use the slow memory, everything fits
        if "mid" in machine:  # another memory makes nothing impossible
            with pytest.raises(OutOfMemory):
                planned(MACHINES[1].format(fast), tensors)


def test_the_check_follows_contents() -> None:
    plan, _ = planned("fast=120, slow=*", CHAIN)
    requests = requests_of(Memories.of(parse_memories("fast=120, slow=*"), min_alignment=1), CHAIN, "slow")
    with pytest.raises(InvalidPlan, match="op 5: 'a' does not hold its tensor, expected it to be written"):
        check_uses(replace(plan, moves=()), requests)
    with pytest.raises(InvalidPlan, match=r"op 0 uses tensor 'x' in 'slow', expected a memory that kernels can use"):
        check_uses(plan, requests, {"slow"})


# --- Declarations
def test_memories_are_read_from_text() -> None:
    assert parse_memories(" fast = 512K @ 20G, slow=64m:remote ,flash=*:constant+persistent") == (
        Memory("fast", 512 << 10, float(20 << 30)),
        Memory("slow", 64 << 20, remote=True),
        Memory("flash", None, 0.0, frozenset({ArenaRole.constant, ArenaRole.persistent})),
    )
    assert parse_memories("") == ()


@pytest.mark.parametrize("text", ["fast", "=4", "fast=", "fast=1T", "fast=-1", "fast=1.5K", "fast=1:rom", "fast=1@", "a=1,a=2"])
def test_malformed_text_is_named(text: str) -> None:
    with pytest.raises(InvalidArgument, match="expected"):
        parse_memories(text)


def test_the_fastest_comes_first_and_kernels_can_use_it() -> None:
    with pytest.raises(InvalidArgument, match=r"memory fast \(512 bytes\) is faster than slow \(no limit\) before it"):
        Memories.of(parse_memories("slow=*@1G, fast=512@20G"))
    with pytest.raises(
        InvalidArgument, match=r"memories slow \(no limit, remote\): expected that kernels can write to the first"
    ):
        Memories.of(parse_memories("slow=*:remote"))
