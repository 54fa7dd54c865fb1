"""A Program over one piece of memory, for `ort_lite.tools.machine`: the same instructions, with all they touch in one array.

Constants lie at absolute addresses, which descriptors hold: here they are copied, and the descriptors point at the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from ort_lite.dtypes import Array, from_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.memory.arenas import CACHE_LINE, Bytes
from ort_lite.memory.planning.planner import MemoryPlanner
from ort_lite.memory.planning.requests import align_up
from ort_lite.memory.pool import ScratchPool
from ort_lite.provider.machine_image import MachineInstruction, Region, TableEntry, entry_of, store
from ort_lite.shapes import evaluate
from ort_lite_cpu.lowering.lowered import HostStep, Instruction, LoweringResult
from ort_lite_cpu.lowering.tensor import Buffer, Tensor, buffers_of
from ort_lite_cpu.program import bind
from ort_lite_cpu.program.bind import Binder, Bound
from ort_lite_cpu.program.host_step import run_host_step
from ort_lite_cpu.program.segment import FIRST_PLACE, NULL, SCRATCH, Segment, assemble
from ort_lite_cpu.program.segment_run import SegmentRun
from ort_lite_cpu.run.loop import RUN_JOB
from ort_lite_cpu.run.run_context import RunContext


class Runnable(Protocol):
    """The members of a Program that an image needs."""

    lowered: LoweringResult
    steps: list[SegmentRun | HostStep]
    threads: int
    pool: ScratchPool[RunContext]
    planner: MemoryPlanner
    places: int
    output_places: list[int]


def machine_image(program: Runnable, inputs: Sequence[Any], order: Sequence[int] | None) -> ProgramImage:
    """The image for these inputs. `order`: of the instructions, with a plan of its own; programs of one segment alone.

    Raises NotImplemented where a value cannot lie in memory, InvalidArgument for an order that is none.
    """
    steps = program.steps if order is None else [_reorder(program, order)]
    return ProgramImage(program, steps, inputs)


def _reorder(program: Runnable, order: Sequence[int]) -> SegmentRun:
    segments = [step for step in program.steps if isinstance(step, SegmentRun)]
    if len(segments) != 1 or len(program.steps) != 1:
        raise InvalidArgument(f"a program of {len(program.steps)} steps between which data decides sizes has one order")
    instructions = segments[0].segment.instructions
    if any(each.jump for each in instructions):
        raise InvalidArgument("a program that branches or loops has one order")
    if sorted(order) != list(range(len(instructions))):
        raise InvalidArgument(f"{list(order)[:8]}...: expected an order of {len(instructions)} instructions")
    lowered = program.lowered.replace(
        items=[*segments[0].segment.requirements, *(instructions[k] for k in order)],
    )
    [segment] = assemble(lowered, program.threads, [RUN_JOB, *bind.SPECS], schedule=False).steps
    assert isinstance(segment, Segment)
    return SegmentRun.of(segment, Binder(segment, program.planner), segments[0].needs, segments[0].inputs)


class ProgramImage:
    """See `ort_lite.provider.machine_image.Image`. Laid out as constants, inputs, other places, scratch; made by an ordinary run."""

    def __init__(self, program: Runnable, steps: Sequence[SegmentRun | HostStep], inputs: Sequence[Any]) -> None:
        self._program, self._steps, self._given = program, steps, list(inputs)
        self._bound: list[tuple[Bound, dict[str, Any]] | None] = []
        self._places: list[Any] = [*inputs, *([None] * (program.places - len(inputs)))]
        self._run_once()
        self.table: dict[str, TableEntry] = {}
        self.regions: list[Region] = []
        self.nbytes = 0
        self._names: dict[Buffer, str] = {}
        self._constants: dict[int, tuple[Array, int]] = {}  # id -> array, offset
        self._lay_out()
        self.results = [self._places[place] for place in program.output_places]
        self.inputs = tuple(self._place_names[place] for place in range(len(inputs)))
        self.outputs = tuple(self._place_names[place] for place in program.output_places)

    def _run_once(self) -> None:
        """Binds every segment to the values that come out on the way, and keeps the arrays of all places."""
        for step in self._steps:
            if isinstance(step, HostStep):
                run_host_step(step, self._places)
                self._bound.append(None)
                continue
            values = step.values(self._places)
            bound = step.bind_values(values)
            lease = step.lease(self._program.pool, bound, self._places)
            try:
                step.run(bound, self._places, lease, None)
            finally:
                self._program.pool.release(lease)
            symbols = {symbol.name: value for (symbol, _), value in zip(step.segment.leaves, values, strict=True)}
            self._bound.append((bound, symbols))

    # --- layout
    def _lay_out(self) -> None:
        for step in self._steps:
            for buffer in _buffers(step):
                if buffer.constant is not None and id(buffer.constant) not in self._constants:
                    self._constants[id(buffer.constant)] = (buffer.constant, self._region("constant", buffer.constant.nbytes))
        self._place_offsets: list[int] = []
        self._place_names: dict[int, str] = {}
        for place, array in enumerate(self._places):
            role = "input" if place < len(self._given) else "place"
            known = array is not None
            self._place_offsets.append(self._region(role, entry_of(f"place {place}", array, 0).nbytes) if known else -1)
        self._scratch = self._region("scratch", max((made[0].scratch for made in self._bound if made is not None), default=0))
        for step, made in zip(self._steps, self._bound, strict=True):
            self._enter(step, made)
        for place, array in enumerate(self._places):
            if place not in self._place_names and array is not None:
                self._place_names[place] = self._unique(f"place {place}")
                self.table[self._place_names[place]] = entry_of("", array, self._place_offsets[place])

    def _region(self, role: str, nbytes: int) -> int:
        offset = align_up(self.nbytes, CACHE_LINE)
        self.regions.append(Region(role, offset, nbytes))
        self.nbytes = offset + nbytes
        return offset

    def _enter(self, step: SegmentRun | HostStep, made: tuple[Bound, dict[str, Any]] | None) -> None:
        """Puts the tensors of a step into the table."""
        if isinstance(step, HostStep) or made is None:
            for fixed in _buffers(step):
                self._enter_constant(fixed)
            return
        bound, symbols = made
        descriptors = bound.descriptors
        for instruction, start in zip(step.segment.instructions, step.segment.descriptor_starts.tolist(), strict=True):
            for k, buffer in enumerate(instruction.operands):
                if buffer is None or buffer in self._names or self._enter_constant(buffer):
                    continue
                assert descriptors[start + 2 * k] == SCRATCH
                tensor = self._program.lowered.primary[buffer]
                shape = tuple(evaluate(dim, symbols) for dim in tensor.storage_shape)
                offset = self._scratch + int(descriptors[start + 2 * k + 1])
                self._names[buffer] = name = self._unique(tensor.name or "temporary")
                self.table[name] = TableEntry(offset, tensor.dtype, shape)

    def _enter_constant(self, buffer: Buffer) -> bool:
        """Enter a constant, or a value with an array of its own; False for scratch."""
        if buffer in self._names:
            return True
        tensor = self._program.lowered.primary.get(buffer)
        if buffer.constant is not None:
            array, offset = self._constants[id(buffer.constant)]
            self._names[buffer] = name = self._unique(tensor.name if tensor is not None and tensor.name else "constant")
            self.table[name] = TableEntry(offset, from_numpy(array.dtype), array.shape)
        elif buffer.place >= 0:
            if buffer.place not in self._place_names:
                named = tensor.name if tensor is not None and tensor.name else f"place {buffer.place}"
                self._place_names[buffer.place] = name = self._unique(named)
                self.table[name] = entry_of(name, self._places[buffer.place], self._place_offsets[buffer.place])
            self._names[buffer] = self._place_names[buffer.place]
        return buffer in self._names

    def _unique(self, name: str) -> str:
        if name not in self.table:
            return name
        return next(made for k in range(2, 1 << 31) if (made := f"{name} {k}") not in self.table)

    # --- over memory
    def load(self, memory: Bytes) -> list[MachineInstruction]:
        """Attach the memory and return the instructions."""
        base = memory.__array_interface__["data"][0]
        self._memory, self._keep = memory, list[Any]()
        for array, offset in (*self._constants.values(), *zip(self._given, self._place_offsets, strict=False)):
            memory[offset : offset + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._lease = RunContext()
        self._lease.fit((self._program.threads, FIRST_PLACE + len(self._places)))
        self._lease.memory[SCRATCH] = base + self._scratch
        for place, offset in enumerate(self._place_offsets):
            self._lease.memory[FIRST_PLACE + place] = base + max(offset, 0)
        self._slices: list[Callable[[int, int], None]] = []
        self._where: list[tuple[int, int]] = []  # instruction -> (step, index in it)
        made: list[MachineInstruction] = []
        for number, (step, bound) in enumerate(zip(self._steps, self._bound, strict=True)):
            made += self._host_step(number, step) if isinstance(step, HostStep) else self._segment(number, step, bound, base)
        return made

    def _host_step(self, number: int, step: HostStep) -> list[MachineInstruction]:
        def execute(start: int = 0, stop: int = 1) -> None:
            arrays = [None if tensor is None else self._view(tensor) for tensor in step.inputs]
            for tensor, result in zip(step.outputs, step.function(*arrays), strict=False):
                if tensor is not None and tensor.buffer is not None:
                    name = self._names[tensor.buffer]
                    store(self.table[name], self._memory, result, name)

        self._slices.append(execute)
        self._where.append((number, 0))
        operands = tuple(self._names[b] for b in _buffers(step))
        return [MachineInstruction(step.node, "python" if step.python else "control flow", operands, execute)]

    def _view(self, tensor: Tensor) -> Array:
        assert tensor.buffer is not None
        return self.table[self._names[tensor.buffer]].view(self._memory)

    def _segment(
        self, number: int, step: SegmentRun, made: tuple[Bound, dict[str, Any]] | None, base: int
    ) -> list[MachineInstruction]:
        assert made is not None
        bound, segment = made[0], step.segment
        descriptors, table = bound.descriptors.copy(), bound.table.copy()
        table[:, 1] += descriptors.ctypes.data - bound.descriptors.ctypes.data
        starts = segment.descriptor_starts.tolist()
        for instruction, start in zip(segment.instructions, starts, strict=True):
            for k, buffer in enumerate(instruction.operands):
                if buffer is not None and buffer.constant is not None:
                    assert descriptors[start + 2 * k] == NULL
                    descriptors[start + 2 * k + 1] = base + self._constants[id(buffer.constant)][1]
        self._keep += [descriptors, table]
        units = _units(segment.instructions)

        def execute(start: int, stop: int) -> None:
            job = self._lease.job
            job.attach(table.ctypes.data, self._lease.memory_address, bound.cost_us)
            if job.run(units[start].start, units[stop - 1].stop):
                raise step.error(bound, self._lease.memory, *job.failure)

        self._slices.append(execute)
        self._where += [(number, index) for index in range(len(units))]
        made_of = [segment.instructions[unit.start : unit.stop] for unit in units]
        return [
            MachineInstruction(
                inside[0].node,
                inside[0].spec.name,
                tuple(self._names[b] for each in inside for b in each.operands if b is not None),
                partial(execute, k, k + 1),
            )
            for k, inside in enumerate(made_of)
        ]

    def run(self, start: int, stop: int) -> None:
        """Run the instructions from `start` to `stop` - 1."""
        while start < stop:
            number, index = self._where[start]
            count = 1
            while start + count < stop and self._where[start + count][0] == number:
                count += 1
            self._slices[number](index, index + count)
            start += count


def _units(instructions: Sequence[Instruction]) -> list[range]:
    """Group instructions into those of the machine: each alone, and a branch or a loop with all that is in it."""
    joined = [False] * (len(instructions) + 1)
    for k, each in enumerate(instructions):
        first, last = (k, k + each.jump - 1) if each.jump >= 0 else (k + each.jump, k)
        joined[first + 1 : last + 1] = [True] * max(last - first, 0)
    starts = [k for k in range(len(instructions)) if not joined[k]]
    return [range(*pair) for pair in zip(starts, [*starts[1:], len(instructions)], strict=True)]


def _buffers(step: SegmentRun | HostStep) -> list[Buffer]:
    if isinstance(step, SegmentRun):
        found = (b for instruction in step.segment.instructions for b in instruction.operands)
        return list(dict.fromkeys(b for b in found if b is not None))
    return list(dict.fromkeys(buffers_of((*step.inputs, *step.outputs))))
