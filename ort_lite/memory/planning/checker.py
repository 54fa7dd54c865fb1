"""A check that a plan is safe. It shares no code with the planners and sweeps over time instead of offsets."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from ort_lite.errors import InvalidPlan, format_error
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.lifetimes import TensorId
from ort_lite.memory.planning.neighbours import Words
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorAllocation
from ort_lite.memory.planning.requests import ArenaRole


@dataclass(frozen=True, slots=True)
class Occupied:
    """The bytes [offset, top) of a tensor during operators start_op to end_op, both inclusive."""

    tensor_id: TensorId
    offset: int
    top: int
    start_op: int
    end_op: int

    def __str__(self) -> str:
        return f"{self.tensor_id!r}, bytes [{self.offset}, {self.top}), ops {self.start_op} to {self.end_op}"


def find_overlap(tensors: Iterable[Occupied]) -> tuple[Occupied, Occupied] | None:
    """Return two tensors that share a byte during some operator, or None. Empty tensors never overlap.

    Visits operators in order and keeps live tensors sorted by offset: while they are disjoint, a new tensor can only overlap its
    neighbours. O(n log n) plus moving list entries.
    """
    living: list[tuple[int, int]] = []  # (offset, number), sorted
    dying: list[tuple[int, int]] = []  # (end_op, number), a heap
    arrivals = sorted((t for t in tensors if t.top > t.offset), key=lambda t: t.start_op)
    for number, newcomer in enumerate(arrivals):
        while dying and dying[0][0] < newcomer.start_op:
            dead = heappop(dying)[1]
            del living[bisect_left(living, (arrivals[dead].offset, dead))]
        position = bisect_left(living, (newcomer.offset, number))
        for neighbour in living[max(0, position - 1) : position + 1]:
            other = arrivals[neighbour[1]]
            if other.offset < newcomer.top and newcomer.offset < other.top:
                return other, newcomer
        insort(living, (newcomer.offset, number))
        heappush(dying, (newcomer.end_op, number))
    return None


def check_disjoint(tensors: Iterable[Occupied], where: str) -> None:
    """Raise InvalidPlan if two live tensors overlap, naming both, their bytes and their lifetimes."""
    found = find_overlap(tensors)
    if found is None:
        return
    a, b = found
    raise InvalidPlan(
        f"{where}: {a} and {b} share bytes [{max(a.offset, b.offset)}, {min(a.top, b.top)}) during ops "
        f"{max(a.start_op, b.start_op)} to {min(a.end_op, b.end_op)}; expected tensors that live together to be apart"
    )


def check_offsets(
    who: str, pack: Callable[[Blocks, int], Words | Sequence[int]], blocks: Blocks, names: Sequence[str], capacity: int
) -> Words:
    """Return the checked offsets of `pack`. Raises InvalidPlan naming `who` and the block for unsafe offsets.

    The planner gets a copy of the sizes, so that it cannot change what is checked.
    """
    try:
        found = np.array(pack(blocks.of(blocks.size.copy()), capacity))
    except Exception as error:
        raise InvalidPlan(f"{who} failed: {format_error(error)}") from error
    if found.shape != (blocks.n,) or found.dtype.kind not in "iu":
        raise InvalidPlan(
            f"{who}: {found.dtype} of shape {found.shape}, expected {blocks.n} integers, the offset of each block"
        )
    offsets, align = found.astype(np.int64), np.ones(blocks.n, np.int64) if blocks.align is None else blocks.align
    sound = (offsets >= 0) & (offsets <= capacity - blocks.size) & (offsets % align == 0)
    for k in np.flatnonzero(~sound & (offsets != -1)).tolist():
        raise InvalidPlan(
            f"{who}: {names[k]!r}, {blocks.size[k]} bytes, is at {found[k]}; expected a multiple of {align[k]}, and to end at "
            f"{capacity} at most"
        )
    columns = zip(names, offsets.tolist(), blocks.size.tolist(), *(times.tolist() for times in blocks.lifetimes), strict=True)
    rows = [Occupied(name, at, at + size, start, end - 1) for name, at, size, start, end in columns if at >= 0]
    check_disjoint(rows, who)
    return offsets


def check(plan: MemoryPlan) -> None:
    """Raise InvalidPlan for the first error of a plan.

    Bindings must match their allocations, slots lie inside their arenas, arenas of one role and memory have one source, and aliases
    start at the same byte. No two tensors may overlap: scratch during any operator, constant and persistent ever.
    """
    occupied: dict[tuple[ArenaRole, str], dict[TensorId, Occupied]] = {}
    for tensor, slot in plan.tensor_allocs.items():
        role = _check_binding(plan, tensor, slot)
        root = plan.aliases.get(tensor, tensor)
        classes = occupied.setdefault((role, slot.memory), {})
        here = _occupation(plan, tensor, slot, role)
        classes[root] = _union(classes[root], here) if root in classes else here
        if (other := plan.tensor_allocs.get(root)) is None or (other.binding, other.offset) != (slot.binding, slot.offset):
            raise InvalidPlan(f"tensor {tensor!r} is {slot}, but it shares the bytes of {root!r}, which is {other}")
    for (role, memory), classes in occupied.items():
        check_disjoint(classes.values(), f"{role} arena in {memory!r}")
    for role in (ArenaRole.constant, ArenaRole.persistent):
        for arena in plan.arenas(role).values():
            if arena.used != arena.total_size:
                raise InvalidPlan(f"{arena}: {arena.used} of {arena.total_size} bytes used, expected all")


def _check_binding(plan: MemoryPlan, tensor: TensorId, slot: TensorAllocation) -> ArenaRole:
    binding = slot.binding
    if binding is None or (slot.tensor_id, slot.memory, slot.offset) != (tensor, binding.memory, binding.offset):
        raise InvalidPlan(f"tensor {tensor!r}: {slot}, expected this tensor, and a binding to the same memory and offset")
    arena = plan.arenas(binding.role).get(slot.memory)
    if arena is None or (arena.memory, arena.role) != (slot.memory, binding.role):
        raise InvalidPlan(f"tensor {tensor!r}: {slot}, but the {binding.role} arena in {slot.memory!r} is {arena!r}")
    _check_inside(tensor, slot, arena)
    if arena.source_memory not in (None, binding.source_memory):
        raise InvalidPlan(
            f"tensor {tensor!r} comes from {binding.source_memory!r}, but {arena} is filled from {arena.source_memory!r}; "
            "expected one source"
        )
    return binding.role


def _check_inside(tensor: TensorId, slot: TensorAllocation, arena: ArenaUsage) -> None:
    if slot.offset < 0 or slot.size < 0 or slot.offset + slot.size > arena.used:
        raise InvalidPlan(
            f"tensor {tensor!r}, bytes [{slot.offset}, {slot.offset + slot.size}), lies outside of what {arena} uses: "
            f"[0, {arena.used})"
        )


def _occupation(plan: MemoryPlan, tensor: TensorId, slot: TensorAllocation, role: ArenaRole) -> Occupied:
    lifetime = plan.tensor_lifetimes.get(tensor)
    if lifetime is None:
        raise InvalidPlan(f"tensor {tensor!r} has no lifetime, expected one in tensor_lifetimes")
    if role is ArenaRole.scratch:
        return Occupied(tensor, slot.offset, slot.offset + slot.size, lifetime.start_op, lifetime.end_op)
    return Occupied(tensor, slot.offset, slot.offset + slot.size, 0, 0)  # all at the same time, since they keep their bytes


def _union(a: Occupied, b: Occupied) -> Occupied:
    """Return the bytes and the lifetime of two tensors that may overlap."""
    return Occupied(
        a.tensor_id, min(a.offset, b.offset), max(a.top, b.top), min(a.start_op, b.start_op), max(a.end_op, b.end_op)
    )
