"""Outputs of a program that may be computed in the memory of an input: caches to which an instruction appends."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ort_lite.graph import Node
from ort_lite_cpu.lowering.lowered import HostStep, Instruction, LoweringResult
from ort_lite_cpu.lowering.tensor import buffers_of
from ort_lite_cpu.program.growth import AXIS
from ort_lite_cpu.program.segment_run import SegmentRun


def find_aliases(steps: Sequence[SegmentRun | HostStep], inputs: int, output_places: Sequence[int]) -> dict[int, int]:
    """Return the inputs by the outputs that one instruction may write over them (see `Instruction.over`), both by position.

    Nothing else reads such an input, sizes included, and nothing writes to the output before. The places of inputs are their
    positions.
    """
    instructions = [one for step in steps if isinstance(step, SegmentRun) for one in step.segment.instructions]
    if not any(one.over is not None for one in instructions) or any(one.jump for one in instructions):
        return {}
    reads = Counter(place for place, _ in _uses(steps))
    found: dict[int, int] = {}
    written = set[int]()
    for one in instructions:
        if one.over is not None and (pair := _places(one, one.over)) is not None:
            out, source = pair
            unread = 0 <= source < inputs <= out and reads[source] == 1 and source not in output_places
            if unread and out not in written and output_places.count(out) == 1 and source not in found.values():
                found[output_places.index(out)] = source
        written.update(buffer.place for buffer in one.operands if buffer is not None)
    return found


def find_growths(
    steps: Sequence[SegmentRun | HostStep], lowered: LoweringResult, inputs: int, output_places: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Return (position of the past, axis of its rows) by the position of the output that may be computed behind it.

    Kernels can append to all pairs of `lowered.rooms`; nothing else may read either value of a pair.
    """
    if not lowered.rooms or any(step.jumps for step in steps if isinstance(step, SegmentRun)):
        return {}
    uses = list(_uses(steps))
    reads, users = Counter(place for place, _ in uses), set(uses)
    return {
        output_places.index(present.place): (past.place, AXIS)
        for present, past in lowered.rooms.items()
        if 0 <= past.place < inputs <= present.place
        and reads[past.place] == 1
        and past.place not in output_places
        and output_places.count(present.place) == 1
        and sum(place == present.place for place, _ in users) == 1
    }


def _places(one: Instruction, over: tuple[int, int]) -> tuple[int, int] | None:
    out, source = (one.operands[k] for k in over)
    return None if out is None or source is None else (out.place, source.place)


def _uses(steps: Sequence[SegmentRun | HostStep]) -> Iterator[tuple[int, Node | None]]:
    """Yield the place of each operand with its node, and of each array whose elements are sizes."""
    for step in steps:
        if isinstance(step, SegmentRun):
            yield from ((place, None) for place, _, element in step.leaves if element)
            for one in step.segment.instructions:
                yield from ((buffer.place, one.node) for buffer in one.operands if buffer is not None)
        else:
            yield from ((buffer.place, step.node) for buffer in buffers_of((*step.inputs, *step.outputs)))
