"""The card's compiler, which turns a partition into instructions over numbered values; saved programs; and their execution."""

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from io import BytesIO
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node, Value
from ort_lite.memory.allocators import ArenaAllocator, Chunk
from ort_lite.provider import Partition, run_events
from ort_lite.transform import NHWC_DOMAIN
from ort_lite_accelerator.kernels import KERNELS
from ort_lite_accelerator.memory import CardMemory, CardStream, CardTensor, store, view
from ort_lite_accelerator.operators import OWN
from ort_lite_accelerator.queue import CardQueue, CardWork

CONVOLUTIONS = ("Conv", "FusedConv")
ELEMENTWISE = ("Add", "Mul", "Relu")
"""Kernels that may write their result over an operand of its shape."""
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "Concat": {"axis": 0},
    "Flatten": {"axis": 1},
    "Gather": {"axis": 0},
    "Gemm": {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0},
    "Reshape": {"allowzero": 0},
    "Shape": {"start": 0, "end": None},
}


class CardInstruction(NamedTuple):
    """One call of a kernel.

    Values are numbers. An omitted operand is -1; `last` lists the values that no later instruction reads.
    """

    name: str
    kernel: str
    operands: list[int]
    result: int
    settings: dict[str, Any]
    last: list[int]


class CardProgram(NamedTuple):
    """A compiled partition. Values of a run are numbered; constants have the layout that the kernels expect.

    `shapes` are those of the outputs: for each axis its size, or the input and axis that have the same. None if only a run tells.
    """

    inputs: list[int]
    outputs: list[int]
    instructions: list[CardInstruction]
    constants: dict[int, Array]
    shapes: Sequence[Sequence[int | Sequence[int]] | None] = ()

    def to_bytes(self) -> bytes:
        """Serialize the program."""
        head = np.frombuffer(json.dumps([self.inputs, self.outputs, self.instructions, self.shapes]).encode(), np.uint8)
        file, arrays = BytesIO(), {str(k): array for k, array in self.constants.items()}
        np.savez(file, allow_pickle=False, head=head, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "CardProgram":
        """Deserialize a program that `to_bytes` wrote."""
        with np.load(BytesIO(data), allow_pickle=False) as file:
            inputs, outputs, rows, shapes = json.loads(file["head"].tobytes())
            constants = {int(key): file[key] for key in file.files if key != "head"}
        return cls(inputs, outputs, [CardInstruction(*row) for row in rows], constants, shapes)


class _Numbers:
    """Numbers for values, and constants in the layout that the kernel which reads them expects."""

    def __init__(self) -> None:
        self.constants: dict[int, Array] = {}
        self._known: dict[Hashable, int] = {}

    def of(self, value: Value) -> int:
        return self._known.setdefault(value, len(self._known))

    def operand(self, node: Node, position: int) -> int:
        value = node.inputs[position]
        if value is None or value.constant is None:
            return -1 if value is None else self.of(value)
        groups = node.attr("group", 1) if node.op_type in CONVOLUTIONS and position == 1 else 0
        known = self._known.setdefault((value, groups), len(self._known))
        if known not in self.constants:
            self.constants[known] = _pack(value.constant, groups) if groups else value.constant.copy()
        return known


def compile_program(partition: Partition) -> CardProgram:
    """Compile a partition: one instruction per node, in the order of the nodes."""
    numbers = _Numbers()
    inputs = [numbers.of(value) for value in partition.inputs]
    rows = []
    for node in partition.nodes:
        operands = [numbers.operand(node, k) for k in range(len(node.inputs))]
        kernel = node.op_type.removeprefix("Fused")
        rows.append(CardInstruction(node.name, kernel, operands, numbers.of(node.output), _settings(node), []))
    outputs = [numbers.of(value) for value in partition.outputs]
    kept = {-1, *outputs, *numbers.constants}
    for row in reversed(rows):
        row.last.extend({*row.operands, row.result} - kept)
        kept.update(row.last)
    return CardProgram(
        inputs, outputs, rows, numbers.constants, [_shape(value, partition.inputs) for value in partition.outputs]
    )


def _shape(value: Value, inputs: Sequence[Value]) -> list[int | Sequence[int]] | None:
    """Return the shape of an output as `CardProgram.shapes` has it."""
    found = {dim: (k, axis) for k, x in enumerate(inputs) for axis, dim in enumerate(x.shape or ())}
    dims = None if value.shape is None else [dim if isinstance(dim, int) else found.get(dim) for dim in value.shape]
    return None if dims is None or None in dims else [dim for dim in dims if dim is not None]


def _pack(w: Array, groups: int) -> Array:
    """Reorder weights from (channels, depth, window ...) to (groups, taps, channels of a group), which the kernel multiplies with."""
    return np.ascontiguousarray(w.reshape(groups, w.shape[0] // groups, -1).transpose(0, 2, 1))


def _settings(node: Node) -> dict[str, Any]:
    """Return the settings of the node's kernel, with ONNX's defaults, as plain data that can be saved."""
    found: dict[str, Any] = {"last": node.domain in (NHWC_DOMAIN, OWN)}
    if node.op_type in (*CONVOLUTIONS, "MaxPool"):
        second = node.inputs[1] if len(node.inputs) > 1 else None
        window = list(node.attr("kernel_shape") or (second.shape[2:] if second is not None and second.shape else ()))
        ones = [1] * len(window)
        defaults: dict[str, Any] = {"pads": [0, 0] * len(window), "strides": ones, "dilations": ones, "relu": 0}
        found |= {"window": window, **{name: node.attr(name, default) for name, default in defaults.items()}}
    return found | {name: node.attr(name, default) for name, default in _DEFAULTS.get(node.op_type, {}).items()}


def find_aliases(program: CardProgram, partition: Partition) -> dict[int, int]:
    """Return the inputs over which outputs are computed, by position: operands that a last elementwise instruction reads."""
    makers = {one.result: one for one in program.instructions if one.kernel in ELEMENTWISE}
    found: dict[int, int] = {}
    for y, number in enumerate(program.outputs):
        operands = makers[number].operands if number in makers else []
        for x in (program.inputs.index(k) for k in operands if k in program.inputs and k in makers[number].last):
            same = partition.inputs[x].type == partition.outputs[y].type and partition.inputs[x].shape is not None
            if same and y not in found and x not in found.values():
                found[y] = x
    return found


class CardGraph:
    """A call that is repeated in the queue: the first one records instructions with the addresses of operands and results.

    The tensors at these addresses live as long as the recording.
    """

    def __init__(self, executable: "CardExecutable") -> None:
        self._executable = executable
        self._steps: list[tuple[CardInstruction, list[Array | None], Array]] = []
        self._tensors: Sequence[CardTensor | Array] = ()

    def __call__(self, inputs: Sequence[CardTensor], outputs: Sequence[CardTensor], state: CardStream) -> None:
        self.submit(inputs, outputs, state)

    def submit(self, inputs: Sequence[CardTensor], outputs: Sequence[CardTensor], state: CardStream) -> None:
        """Queue the call."""
        self._executable.submit(partial(self._execute, inputs, outputs, state), inputs, outputs, state)

    def _execute(self, inputs: Sequence[CardTensor], outputs: Sequence[CardTensor], state: CardStream) -> None:
        """Run on the queue's thread. A call that failed while it was recorded is recorded again."""
        if not self._steps:
            self._steps, self._tensors = self._executable.record_steps(inputs, outputs, state)
            return
        with np.errstate(all="ignore"):
            for one, operands, result in self._steps:
                self._executable.queue.launch()
                result[...] = KERNELS[one.kernel](state, one.settings, *operands)


class CardExecutable:
    """A program loaded on a card. Its states are streams. A call queues the program and returns.

    Constants are copied to the card once, and all results stay there, but for int64 values, which are arrays on the host:
    `on_host` has their positions among the outputs. `absorbed` are constants that the session need not keep.
    """

    def __init__(
        self,
        program: CardProgram,
        arena: ArenaAllocator,
        queue: CardQueue,
        absorbed: Sequence[Value] = (),
        aliases: Mapping[int, int] | None = None,
        on_host: Collection[int] = (),
    ) -> None:
        self.program, self.absorbed = program._replace(constants={}), absorbed
        self.aliases = aliases or {}
        self._places = {program.outputs[y]: program.inputs[x] for y, x in self.aliases.items()}
        self._arena, self.queue, self._on_host = arena, queue, on_host
        self._constants = {k: x if x.dtype == np.int64 else store(x, arena) for k, x in program.constants.items()}

    def create_state(self) -> CardStream:
        """Create the stream of a thread."""
        return CardStream(self._arena)

    def release_state(self, state: CardStream) -> None:
        """Free the scratch memory of a stream."""
        state.release()

    def __call__(self, inputs: Sequence[CardTensor | Array], state: CardStream) -> list[CardTensor | Array]:
        return self.into_memory(inputs, [None] * len(self.program.outputs), state)

    def into_memory(
        self, inputs: Sequence[CardTensor | Array], memory: Sequence[Chunk | None], state: CardStream
    ) -> list[CardTensor | Array]:
        """Queue the program, which writes outputs into chunks that ort_lite allocated from the arena.

        An output without a chunk, because its size was not known before the run, allocates its own. Host values have none.
        """
        return self._submit_program(inputs, memory, frozenset(), state)

    def call_donating(
        self, inputs: Sequence[CardTensor | Array], donated: frozenset[int], state: CardStream
    ) -> list[CardTensor | Array]:
        """Queue the program, which writes results of elementwise instructions over donated inputs that nothing reads later."""
        return self._submit_program(inputs, [None] * len(self.program.outputs), donated, state)

    def capture(self, inputs: Sequence[CardTensor], outputs: Sequence[CardTensor], state: CardStream) -> CardGraph:
        """Queue the program, which computes the outputs, and return its recording."""
        graph = CardGraph(self)
        graph.submit(inputs, outputs, state)
        return graph

    def record(self, state: CardStream) -> CardWork:
        """Return the completion of the stream's last call."""
        assert state.work is not None
        return state.work

    def submit(
        self,
        call: Callable[[], object],
        inputs: Sequence[CardTensor | Array],
        outputs: Sequence[CardTensor | Array],
        state: CardStream,
    ) -> CardWork:
        """Queue work that computes outputs, after the work that makes its inputs."""
        after = [x.work for x in inputs if isinstance(x, CardTensor) and x.work is not None]
        state.work = work = self.queue.submit(call, after)
        for y in outputs:
            if isinstance(y, CardTensor):
                y.work = work
        return work

    def _submit_program(
        self,
        inputs: Sequence[CardTensor | Array],
        memory: Sequence[Chunk | None],
        donated: frozenset[int],
        state: CardStream,
    ) -> list[CardTensor | Array]:
        """Queue the program with copies of host values, whose owner may change them. Waits for host outputs, and if it is profiled.

        A result is the donated input itself if `aliases` says that it is computed there.
        """
        inputs = [x if isinstance(x, CardTensor) else x.copy() for x in inputs]
        shapes = zip(memory, self._shapes(inputs), strict=True)
        results: list[CardTensor | Array] = [CardTensor(chunk, np.dtype(np.float32), shape) for chunk, shape in shapes]
        for y, x in self.aliases.items():
            results[y] = inputs[x] if x in donated else results[y]
        events, numbers = run_events(), frozenset(self.program.inputs[k] for k in donated)
        work = self.submit(partial(self.execute, inputs, results, numbers, state, events), inputs, list(results), state)
        if events is not None or self._on_host:
            work.wait_on_host()
        return results

    def _shapes(self, inputs: Sequence[CardTensor | Array]) -> list[tuple[int, ...] | None]:
        """Return the shapes of the outputs, as far as they follow from those of the inputs."""
        return [
            None if shape is None else tuple(dim if isinstance(dim, int) else inputs[dim[0]].shape[dim[1]] for dim in shape)
            for shape in self.program.shapes
        ]

    # On the queue's thread

    def record_steps(
        self, inputs: Sequence[CardTensor], outputs: Sequence[CardTensor], state: CardStream
    ) -> tuple[list[tuple[CardInstruction, list[Array | None], Array]], list[CardTensor | Array]]:
        """Run the program into the outputs. Return its instructions with what they read and write, and all tensors."""
        values: dict[int, CardTensor | Array] = {**self._constants, **dict(zip(self.program.inputs, inputs, strict=True))}
        given = dict(zip(self.program.outputs, outputs, strict=True))
        made: list[CardTensor | Array] = [*values.values(), *outputs]
        steps = []
        for one in self.program.instructions:
            self.queue.launch()
            operands = [None if k < 0 else _kernel_view(values[k]) for k in one.operands]
            with np.errstate(all="ignore"):
                y = KERNELS[one.kernel](state, one.settings, *operands)
            if y.dtype == np.int64:
                values[one.result] = np.array(y)
            else:
                values[one.result] = given.get(one.result) or store(np.asarray(y, np.float32), self._arena)
                _kernel_view(values[one.result])[...] = y
            made.append(values[one.result])
            steps.append((one, operands, _kernel_view(values[one.result])))
        return steps, made

    def execute(
        self,
        inputs: Sequence[CardTensor | Array],
        results: list[CardTensor | Array],
        donated: frozenset[int],
        state: CardStream,
        events: Any,
    ) -> None:
        """Run the program. `donated` has the inputs that may be overwritten, by number. Host outputs replace what is in `results`."""
        given = {k: x.memory for k, x in zip(self.program.outputs, results, strict=True) if isinstance(x, CardTensor)}
        values: dict[int, CardTensor | Array] = {**self._constants, **dict(zip(self.program.inputs, inputs, strict=True))}
        for one in self.program.instructions:
            begin = perf_counter_ns()
            self.queue.launch()
            arrays = [None if k < 0 else _kernel_view(values[k]) for k in one.operands]
            with np.errstate(all="ignore"):  # ONNX does not warn of overflows
                y = KERNELS[one.kernel](state, one.settings, *arrays)
            values[one.result] = self._store_result(one, y, donated, values, given.get(one.result))
            if events is not None:
                about = {"kernel": one.kernel, "shape": "x".join(map(str, y.shape))}
                events.kernel(one.name, begin, perf_counter_ns(), about)
            for k in one.last:
                del values[k]
        for position, number in enumerate(self.program.outputs):
            made, result = values[number], results[position]
            if isinstance(made, CardTensor) and isinstance(result, CardTensor):
                result.become(made)
            else:
                results[position] = made

    def _store_result(
        self,
        one: CardInstruction,
        y: Array,
        donated: frozenset[int],
        values: Mapping[int, CardTensor | Array],
        chunk: CardMemory | None,
    ) -> CardTensor | Array:
        """Return a result where it stays: on the host, over a donated operand, the declared one first, or in memory of its own."""
        if y.dtype == np.int64:
            return np.array(y)
        y = np.asarray(y, np.float32)
        able = [k for k in one.operands if k in donated and k in one.last and values[k].shape == y.shape]
        if one.kernel not in ELEMENTWISE or not able:
            return store(y, self._arena, chunk)
        declared = self._places.get(one.result)
        place = values[declared if declared in able else able[0]]
        assert isinstance(place, CardTensor)  # host values are never donated
        view(place)[...] = y
        return place

    def to_bytes(self) -> bytes:
        """Serialize the program with its constants."""
        constants = {k: _kernel_view(x) for k, x in self._constants.items()}
        return self.program._replace(constants=constants).to_bytes()

    def facts(self) -> dict[str, int | str]:
        """Return facts for `explain()`."""
        held = sum(x.nbytes for x in self._constants.values())
        return {"python_steps": len(self.program.instructions), "card": str(self._arena.device), "constant_bytes": held}


def _kernel_view(x: CardTensor | Array) -> Array:
    """Return a value as the kernels see it: a tensor on the card, or a host value."""
    return view(x) if isinstance(x, CardTensor) else x
