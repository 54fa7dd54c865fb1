"""Assembly: the result of lowering becomes steps. A Segment is a run of instructions that bind together, with numpy tables ready.

Every buffer gets its place here. Inputs, outputs, what host steps touch and what crosses from one segment to another are arrays of
their own ("places", in this order: inputs, outputs, others); all else is scratch, planned inside its segment.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import KernelMissing, describe
from ort_lite.graph import Node
from ort_lite.memory.recipes import derive
from ort_lite.native.checkpoint import checkpoint
from ort_lite.native.cpu import host
from ort_lite.native.spec import Spec
from ort_lite.record import Record, asdict
from ort_lite.shapes import Symbol, at_least, less, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.lowered import SERIAL, HostStep, Instruction, LoweringResult, Requirement, SymbolSource, most_parts
from ort_lite_cpu.lowering.tensor import Buffer, buffers_of
from ort_lite_cpu.program.code import Code
from ort_lite_cpu.program.schedule import reorder
from ort_lite_cpu.run.kernels import Kernels

NULL, SCRATCH, FIRST_PLACE = 0, 1, 2
"""Entries of the memory table: the null pointer (constants lie at their absolute address above it), scratch, the places."""

NOTHING = Spec(primitives.nothing)

GRAIN = 15_000
"""Nanoseconds of work below which an instruction is not shared by threads."""
ROUND_GRAIN = 600
"""The same for each of several rounds: threads that have just ended one are awake for the next."""
PART_GRAIN = 25_000
"""The fewest nanoseconds of work for each part where threads have several."""


class Allocation(Record, frozen=False):
    """An array of its own that a segment writes first: its place, element type, and the slots of its dimensions."""

    place: int
    dtype: np.dtype[Any]
    slots: list[int]
    node: Node


class Segment(Record, frozen=False):
    """Instructions with symbolic sizes, as tables: a `bind.Binder` makes a Bound of them for values of `leaves`.

    Slots are those of the code, see `Code`.
    """

    LATER = frozenset({"instructions", "leaves", "requirements", "number_slots", "dim_nodes"})
    # --- the calls
    instructions: list[Instruction]
    table: Array
    """Of the instructions, for the loop that runs them: addresses of kernels, the other columns are zeros."""
    index: Array
    """The slots of what descriptors hold, one after the other."""
    descriptor_starts: Array
    """Of each instruction: where its descriptor begins in `index`."""
    parts_slots: Array
    rounds_slots: Array
    work_slots: Array
    result_slots: Array
    """Of each instruction: how many bytes it writes that nobody wrote before; a positive number where it writes to others too."""
    nothing: int
    """The address of the kernel that does nothing."""

    # --- sizes
    code: Array
    initial: Array
    """What is in the slots before the code runs: constants."""
    leaves: list[tuple[Symbol, SymbolSource]]
    leaf_slots: Array
    requirements: list[Requirement]
    requirement_slots: Array
    number_slots: list[Array]
    """Of each requirement, for its message."""

    # --- scratch buffers
    names: list[str]
    size_slots: Array
    offset_slots: Array
    starts: Array
    """The first instruction that uses each buffer; `ends`: the one after the last."""
    ends: Array
    dim_slots: Array
    """Of dims that might be negative, which the product of two would not show."""
    dim_nodes: list[Node]
    """Who writes the buffers of `dim_slots`."""

    # --- other memory
    allocations: list[Allocation]
    keep: list[Any]
    """Arrays whose addresses stand in `initial`, in the order of `keep_slots`."""
    keep_slots: Array

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without addresses, which `relocate` fills in, and the arrays of numbers as one."""
        table, initial = self.table.copy(), self.initial.copy()
        table[:, 0], initial[self.keep_slots] = 0, 0
        fields = asdict(self) | {"table": table, "initial": initial, "nothing": 0}
        arrays = {name: fields.pop(name) for name, field in list(fields.items()) if isinstance(field, np.ndarray)}
        shapes = [(name, array.shape) for name, array in arrays.items()]
        return fields | {"numbers": (shapes, np.concatenate([array.ravel() for array in arrays.values()]).tobytes())}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        shapes, data = fields.pop("numbers")
        numbers, start = np.frombuffer(data, np.int64).copy(), 0
        for name, shape in shapes:
            array: Array = np.ndarray(shape, np.int64, numbers, start)
            setattr(self, name, array)
            start += array.nbytes
        for name, field in fields.items():
            setattr(self, name, field)

    def relocate(self, kernels: Sequence[int], nothing: int) -> None:
        """Fill in the addresses of the instructions' kernels, of the kernel that does nothing, and of arrays."""
        self.table[:, 0], self.nothing = kernels, nothing
        self.initial[self.keep_slots] = [array.ctypes.data for array in self.keep]


class Assembled(Record, frozen=False):
    """The segments and host steps of a program, in order."""

    steps: list[Segment | HostStep]
    places: int
    output_places: list[int]


def assemble(lowered: LoweringResult, threads: int, machinery: Sequence[Spec] = (), schedule: bool = True) -> Assembled:
    """Steps in order. Compiles or loads the kernels that the program needs, and what runs it; the latter for this machine.

    `schedule`: instructions may be reordered where that lowers the memory that the program needs.
    """
    groups = _groups(lowered)
    places = _assign_places(lowered, groups)
    specs = list(dict.fromkeys(item.spec for item in lowered.items if isinstance(item, Instruction)))
    try:
        *found, nothing = load_kernels(lowered.kernels, [*specs, NOTHING], machinery)
    except KernelMissing as error:
        raise _with_node(error, lowered) from None
    lowered.kernels.want(lowered.wanted)
    addresses = dict(zip(specs, found, strict=True))
    written: set[int] = {buffer.place for buffer in lowered.inputs}
    steps: list[Segment | HostStep] = []
    for group in groups:
        if isinstance(group, HostStep):
            written.update(buffer.place for buffer in buffers_of(group.outputs))
            steps.append(group)
        else:
            steps.append(
                _Assembler(lowered, threads, written).segment(_schedule(group) if schedule else group, addresses, nothing)
            )
    return Assembled(steps, places, [buffer.place for buffer in buffers_of(lowered.outputs)])


def load_kernels(kernels: Kernels, specs: Sequence[Spec], machinery: Sequence[Spec]) -> list[int]:
    """Return the addresses of kernels. Loads the machinery, which is for this machine, as well: in one go if the kernels are, too."""
    if kernels.target != host():
        Kernels(host(), kernels.compile).load(machinery)
        machinery = ()
    return kernels.load([*specs, *machinery])[: len(specs)]


def _with_node(error: KernelMissing, lowered: LoweringResult) -> KernelMissing:
    """The error about kernels, which says for which node the first of them is."""
    users = (item.node for item in lowered.items if isinstance(item, Instruction) and item.spec in error.specs[:1])
    node = next(users, None)
    return (
        error if node is None else KernelMissing(f"{node} (CPUExecutionProvider): {describe(error)}", error.specs).about(node)
    )


_Group = list[Instruction | Requirement]


def _groups(lowered: LoweringResult) -> list[_Group | HostStep]:
    """Return instructions that bind together, and the steps between them, in order.

    A step runs as early as what it reads allows, and an instruction in the first segment that it can be in: few segments are left.
    """
    times = _Times(lowered)
    groups: dict[int, _Group] = {}
    steps: dict[int, list[HostStep]] = {}
    for item in lowered.items:
        if item is None:
            times.end_segment()
        elif isinstance(item, HostStep):
            steps.setdefault(times.of_step(item), []).append(item)
        else:
            groups.setdefault(times.of_instruction(item), []).append(item)
    found: list[_Group | HostStep] = []
    for time in sorted({*groups, *steps}):
        found += steps[time] if time in steps else [groups[time]]
    return found


class _Times:
    """The times at which items run: odd for segments, even for the steps between them. Items of one time keep their order.

    In a program with jumps all items do.
    """

    def __init__(self, lowered: LoweringResult) -> None:
        self._steady = {*lowered.inputs}
        """Buffers that no instruction writes to."""
        self._told = {source.buffer for source in lowered.sources.values()}
        self._jumps = any(isinstance(item, Instruction) and item.jump for item in lowered.items)
        self._after: dict[Buffer | Node, int] = {}
        """The last time at which a buffer was used, unless it is steady and was only read, or a node had a requirement."""
        self._first = 1
        """The time of the first segment that may still grow."""
        self._last = 0

    def end_segment(self) -> None:
        """Begin a segment that binds on what those before it leave, if there are any."""
        self._first = max(self._first, (self._last + 1) | 1)

    def of_step(self, step: HostStep) -> int:
        """Return the time of the next item, a step."""
        if self._jumps:  # over instructions that may depend on steps of which the jump itself does not
            self._last += self._last & 1
            self._first = self._last + 1
            return self._last
        inputs = {*buffers_of(step.inputs)}
        time = max([self._after.get(step.node, 0), *(self._after.get(buffer, 0) for buffer in inputs)])
        time += time & 1
        self._last = max(self._last, time)
        self._use(inputs, time)
        for buffer in buffers_of(step.outputs):
            self._steady.add(buffer)
            self._after[buffer] = time
            if buffer in self._told:  # anything behind it may ask for its sizes
                self._first = max(self._first, time + 1)
        return time

    def of_instruction(self, item: Instruction | Requirement) -> int:
        """Return the time of the next item, an instruction or a requirement."""
        if self._jumps:
            self._last = self._first
            return self._last
        operands = item.operands if isinstance(item, Instruction) else ()
        used = {buffer for buffer in operands if buffer is not None}
        time = max([self._first, *(self._after.get(buffer, 0) | 1 for buffer in used)])
        self._last = max(self._last, time)
        self._use(used, time)
        if isinstance(item, Requirement):
            self._after[item.node] = time
        return time

    def _use(self, buffers: Set[Buffer], time: int) -> None:
        self._after.update((buffer, time) for buffer in buffers if buffer.constant is None and buffer not in self._steady)


def _schedule(group: _Group) -> _Group:
    """Order instructions so that fewer bytes are in use, if all sizes are numbers and there is such an order."""
    instructions = [item for item in group if isinstance(item, Instruction)]
    if any(instruction.jump for instruction in instructions):
        return group
    uses = [[b for b in i.operands if b is not None and b.constant is None] for i in instructions]
    sizes: dict[Any, int] = {}
    for own in uses:
        for buffer in own:
            if buffer.place < 0 and not isinstance(buffer.nbytes, int):
                return group
            sizes[buffer] = buffer.nbytes if buffer.place < 0 and isinstance(buffer.nbytes, int) else 0
    order = reorder(uses, sizes)
    if order is None:
        return group
    return [*(item for item in group if isinstance(item, Requirement)), *(instructions[k] for k in order)]


def _assign_places(lowered: LoweringResult, groups: Sequence[_Group | HostStep]) -> int:
    """Give each buffer that becomes an array of its own a place. Returns the number of places."""
    sources = (source.buffer for source in lowered.sources.values())
    own: dict[Buffer, None] = dict.fromkeys((*lowered.inputs, *buffers_of(lowered.outputs), *sources))
    first: dict[Buffer, int] = {}
    for number, group in enumerate(groups):
        if isinstance(group, HostStep):
            own.update(dict.fromkeys(buffers_of((*group.inputs, *group.outputs))))
            continue
        for item in group:
            for buffer in item.operands if isinstance(item, Instruction) else ():
                if buffer is not None and first.setdefault(buffer, number) != number:
                    own[buffer] = None
    place = 0
    for buffer in own:
        if buffer.constant is None:
            buffer.place = place
            place += 1
    return place


class _Assembler:
    """Builds one Segment."""

    def __init__(self, lowered: LoweringResult, threads: int, written: set[int]) -> None:
        self.lowered, self.threads, self.written = lowered, threads, written
        self.code = Code()
        self.keep: list[Any] = []
        self.slots: dict[Buffer, int] = {}
        self.scratch: dict[Buffer, list[int]] = {}  # buffer -> [first use, last use]
        self.allocations: list[Allocation] = []

    def segment(self, group: _Group, addresses: dict[Spec, int], nothing: int) -> Segment:
        instructions = [item for item in group if isinstance(item, Instruction)]
        requirements = [item for item in group if isinstance(item, Requirement)]
        written = [self._note_uses(number, instruction) for number, instruction in enumerate(instructions)]
        self._outlive_loops(instructions)
        dims = self._doubtful_dims(instructions)
        index, descriptor_starts = self._descriptors(instructions, self._share_in_place(instructions))
        size_slots = self.code.slots([buffer.nbytes for buffer in self.scratch])
        parts_slots = [self._parts(instruction) for instruction in instructions]
        rounds_slots = [self._rounds(number, instruction) for number, instruction in enumerate(instructions)]
        work_slots = self.code.slots([instruction.work for instruction in instructions])
        result_slots = self.code.slots(written)
        requirement_slots = [self.code.slot(requirement.condition) for requirement in requirements]
        number_slots = [_ints([self.code.slot(dim) for dim in requirement.numbers]) for requirement in requirements]
        # Nobody asks for a slot from here on: the code is complete.
        return Segment(
            instructions=instructions,
            table=_table(instructions, addresses),
            index=_ints(index),
            descriptor_starts=_ints(descriptor_starts),
            parts_slots=_ints(parts_slots),
            rounds_slots=_ints(rounds_slots),
            work_slots=_ints(work_slots),
            result_slots=_ints(result_slots),
            nothing=nothing,
            code=self.code.table(),
            initial=_ints(self.code.initial),
            leaves=[(leaf, self._source(leaf)) for leaf in self.code.leaves],
            leaf_slots=_ints(self.code.leaf_slots),
            requirements=requirements,
            requirement_slots=_ints(requirement_slots),
            number_slots=number_slots,
            names=self._names(list(self.scratch)),
            size_slots=_ints(size_slots),
            offset_slots=_ints([self.slots[buffer] for buffer in self.scratch]),
            starts=_ints([first for first, _ in self.scratch.values()]),
            ends=_ints([last + 1 for _, last in self.scratch.values()]),
            dim_slots=_ints([dim_slot for dim_slot, _ in dims]),
            dim_nodes=[node for _, node in dims],
            allocations=self.allocations,
            keep=self.keep,
            keep_slots=_ints(list(self.code.addresses.values())),
        )

    def _descriptors(self, instructions: Sequence[Instruction], roots: Mapping[Buffer, Buffer]) -> tuple[list[int], list[int]]:
        """(slots of all descriptors' numbers, where those of each instruction begin)."""
        index: list[int] = []
        starts: list[int] = []
        for instruction in instructions:
            checkpoint()
            starts.append(len(index))
            for buffer in instruction.operands:
                index += self._operand(buffer, roots)
            index += self.code.slots([_bits(value) if isinstance(value, float) else value for value in instruction.scalars])
        return index, starts

    def _doubtful_dims(self, instructions: Sequence[Instruction]) -> list[tuple[int, Node]]:
        """(slot, node) of each dim of a scratch buffer that its terms do not show to be 0 or more; of equal ones the first."""
        found: dict[Dim, Node] = {}
        for buffer, (first, _) in self.scratch.items():
            tensor = self.lowered.primary.get(buffer)
            for dim in () if tensor is None else tensor.shape:
                if not at_least(dim, 0):
                    found.setdefault(dim, instructions[first].node)
        return [(self.code.slot(dim), node) for dim, node in found.items()]

    def _names(self, buffers: Sequence[Buffer]) -> list[str]:
        """Return what the buffers hold, each name once."""
        names: dict[str, None] = {}
        for number, buffer in enumerate(buffers):
            tensor = self.lowered.primary.get(buffer)
            name = tensor.name if tensor is not None and tensor.name else "temporary"
            names[name if name not in names and name != "temporary" else f"{name} {number}"] = None
        return list(names)

    def _source(self, leaf: Symbol) -> SymbolSource:
        source = self.lowered.sources.get(leaf)
        if source is None:
            raise AssertionError(f"symbol {leaf} of a lowered program has no source")
        return source

    def _note_uses(self, number: int, instruction: Instruction) -> Dim:
        """Returns how many bytes it is the first to use: its results; 1 where there are none, and it adds to older ones."""
        found: list[Dim] = []
        for buffer in instruction.operands:
            if buffer is None or buffer.constant is not None:
                continue
            if buffer.place < 0:
                if buffer not in self.scratch:
                    found.append(buffer.nbytes)
                self.scratch.setdefault(buffer, [number, number])[1] = number
            elif buffer.place not in self.written:
                found.append(buffer.nbytes)
                self.written.add(buffer.place)
                tensor = self.lowered.primary[buffer]
                dims = [self.code.slot(dim) for dim in tensor.storage_shape]
                self.allocations.append(Allocation(buffer.place, to_numpy(tensor.dtype), dims, instruction.node))
        return sum(found, start=0) if found else 1

    def _outlive_loops(self, instructions: Sequence[Instruction]) -> None:
        """Extend lifetimes across loops: what is in use on both sides of a loop's border needs its memory in every turn."""
        for end, instruction in enumerate(instructions):
            if instruction.jump >= 0:
                continue
            begin = end + instruction.jump
            for span in self.scratch.values():
                if span[0] < begin <= span[1] or span[0] <= end < span[1]:
                    span[:] = min(span[0], begin), max(span[1], end)

    def _share_in_place(self, instructions: Sequence[Instruction]) -> dict[Buffer, Buffer]:
        """Lets an output lie in the memory of an input that dies there; returns buffer -> the one it lies in."""
        roots: dict[Buffer, Buffer] = {}
        for number, instruction in enumerate(instructions):
            if instruction.inplace is None:
                continue
            out, source = (instruction.operands[k] for k in instruction.inplace)
            if out is None or source is None or out not in self.scratch or source not in self.scratch or out in roots:
                continue
            root = roots.get(source, source)
            if sum(roots.get(b, b) is root for b in instruction.operands if b is not None) > 1:
                continue  # read in two ways: what is written in one is lost to the other
            if self.scratch[root][1] != number or self.scratch[out][0] != number or root.nbytes != out.nbytes:
                continue
            roots[out] = root
            self.scratch[root][1] = self.scratch[out][1]
        for buffer in roots:
            del self.scratch[buffer]
        return roots

    def _operand(self, buffer: Buffer | None, roots: Mapping[Buffer, Buffer]) -> list[int]:
        if buffer is None:
            return [self.code.slot(NULL), self.code.slot(0)]
        if buffer.constant is not None:
            if not buffer.constant.flags.c_contiguous:
                buffer.constant = derive(np.ascontiguousarray, buffer.constant)
            if id(buffer.constant) not in self.code.addresses:
                self.keep.append(buffer.constant)
            return [self.code.slot(NULL), self.code.address(buffer.constant)]
        if buffer.place >= 0:
            return [self.code.slot(FIRST_PLACE + buffer.place), self.code.slot(0)]
        root = roots.get(buffer, buffer)
        if root not in self.slots:
            self.slots[root] = self.code.reserve()
        return [self.code.slot(SCRATCH), self.slots[root]]

    def _rounds(self, number: int, instruction: Instruction) -> int:
        return self.code.slot(-1 - (number + instruction.jump) if instruction.jump else instruction.rounds)

    def _parts(self, instruction: Instruction) -> int:
        if self.threads == 1 or instruction.jump or instruction.slices == SERIAL:
            return self.code.slot(1)
        least = instruction.rounds * ROUND_GRAIN if instruction.rounds != 1 else GRAIN
        most = most_parts(self.threads, instruction.slices)
        shared = select(less(instruction.work, instruction.rounds * most * PART_GRAIN), self.threads, most)
        return self.code.slot(select(less(instruction.work, least), 1, shared))


def _table(instructions: Sequence[Instruction], addresses: Mapping[Spec, int]) -> Array:
    """A row of `loop.execute` for each; binding fills in the other columns."""
    table = np.zeros((len(instructions), 4), np.int64)
    table[:, 0] = [addresses[instruction.spec] for instruction in instructions]
    return table


def _bits(value: float) -> int:
    """Return the bits of a double as the integer that a slot holds."""
    found: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return found


def _ints(values: Sequence[int]) -> Array:
    return np.array(values, np.int64)
