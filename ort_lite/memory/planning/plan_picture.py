"""The memories of a plan as pictures: what always lives there at the bottom, above it the scratch."""

from ort_lite.memory.planning.picture import ArenaPicture, Box
from ort_lite.memory.planning.plan import MemoryPlan
from ort_lite.memory.planning.requests import ArenaRole, MemoryType


def pictures_of(plan: MemoryPlan) -> list[ArenaPicture]:
    """Return a picture of each memory that has scratch."""
    last = max((life.end_op for life in plan.tensor_lifetimes.values()), default=0) + 1
    return [_picture(plan, memory, last) for memory in plan.arena_usages]


def _picture(plan: MemoryPlan, memory: MemoryType, last: int) -> ArenaPicture:
    boxes, base = [], 0
    for role in (ArenaRole.constant, ArenaRole.persistent):
        arena = plan.arenas(role).get(memory)
        if arena is not None and arena.used:
            boxes.append(Box(f"{role} tensors", base, arena.used, 0, last))
            base += arena.used
    for tensor, slot in plan.tensor_allocs.items():
        if slot.memory == memory and slot.role is ArenaRole.scratch and tensor not in plan.aliases:
            boxes.append(Box(tensor, base + slot.offset, slot.size, *plan.tensor_lifetimes[tensor].half_open()))
    limit = plan.memories[memory].size if memory in plan.memories else None
    title = f"{ArenaRole.scratch} {memory}: {plan.quality(memory)}" + ("" if limit is None else f", limit {limit:,}")
    return ArenaPicture(title, boxes, base + plan.certificates[memory].lower_bound, limit)
