"""The state (G, M), the table T, and the step from one state to the next."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidPlan
from ort_lite.execute.execute import Executable, Step
from ort_lite.execute.feeds import Feeds
from ort_lite.graph.graph import Graph, Node
from ort_lite.memory.arenas import CACHE_LINE, Bytes, allocate_bytes
from ort_lite.memory.planning.requests import align_up
from ort_lite.provider.abilities import has_machine_image
from ort_lite.provider.machine_image import Image, MachineInstruction, Region, TableEntry
from ort_lite.record import Record
from ort_lite.tools.machine.opaque_image import OpaqueImage


def node_tuple(node: Node) -> tuple[str, list[str], list[str], dict[str, Any]]:
    """Return a node as (op_type, inputs, outputs, attributes). Nested graphs are among the attributes; "" is an omitted operand."""
    inputs = [value.name if value is not None else "" for value in node.inputs]
    outputs = [value.name if value is not None else "" for value in node.outputs]
    return node.op_type, inputs, outputs, {name: attribute.value for name, attribute in node.attributes.items()}


class MachineState:
    """The state (G, M): a DAG of operations and a linear memory of N bytes. Raises InvalidGraph if the graph has a cycle."""

    __slots__ = ("G", "M")

    def __init__(self, graph: Graph, memory: Bytes) -> None:
        graph.sort()
        self.G, self.M = graph, memory

    @property
    def N(self) -> int:
        """The number of bytes of M."""
        return len(self.M)

    def digest(self) -> str:
        """Return the SHA-256 of M."""
        return hashlib.sha256(self.M.data).hexdigest()


class StepRecord(Record):
    """The record of one step. `writes` are the operands that it created or changed; `reads` are all others."""

    index: int
    node: str
    op_type: str
    kernel: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def row(self) -> tuple[Any, ...]:
        """Return the record as plain data."""
        return self.index, self.node, self.op_type, self.kernel, self.reads, self.writes

    def __str__(self) -> str:
        return (
            f"{self.index:4}  {self.op_type} {self.node!r} [{self.kernel}]  {', '.join(self.reads)} -> {', '.join(self.writes)}"
        )


class Machine:
    """A model with its inputs, ready to step. One ordinary run lays it out; only the shapes of that run are kept.

    All arenas of all partitions lie end to end in M: an entry of T is the arena's base plus the offset in its plan. A step of its
    own copies each value that crosses from one partition to another. `orders` gives the order of instructions by partition, and
    each order is planned anew. A machine serves one thread.
    """

    def __init__(
        self, session: InferenceSession, input_feed: Mapping[str, Any], orders: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self.session = session
        executable = session._stage_results.compiled.executable
        self._values = Feeds(executable.inputs)(input_feed)
        self._lay_out(executable, orders or {})
        memory = allocate_bytes(self._end, zeroed=True)
        self.state = MachineState(session._stage_results.model.graph, memory)
        self._instructions: list[MachineInstruction] = []
        self._owners: list[tuple[Image | None, int]] = []
        for part in self._parts:
            self._load(part)
        self._defined = {name for region, name in self._entries("constant", "input")}
        self.position = 0

    # --- layout
    def _lay_out(self, executable: Executable, orders: Mapping[str, Sequence[int]]) -> None:
        slots: list[Any] = [*self._values, *([None] * (executable.slots - len(self._values)))]
        made: dict[int, str] = {}  # slot -> the name of the tensor that some partition computed
        self._parts: list[_Part] = []
        self._end = 0
        self.T: dict[str, TableEntry] = {}
        self.regions: list[Region] = []
        several = len(executable.steps) > 1
        for step in executable.steps:
            given = [slots[k] for k in step.inputs]
            image = _image(step, self.session, given, orders.get(step.name))
            prefix = f"{step.name}/" if several else ""
            copied = {name: made[k] for name, k in zip(image.inputs, step.inputs, strict=True) if k in made}
            part = _Part(image, prefix, self._end, {prefix + to: source for to, source in copied.items()})
            self._parts.append(part)
            self.T.update((prefix + name, entry.at(self._end)) for name, entry in image.table.items())
            self.regions += [region.replace(offset=region.offset + self._end) for region in image.regions]
            self._end = align_up(self._end + image.nbytes, CACHE_LINE)
            for k, name, result in zip(step.outputs, image.outputs, image.results, strict=True):
                slots[k], made[k] = result, prefix + name
        self._outputs = [made.get(k) if type(k) is int else None for k in executable.result_slots]
        self._fixed = [slots[k] if type(k) is int else k for k in executable.result_slots]

    def _load(self, part: "_Part") -> None:
        memory = self.state.M[part.base : part.base + part.image.nbytes]
        loaded = part.image.load(memory)
        for to, source in part.copied.items():
            self.T[to].view(self.state.M)[...] = 0  # comes by a step
            self._add(None, 0, _copy(self.state.M, self.T, source, to))
        for k, instruction in enumerate(loaded):
            names = tuple(part.prefix + name for name in instruction.operands)
            self._add(part.image, k, instruction.replace(operands=names))

    def _add(self, image: Image | None, index: int, instruction: MachineInstruction) -> None:
        self._owners.append((image, index))
        self._instructions.append(instruction)

    def _entries(self, *roles: str) -> Iterable[tuple[Region, str]]:
        """Return the tensors in regions of these roles. Inputs that a step copies in do not exist at the start."""
        spans = [region for region in self.regions if region.role in roles]
        brought = {to for part in self._parts for to in part.copied}
        for name, entry in self.T.items():
            for region in spans:
                if region.offset <= entry.offset and entry.end <= region.offset + region.nbytes and name not in brought:
                    yield region, name
                    break

    # --- stepping
    def __len__(self) -> int:
        """Return the number of instructions."""
        return len(self._instructions)

    @property
    def at_end(self) -> bool:
        """Return True after the last instruction."""
        return self.position == len(self._instructions)

    @property
    def instructions(self) -> Sequence[MachineInstruction]:
        """The instructions, in order."""
        return self._instructions

    def read(self, name: str) -> Array:
        """Return a copy of a tensor as it is now. Raises KeyError if T has no such name."""
        return self.T[name].view(self.state.M).copy()

    def step(self, check: bool = False) -> StepRecord:
        """Execute the next instruction. With `check`, which costs O(N), it raises InvalidPlan if bytes outside its operands
        changed.

        Raises InvalidArgument if all instructions have been executed, and what the instruction raises.
        """
        if self.at_end:
            raise InvalidArgument(f"the machine has halted: all {len(self)} instructions have been executed")
        instruction = self._instructions[self.position]
        M, T = self.state.M, self.T
        fresh = [name for name in instruction.operands if name not in self._defined]
        old = [name for name in dict.fromkeys(instruction.operands) if name in self._defined]
        before = {name: M[T[name].offset : T[name].end].copy() for name in old}
        whole = M.copy() if check else None
        instruction.execute()
        changed = [n for n in old if (M[T[n].offset : T[n].end] != before[n]).any() and not _lies_in(T[n], fresh, T)]
        if whole is not None:
            self._check_writes(instruction, whole, (*fresh, *changed))
        self._defined.update(fresh)
        node = instruction.node
        writes = tuple(dict.fromkeys((*fresh, *changed)))
        record = StepRecord(
            self.position, node.name, node.op_type, instruction.kernel, tuple(n for n in old if n not in changed), writes
        )
        self.position += 1
        return record

    def run(self) -> list[Any]:
        """Execute the remaining instructions in as few native calls as `InferenceSession.run` needs, and return the outputs."""
        while not self.at_end:
            image, index = self._owners[self.position]
            count = 1
            if image is None:
                self._instructions[self.position].execute()
            else:
                while self.position + count < len(self) and self._owners[self.position + count][0] is image:
                    count += 1
                image.run(index, index + count)
            self.position += count
        self._defined.update(self.T)
        return self.outputs()

    def outputs(self) -> list[Any]:
        """Return copies of the model's outputs as they are in M now, in order."""
        pairs = zip(self._outputs, self._fixed, strict=True)
        return [self.read(name) if name is not None else np.array(fixed) for name, fixed in pairs]

    def _check_writes(self, instruction: MachineInstruction, before: Bytes, writes: Sequence[str]) -> None:
        allowed = np.zeros(len(before), bool)
        for name in writes:
            allowed[self.T[name].offset : self.T[name].end] = True
        touched = np.flatnonzero((before != self.state.M) & ~allowed)
        if len(touched):
            raise InvalidPlan(
                f"{instruction.node} [{instruction.kernel}] changed {len(touched)} bytes outside of what it writes "
                f"({', '.join(writes)}), the first at {int(touched[0])}: {self.at(int(touched[0])) or 'no tensor'}"
            )

    def at(self, offset: int) -> str:
        """Return the names of all tensors that hold the byte at `offset` at any time."""
        return ", ".join(name for name, entry in self.T.items() if entry.offset <= offset < entry.end)


class _Part(Record, eq=False):
    """The place of an image in M. `copied` maps the inputs that a step copies in to their source tensors."""

    image: Image
    prefix: str
    base: int
    copied: Mapping[str, str]


def _image(step: Step, session: InferenceSession, inputs: list[Any], order: Sequence[int] | None) -> Image:
    compiled: Any = session._stage_results.compiled.partitions.get(step.name)
    if has_machine_image(compiled):
        made: Image = compiled.machine_image(inputs, order)
        return made
    if order is not None:
        raise InvalidArgument(f"{step.name} ({step.provider}) is one instruction: it has no order")
    nodes = [p.nodes for p in session._stage_results.assignment.partitions if p.name == step.name]
    return OpaqueImage(step.name, step.function, nodes[0] if nodes else [Node("Copy", (), (), name=step.name)], inputs)


def _copy(memory: Bytes, table: Mapping[str, TableEntry], source: str, to: str) -> MachineInstruction:
    def execute() -> None:
        table[to].view(memory)[...] = table[source].view(memory)

    return MachineInstruction(Node("Copy", (), (), name=to), "copy", (source, to), execute)


def _lies_in(entry: TableEntry, names: Sequence[str], table: Mapping[str, TableEntry]) -> bool:
    """Return True if a new tensor reused the bytes of another one, because it was written in place."""
    return any(table[n].offset < entry.end and entry.offset < table[n].end for n in names)
