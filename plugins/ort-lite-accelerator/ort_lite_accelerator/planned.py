"""Programs for a card with several memories of limited size: a plan says where each tensor is, and when it moves."""

from collections.abc import Mapping, Sequence
from math import prod
from threading import Lock
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Value
from ort_lite.memory.allocators import ArenaAllocator, Chunk
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.plan import MemoryPlan, TensorMove
from ort_lite.memory.planning.planner import MemoryPlanner
from ort_lite.memory.planning.program_requests import PlannedProgram
from ort_lite.memory.planning.requests import ArenaRole
from ort_lite.provider import run_events
from ort_lite_accelerator.kernels import KERNELS
from ort_lite_accelerator.memory import CardPart, CardRegion, CardStream, CardTensor, CardTransfer, on_card, reserve
from ort_lite_accelerator.program import CardInstruction, CardProgram
from ort_lite_accelerator.sizes import Shape, result_shape, scratch_shape

FLOAT = np.dtype(np.float32)
PLANS = 16
"""The number of shapes whose plans a program keeps."""


class CardPlan(NamedTuple):
    """The plan for one set of input shapes, the shapes of all tensors, and the constants that it stages."""

    plan: MemoryPlan
    shapes: Mapping[str, Shape]
    moves: Mapping[int, Sequence[TensorMove]]
    staged: Mapping[str, CardTensor]


class PlannedExecutable:
    """A program whose tensors have planned places in the memories of the card. Its states are streams, as those of CardExecutable."""

    def __init__(
        self,
        program: CardProgram,
        arena: ArenaAllocator,
        absorbed: Sequence[Value],
        memories: Memories,
        planner: MemoryPlanner,
        transfer: CardTransfer,
    ) -> None:
        self._memories, self._planner, self._transfer = memories, planner, transfer
        self._names = _names(program)
        self._plans: dict[tuple[Shape, ...], CardPlan] = {}
        self._lock = Lock()
        self.program, self.absorbed = program._replace(constants={}), absorbed
        self._arena = arena
        self._constants = self._load(program.constants)

    def create_state(self) -> CardStream:
        """Create the stream of a thread."""
        return CardStream(self._arena)

    def release_state(self, state: CardStream) -> None:
        """Free the memory of a stream."""
        state.release()

    def to_bytes(self) -> bytes:
        """Serialize the program with its constants."""
        constants = {k: on_card(x) for k, x in self._constants.items()}
        return self.program._replace(constants=constants).to_bytes()

    def facts(self) -> dict[str, int | str]:
        """Return facts for `explain()`."""
        memories = ", ".join(map(str, self._memories.declared.values()))
        return {"python_steps": len(self.program.instructions), "card": str(self._arena.device), "memories": memories}

    def memory_plan(self) -> MemoryPlan:
        """Return the plan that was made last; empty before the first run."""
        made = list(self._plans.values())
        return made[-1].plan if made else MemoryPlan()

    def _load(self, constants: Mapping[int, Array]) -> dict[int, CardTensor]:
        """Copy the constants to the places that every plan gives them."""
        arrays = {self._names[k]: array for k, array in constants.items()}
        sizes = {name: array.nbytes for name, array in arrays.items()}
        plan = self._memories.plan(self._planner, PlannedProgram([], sizes, arrays).requests(self._memories), {})
        tensors = self._fill(plan, arrays)
        return {k: tensors[self._names[k]] for k in constants}

    def _fill(self, plan: MemoryPlan, contents: Mapping[str, Array]) -> dict[str, CardTensor]:
        """Return tensors at the places of constants, in arenas that live as long as one of the tensors."""
        made = {}
        for memory, usage in plan.constant_arenas.items():
            bytes_ = reserve((usage.total_size,), np.dtype(np.uint8), self._arena)
            assert bytes_.memory is not None
            region = bytes_.memory.data
            for name, array in contents.items():
                slot = plan.tensor_allocs[name]
                if slot.memory == memory:
                    made[name] = CardTensor(_Held(region[slot.offset : slot.offset + array.nbytes], bytes_), FLOAT, array.shape)
                    on_card(made[name])[...] = array
        return made

    # --- Plans
    def _plan(self, inputs: Sequence[CardTensor]) -> CardPlan:
        """Return the plan for the shapes of these inputs, made on first use."""
        key = tuple(x.shape for x in inputs)
        with self._lock:
            found = self._plans.get(key)
            if found is None:
                while len(self._plans) >= PLANS:
                    del self._plans[next(iter(self._plans))]
                found = self._plans[key] = self._make_plan(key)
            return found

    def _make_plan(self, inputs: Sequence[Shape]) -> CardPlan:
        shapes = {self._names[k]: x.shape for k, x in self._constants.items()}
        shapes |= {self._names[k]: shape for k, shape in zip(self.program.inputs, inputs, strict=True)}
        operators = []
        for step, one in enumerate(self.program.instructions):
            operands = [self._names[k] for k in one.operands if k >= 0]
            given = [shapes[name] for name in operands]
            result, columns = self._names[one.result], _columns(step, one)
            shapes[result] = result_shape(one.kernel, one.settings, given)
            shapes[columns] = scratch_shape(one.kernel, one.settings, given)
            operators.append([*operands, result, *([columns] if prod(shapes[columns]) else [])])
        program = PlannedProgram(
            operators,
            {name: 4 * prod(shape) for name, shape in shapes.items()},
            constants=[self._names[k] for k in self._constants],
            inputs={self._names[k] for k in self.program.inputs},
            outputs={self._names[k] for k in self.program.outputs},
        )
        plan = self._memories.plan(self._planner, program.requests(self._memories), {})
        names = [one.name for one in self.program.instructions]
        plan.steps.update((memory, names) for memory in plan.arena_usages)
        copies = {copy: name for copy, name in plan.copies.items() if plan.tensor_allocs[copy].role is ArenaRole.constant}
        held = {self._names[k]: on_card(x) for k, x in self._constants.items()}
        staged = self._fill(plan, {copy: held[name] for copy, name in copies.items()})
        moves: dict[int, list[TensorMove]] = {}
        for move in plan.moves:
            moves.setdefault(move.step, []).append(move)
        return CardPlan(plan, shapes, moves, staged)

    # --- Runs
    def __call__(self, inputs: Sequence[CardTensor], state: CardStream) -> list[CardTensor]:
        return self.into_memory(inputs, [None] * len(self.program.outputs), state)

    def into_memory(self, inputs: Sequence[CardTensor], memory: Sequence[Chunk | None], state: CardStream) -> list[CardTensor]:
        """Run the program by its plan, and write outputs into chunks that ort_lite allocated, or into new ones."""
        card = self._plan(inputs)
        places = _Places(card, state)
        places.tensors.update((self._names[k], x) for k, x in self._constants.items())
        places.tensors.update((self._names[k], x) for k, x in zip(self.program.inputs, inputs, strict=True))
        outputs = [
            reserve(card.shapes[self._names[k]], FLOAT, self._arena, chunk)
            for k, chunk in zip(self.program.outputs, memory, strict=True)
        ]
        places.tensors.update((self._names[k], y) for k, y in zip(self.program.outputs, outputs, strict=True))
        for step, one in enumerate(self.program.instructions):
            self._move(places, step)
            self._execute(places, step, one)
        self._move(places, len(self.program.instructions))
        return outputs

    def _move(self, places: "_Places", step: int) -> None:
        for move in places.card.moves.get(step, ()):
            self._transfer.move(places.at(move.source), places.at(move.destination))

    def _execute(self, places: "_Places", step: int, one: CardInstruction) -> None:
        begin, events, columns = perf_counter_ns(), run_events(), _columns(step, one)
        arrays = [None if k < 0 else on_card(places.of(self._names[k], step)) for k in one.operands]
        y = places.of(self._names[one.result], step)
        places.state.columns = places.of(columns, step) if prod(places.card.shapes[columns]) else None
        try:
            with np.errstate(all="ignore"):  # ONNX does not warn of overflows
                on_card(y)[...] = KERNELS[one.kernel](places.state, one.settings, *arrays)
        finally:
            places.state.columns = None
        if events is not None:
            about = {"kernel": one.kernel, "shape": "x".join(map(str, y.shape))}
            events.kernel(one.name, begin, perf_counter_ns(), about)


class _Places:
    """The tensors of one run, by the names of their allocations."""

    def __init__(self, card: CardPlan, state: CardStream) -> None:
        self.card, self.state = card, state
        self.tensors: dict[str, CardTensor] = dict(card.staged)
        self._regions = {name: state.memory(name, arena.total_size) for name, arena in card.plan.arena_usages.items()}

    def of(self, name: str, step: int) -> CardTensor:
        """Return the tensor that operator `step` uses."""
        slot = self.card.plan.allocation_at(name, step)
        return self.at(name if slot is None else slot.tensor_id)

    def at(self, allocation: str) -> CardTensor:
        """Return the tensor in an allocation."""
        found = self.tensors.get(allocation)
        if found is None:
            slot = self.card.plan.tensor_allocs[allocation]
            shape = self.card.shapes[self.card.plan.copies.get(allocation, allocation)]
            part = CardPart(self._regions[slot.memory][slot.offset : slot.offset + 4 * prod(shape)])
            found = self.tensors[allocation] = CardTensor(part, FLOAT, shape)
        return found


class _Held(NamedTuple):
    """The bytes of a constant, and the tensor that keeps its arena."""

    data: CardRegion
    arena: CardTensor


def _names(program: CardProgram) -> dict[int, str]:
    """Return names for the values of a program: those of instructions, with numbers."""
    names = {k: f"constant {k}" for k in program.constants} | {k: f"input {k}" for k in program.inputs}
    return names | {one.result: f"{one.name or one.kernel}:{one.result}" for one in program.instructions}


def _columns(step: int, one: CardInstruction) -> str:
    """Return the name of the scratch memory of an instruction."""
    return f"scratch of {one.name or one.kernel}, op {step}"
