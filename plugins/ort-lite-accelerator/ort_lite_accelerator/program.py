"""The card's compiler, which turns a partition into instructions over numbered values; saved programs; and their execution."""

import json
from collections.abc import Hashable, Mapping, Sequence
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
from ort_lite_accelerator.memory import CardStream, CardTensor, on_card, store, view
from ort_lite_accelerator.operators import OWN
from ort_lite_accelerator.queue import CardQueue, CardWork

CONVOLUTIONS = ("Conv", "FusedConv")
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "Flatten": {"axis": 1},
    "Gemm": {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0},
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
        operands = [numbers.operand(node, k) for k in range(1 if node.op_type == "Reshape" else len(node.inputs))]
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
    elif node.op_type == "Reshape" and node.inputs[1] is not None and node.inputs[1].constant is not None:
        found |= {"shape": node.inputs[1].constant.tolist(), "allowzero": node.attr("allowzero", 0)}
    return found | {name: node.attr(name, default) for name, default in _DEFAULTS.get(node.op_type, {}).items()}


class CardExecutable:
    """A program loaded on a card. Constants are copied to the card once, and all results stay there. Its states are streams.

    A call queues the program and returns. `absorbed` are constants that the session need not keep.
    """

    def __init__(self, program: CardProgram, arena: ArenaAllocator, queue: CardQueue, absorbed: Sequence[Value] = ()) -> None:
        self.program, self.absorbed = program._replace(constants={}), absorbed
        self._arena, self._queue = arena, queue
        self._constants = {k: store(array, arena) for k, array in program.constants.items()}

    def create_state(self) -> CardStream:
        """Create the stream of a thread."""
        return CardStream(self._arena)

    def release_state(self, state: CardStream) -> None:
        """Free the scratch memory of a stream."""
        state.release()

    def __call__(self, inputs: Sequence[CardTensor], state: CardStream) -> list[CardTensor]:
        return self.into_memory(inputs, [None] * len(self.program.outputs), state)

    def into_memory(self, inputs: Sequence[CardTensor], memory: Sequence[Chunk | None], state: CardStream) -> list[CardTensor]:
        """Queue the program, which writes outputs into chunks that ort_lite allocated from the arena.

        An output without a chunk, because its size was not known before the run, allocates its own. A profiled call waits.
        """
        results = [
            CardTensor(chunk, np.dtype(np.float32), shape) for chunk, shape in zip(memory, self._shapes(inputs), strict=True)
        ]
        events, after = run_events(), [x.work for x in inputs if x.work is not None]
        state.work = work = self._queue.submit(partial(self.execute, list(inputs), results, state, events), after)
        for result in results:
            result.work = work
        if events is not None:
            work.wait_on_host()
        return results

    def _shapes(self, inputs: Sequence[CardTensor]) -> list[tuple[int, ...] | None]:
        """Return the shapes of the outputs, as far as they follow from those of the inputs."""
        return [
            None if shape is None else tuple(dim if isinstance(dim, int) else inputs[dim[0]].shape[dim[1]] for dim in shape)
            for shape in self.program.shapes
        ]

    def record(self, state: CardStream) -> CardWork:
        """Return the completion of the stream's last call."""
        assert state.work is not None
        return state.work

    def execute(self, inputs: list[CardTensor], results: list[CardTensor], state: CardStream, events: Any) -> None:
        """Run the program on the queue's thread."""
        given = {k: result.memory for k, result in zip(self.program.outputs, results, strict=True)}
        values = {**self._constants, **dict(zip(self.program.inputs, inputs, strict=True))}
        for one in self.program.instructions:
            begin = perf_counter_ns()
            self._queue.launch()
            arrays = [None if k < 0 else view(values[k]) for k in one.operands]
            with np.errstate(all="ignore"):  # ONNX does not warn of overflows
                y = KERNELS[one.kernel](state, one.settings, *arrays)
            values[one.result] = store(np.asarray(y, np.float32), self._arena, given.get(one.result))
            if events is not None:
                about = {"kernel": one.kernel, "shape": "x".join(map(str, y.shape))}
                events.kernel(one.name, begin, perf_counter_ns(), about)
            for k in one.last:
                del values[k]
        for k, result in zip(self.program.outputs, results, strict=True):
            result.become(values[k])

    def to_bytes(self) -> bytes:
        """Serialize the program with its constants."""
        constants = {k: on_card(x) for k, x in self._constants.items()}
        return self.program._replace(constants=constants).to_bytes()

    def facts(self) -> dict[str, int | str]:
        """Return facts for `explain()`."""
        held = sum(x.nbytes for x in self._constants.values())
        return {"python_steps": len(self.program.instructions), "card": str(self._arena.device), "constant_bytes": held}
