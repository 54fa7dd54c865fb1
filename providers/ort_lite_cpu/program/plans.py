"""A bound program's memory as a MemoryPlan: for people, `dump` and the overlap checker."""

from collections.abc import Sequence

from ort_lite.memory.planning.lifetimes import TensorLifetime
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorBinding
from ort_lite.memory.planning.requests import ArenaRole
from ort_lite_cpu.program.bind import Bound
from ort_lite_cpu.program.segment import Segment


def memory_plan(bound: Sequence[tuple[Segment, Bound]], planner: str) -> MemoryPlan:
    """The scratch of each segment, one arena a segment ("cpu", "cpu:1", ...), for the shapes it was bound to. O(tensors).

    `planner` is the name of the one that packed it. Buffers that share memory in place are one tensor here, alive from the first
    use of the one to the last of the other.
    """
    plan = MemoryPlan(planner=planner)
    for number, (segment, made) in enumerate(bound):
        memory = "cpu" if number == 0 else f"cpu:{number}"
        plan.arena_usages[memory] = ArenaUsage(memory, made.scratch, made.scratch)
        columns = zip(segment.names, made.offsets, made.sizes, segment.starts, segment.ends, strict=True)
        for name, offset, size, start, end in columns:
            tensor = name if number == 0 else f"{name} (segment {number})"
            plan.bind(tensor, TensorBinding(ArenaRole.scratch, memory, int(offset), memory), int(size))
            plan.tensor_lifetimes[tensor] = TensorLifetime(tensor, int(start), int(end) - 1)
    return plan
