"""A bound program's memory as a MemoryPlan: for people, `dump` and the overlap checker."""

from collections.abc import Mapping, Sequence

from ort_lite.graph import Value
from ort_lite.inference import Info
from ort_lite.memory.planning.lifetimes import TensorLifetime
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorBinding
from ort_lite.memory.planning.requests import ArenaRole
from ort_lite.shapes import substitute
from ort_lite_cpu.program.bind import Bound
from ort_lite_cpu.program.segment import Segment

Runs = Sequence[tuple[Segment, Bound]]


def memory_plan(bound: Runs, planner: str, shapes: Mapping[str, Sequence[int | str]] | None = None) -> MemoryPlan:
    """The scratch of each segment, one arena a segment ("cpu", "cpu:1", ...), for the shapes it was bound to. O(tensors).

    `planner` is the name of the one that packed it. Buffers that share memory in place are one tensor here, alive from the first
    use of the one to the last of the other.
    """
    plan = MemoryPlan(planner=planner, shapes=shapes or {})
    for number, (segment, made) in enumerate(bound):
        memory = "cpu" if number == 0 else f"cpu:{number}"
        plan.arena_usages[memory] = ArenaUsage(memory, made.scratch, made.scratch)
        plan.steps[memory] = [instruction.node.name for instruction in segment.instructions]
        columns = zip(segment.names, made.offsets, made.sizes, segment.starts, segment.ends, strict=True)
        for name, offset, size, start, end in columns:
            tensor = name if number == 0 else f"{name} (segment {number})"
            plan.bind(tensor, TensorBinding(ArenaRole.scratch, memory, int(offset), memory), int(size))
            plan.tensor_lifetimes[tensor] = TensorLifetime(tensor, int(start), int(end) - 1)
    return plan


def shapes_of(inputs: Sequence[Value], infos: Sequence[Info], bound: Runs) -> dict[str, list[int | str]]:
    """Return the shapes of the inputs that segments were bound to; dimensions that none needs have their names."""
    sizes = {
        symbol.name: value for segment, made in bound for (symbol, _), value in zip(segment.leaves, made.values, strict=True)
    }
    found: dict[str, list[int | str]] = {}
    for value, info in zip(inputs, infos, strict=True):
        if info.shape is not None:
            dims = [substitute(dim, sizes) for dim in info.shape]
            found[value.name] = [dim if isinstance(dim, int) else str(dim) for dim in dims]
    return found
