"""A check that each operator finds its operands, by following the contents of memory and not the lifetimes of a plan."""

from collections.abc import Collection, Iterable

from ort_lite.errors import InvalidPlan
from ort_lite.memory.planning.lifetimes import TensorId
from ort_lite.memory.planning.plan import MemoryPlan, TensorAllocation
from ort_lite.memory.planning.requests import ArenaRole, MemoryType, TensorRequest

Place = tuple[ArenaRole | None, str]
"""The role and memory of an arena; without a role, the caller's place for a tensor."""


class _Contents:
    """The tensor that each allocation holds, and which allocations no longer hold theirs."""

    def __init__(self, plan: MemoryPlan) -> None:
        self.plan = plan
        self.valid: dict[Place, dict[TensorId, TensorAllocation | None]] = {}

    def place(self, name: TensorId) -> Place:
        slot = self.plan.tensor_allocs.get(name)
        return (None, name) if slot is None else (slot.role, slot.memory)

    def holds(self, name: TensorId) -> bool:
        return name in self.valid.get(self.place(name), {})

    def write(self, name: TensorId) -> None:
        """Store a tensor in its allocation. What overlaps is lost."""
        here, slot = self.valid.setdefault(self.place(name), {}), self.plan.tensor_allocs.get(name)
        if slot is not None:
            low, top = slot.offset, slot.offset + slot.size
            lost = [other for other, s in here.items() if s is not None and s.offset < top and low < s.offset + s.size]
            for other in lost:
                del here[other]
        here[name] = slot


def check_uses(plan: MemoryPlan, requests: Iterable[TensorRequest], remote: Collection[MemoryType] = ()) -> None:
    """Raise InvalidPlan if an operator or a move reads a place that no longer holds the tensor, or uses a `remote` memory.

    Checks the tensors that state their uses and share no bytes by intent.
    """
    shared = {*plan.aliases, *plan.aliases.values()}
    followed = {one.tensor_id: one for one in requests if one.uses and one.tensor_id not in shared}
    contents = _Contents(plan)
    uses: dict[int, dict[TensorId, bool]] = {}
    for name, one in followed.items():
        is_there = one.role is not ArenaRole.scratch or one.outside == "input"
        for use in one.uses:
            uses.setdefault(use, {})[name] = not is_there and use == min(one.uses)
        if is_there:
            contents.write(name)
    for copy, name in plan.copies.items():
        if name in followed and plan.tensor_allocs[copy].role is ArenaRole.constant:
            contents.write(copy)
    moves = [move for move in plan.moves if move.tensor_id in followed]
    for step in sorted({*uses, *(move.step for move in moves)}):
        for move in (move for move in moves if move.step == step):
            _expect(contents, move.source, f"move {move}")
            contents.write(move.destination)
        _use(contents, step, uses.get(step, {}), remote)
    for name, one in followed.items():
        if one.outside == "output":
            _expect(contents, name, "the end of the program")


def _use(contents: _Contents, step: int, used: dict[TensorId, bool], remote: Collection[MemoryType]) -> None:
    """Check the reads of an operator, then make its writes, and check that they hit no operand."""
    places = {}
    for name in used:
        slot = contents.plan.allocation_at(name, step)
        places[name] = name if slot is None else slot.tensor_id
        memory = contents.plan.outside[name] if slot is None else slot.memory
        if memory in remote:
            raise InvalidPlan(f"op {step} uses tensor {name!r} in {memory!r}, expected a memory that kernels can use")
    for name, is_write in used.items():
        if not is_write:
            _expect(contents, places[name], f"op {step}")
    for name, is_write in used.items():
        if is_write:
            contents.write(places[name])
    for name in used:
        _expect(contents, places[name], f"the end of op {step}")


def _expect(contents: _Contents, name: TensorId, reader: str) -> None:
    if not contents.holds(name):
        raise InvalidPlan(f"{reader}: {name!r} does not hold its tensor, expected it to be written and not overwritten before")
