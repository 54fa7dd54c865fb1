"""Offsets for the buffers of a provider in its own memory, by the planner that sessions use."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ort_lite.errors import InvalidArgument, InvalidPlan
from ort_lite.record import Record

if TYPE_CHECKING:
    from ort_lite.memory.planning.planner import MemoryPlanner


class BufferRequest(NamedTuple):
    """A buffer of `nbytes` bytes, in use from the step `first` to the step `last`, both inclusive."""

    nbytes: int
    first: int
    last: int


class Offsets(Record):
    """The offset of each buffer, in the order of the requests, and the size of the memory that holds all of them.

    No plan can do with less than `lower_bound` bytes, the most in use at one step.
    """

    offsets: tuple[int, ...]
    total: int
    lower_bound: int


def plan_offsets(requests: Sequence[BufferRequest], alignment: int = 256, planner: "MemoryPlanner | None" = None) -> Offsets:
    """Return offsets, multiples of `alignment`, at which buffers that are in use at the same step share no byte.

    Steps are numbers in the order in which the device executes them. `planner` is `options.session_memory.planner` of the session's
    options, or that of sessions by default. Takes 0.1 ms for 10 buffers and 3 ms for 1,000.
    Raises InvalidArgument for an impossible size, a last step before the first or an alignment below 1, and InvalidPlan for an
    invalid result of a plugin's planner.
    """
    from ort_lite.memory.planning.block_kernels import Blocks
    from ort_lite.memory.planning.packing import LIMIT
    from ort_lite.memory.planning.planner import DEFAULT_PLANNER, pack_blocks
    from ort_lite.memory.planning.requests import align_up

    if alignment < 1:
        raise InvalidArgument(f"plan_offsets: alignment {alignment}, expected 1 or more")
    for number, (nbytes, first, last) in enumerate(requests):
        if not 0 <= nbytes <= LIMIT or first > last:
            came = f"request {number} has {nbytes} bytes from step {first} to {last}"
            raise InvalidArgument(f"plan_offsets: {came}; expected 0 to 2**62 bytes, and the first step before the last")
    if not requests:
        return Offsets((), 0, 0)
    sizes = [align_up(nbytes, alignment) for nbytes, _, _ in requests]
    blocks = Blocks(sizes, [first for _, first, _ in requests], [last + 1 for _, _, last in requests])
    names = [f"request {number}" for number in range(len(requests))]
    offsets = pack_blocks(planner or DEFAULT_PLANNER, blocks, names).tolist()
    if -1 in offsets:
        raise InvalidPlan(f"plan_offsets: the memory planner found no place below 2**62 bytes for {names[offsets.index(-1)]}")
    total = max(offset + size for offset, size in zip(offsets, sizes, strict=True))
    return Offsets(tuple(offsets), total, blocks.lower_bound())
