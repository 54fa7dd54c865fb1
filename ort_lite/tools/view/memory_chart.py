"""Memory plans as rectangles that show when and where each tensor lives."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorAllocation
from ort_lite.memory.planning.requests import ArenaRole, MemoryType
from ort_lite.tools.view import document as page
from ort_lite.tools.view.keys import key_of


def arenas_of(plans: Mapping[str, Any], document: page.Document) -> list[page.ArenaData]:
    """Return the non-empty arenas of each partition that has a MemoryPlan. O(tensors + steps)."""
    known = {found["name"]: found for found in document["partitions"]}
    nodes = document["placements"].keys()
    return [
        arena
        for name, plan in plans.items()
        if isinstance(plan, MemoryPlan) and name in known
        for arena in _arenas(plan, known[name], nodes)
    ]


def _arenas(plan: MemoryPlan, partition: page.PartitionData, nodes: Collection[str]) -> Iterator[page.ArenaData]:
    fused = {made["name"]: made["parts"] for made in partition["fused"]}
    key = partial(key_of, nodes=nodes, fused=fused)
    for role in ArenaRole:
        for memory, arena in plan.arenas(role).items():
            slots = _slots(plan, role, memory)
            if slots:
                yield _arena(plan, arena, slots, partition["name"], key)


def _slots(plan: MemoryPlan, role: ArenaRole, memory: MemoryType) -> list[TensorAllocation]:
    """Return the slots of tensors that own bytes. An alias has the slot of its tensor."""
    return [
        slot
        for tensor, slot in plan.tensor_allocs.items()
        if tensor not in plan.aliases and slot.memory == memory and slot.role is role
    ]


def _arena(
    plan: MemoryPlan,
    arena: ArenaUsage,
    slots: Sequence[TensorAllocation],
    partition: str,
    key: Callable[[str], str],
) -> page.ArenaData:
    names = plan.steps.get(arena.memory, ()) if arena.role is ArenaRole.scratch else ()
    last = max((plan.tensor_lifetimes[s.tensor_id].end_op for s in slots if s.tensor_id in plan.tensor_lifetimes), default=0)
    steps = list(names) or [f"step {k}" for k in range(last + 1)]
    tensors = [_tensor(plan, slot, steps, key) for slot in slots]
    live = _live(tensors, len(steps))
    return {
        "partition": partition,
        "memory": arena.memory,
        "role": arena.role.value,
        "size": arena.used,
        "bound": plan.certificates[arena.memory].lower_bound if arena.role is ArenaRole.scratch else max(live),
        "steps": steps,
        "live": live,
        "tensors": tensors,
        "shapes": ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in plan.shapes.items()),
    }


def _tensor(plan: MemoryPlan, slot: TensorAllocation, steps: Sequence[str], key: Callable[[str], str]) -> page.TensorData:
    """Return a tensor's rectangle. A tensor without a lifetime spans all steps."""
    lifetime = plan.tensor_lifetimes.get(slot.tensor_id)
    first, last = (0, len(steps) - 1) if lifetime is None else (lifetime.start_op, lifetime.end_op)
    made: page.TensorData = {
        "name": slot.tensor_id,
        "offset": slot.offset,
        "size": slot.size,
        "first": first,
        "last": last,
        "role": slot.role.value,
    }
    if lifetime is not None and (maker := key(steps[first])):
        made["node"] = maker
    return made


def _live(tensors: Iterable[page.TensorData], count: int) -> list[int]:
    """Return the bytes in use at each step."""
    change = [0] * (count + 1)
    for tensor in tensors:
        change[tensor["first"]] += tensor["size"]
        change[tensor["last"] + 1] -= tensor["size"]
    return list(accumulate(change[:-1]))
