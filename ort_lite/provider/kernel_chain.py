"""The compiled partition of a KernelProvider: kernels that are called in order, over numbered values."""

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Node, Value
from ort_lite.provider.current import run_events
from ort_lite.provider.kernel_registry import Kernel, KernelRegistration
from ort_lite.provider.narrowing import narrow, narrows, widen
from ort_lite.provider.provider import CPU, DataTransfer, ExecutionProvider, Partition
from ort_lite.record import Record

Pair = tuple[Node, KernelRegistration]
_OMITTED, _UNREAD = 0, 1
"""The slots of inputs that are omitted, and of outputs that nothing reads."""


class _Move(Record):
    """A copy of a value between the device and the host, from one slot to another."""

    value: Value
    source: int
    target: int
    to_host: bool


class _Step(Record):
    """One kernel call. The kernel may write to input `out`; nothing reads the slots in `dead` afterwards."""

    node: Node
    kernel: Kernel
    moves: tuple[_Move, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    out: int | None
    dead: tuple[int, ...]


class KernelChain:
    """A compiled partition that calls kernels in order. It keeps no state between calls."""

    def __init__(self, partition: Partition, provider: ExecutionProvider, pairs: Sequence[Pair]) -> None:
        self._partition, self._provider, self._device = partition, provider, provider.device
        self._transfer: DataTransfer | None = provider.data_transfer()
        slots = _Slots(partition)
        self._inputs = [slots.write(value, value in partition.host_values) for value in partition.inputs]
        memory = _Memory(partition, pairs)
        self._steps = [slots.step(k, node, one, memory) for k, (node, one) in enumerate(pairs)]
        self._outputs = [slots.read(value, value in partition.host_values) for value in partition.outputs]
        self._moves = slots.take_moves()
        self._shared = memory.outputs_in_shared_memory()
        self._start: list[Any] = [None] * slots.count
        for (value, on_host), slot in slots.constants.items():
            x = value.constant
            self._start[slot] = x if on_host or x is None else self._copy(_Move(value, slot, slot, False), x)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        slots: list[Any] = list(self._start)
        for slot, x in zip(self._inputs, inputs, strict=True):
            slots[slot] = x
        events = run_events()
        for step in self._steps:
            begin = 0 if events is None else perf_counter_ns()
            for move in step.moves:
                slots[move.target] = self._copy(move, slots[move.source])
            operands = [slots[k] for k in step.reads]
            results = step.kernel(*operands) if step.out is None else step.kernel(*operands, out=operands[step.out])
            for slot, result in zip(step.writes, _several(results, step.node), strict=False):
                slots[slot] = np.asarray(result) if isinstance(result, np.generic) else result  # NumPy's scalars of rank 0
            if events is not None:
                events.kernel(step.node.name, begin, perf_counter_ns(), {"op_name": step.node.op_type})
            for slot in step.dead:
                slots[slot] = None
        for move in self._moves:
            slots[move.target] = self._copy(move, slots[move.source])
        return [self._output(value, slots[slot]) for value, slot in zip(self._partition.outputs, self._outputs, strict=True)]

    def facts(self) -> dict[str, int | str]:
        """Return the number of kernels."""
        return {"kernels": len(self._steps)}

    def _copy(self, move: _Move, x: Any) -> Any:
        if x is None or self._transfer is None:
            return x
        converts = narrows(self._provider, move.value.type)
        if move.to_host:
            x = self._transfer.copy(x, self._device, CPU)
            return widen(x) if converts else x
        return self._transfer.copy(narrow(x, move.value.name, self._device) if converts else x, CPU, self._device)

    def _output(self, value: Value, result: Any) -> Any:
        """Return a contiguous array that the caller owns, if it is on the CPU: NumPy kernels may return views."""
        if self._device != CPU and value not in self._partition.host_values:
            return result
        if value in self._shared:
            return np.array(result)
        return np.array(result, order="C") if isinstance(result, np.ndarray) and not result.flags.c_contiguous else result


def _several(results: Any, node: Node) -> Sequence[Any]:
    found = results if isinstance(results, tuple) else (results,)
    wanted = sum(value is not None for value in node.outputs)
    if len(found) < wanted:
        raise ProviderError(f"{node}: the kernel returned {len(found)} of {wanted} outputs").about(node)
    return found


class _Slots:
    """Numbers of values, one for the device and one for the host. A value is copied where the first kernel reads it elsewhere."""

    def __init__(self, partition: Partition) -> None:
        self._has_device = partition.provider.device != CPU
        self._known: dict[tuple[Value, bool], int] = {}
        self._moves: list[_Move] = []
        self._kept = {*partition.inputs, *partition.outputs}
        self.constants: dict[tuple[Value, bool], int] = {}
        self.count = 2

    def write(self, value: Value | None, on_host: bool) -> int:
        """Return a new slot for a value."""
        if value is None:
            return _UNREAD
        self._known[value, on_host and self._has_device] = slot = self.count
        self.count += 1
        return slot

    def read(self, value: Value | None, on_host: bool) -> int:
        """Return the slot of a value, with a copy from the other side if it is not on this one."""
        if value is None:
            return _OMITTED
        key = value, on_host and self._has_device
        if key not in self._known:
            slot = self.write(*key)
            if value.constant is not None:
                self.constants[key] = slot
            else:
                self._moves.append(_Move(value, self._known[value, not key[1]], slot, key[1]))
        return self._known[key]

    def take_moves(self) -> tuple[_Move, ...]:
        """Return the copies that were asked for since the last call."""
        moves, self._moves = tuple(self._moves), []
        return moves

    def step(self, k: int, node: Node, one: KernelRegistration, memory: "_Memory") -> _Step:
        """Return the call of kernel `k`."""
        reads = tuple(self.read(value, place in one.host_inputs) for place, value in enumerate(node.inputs))
        moves = self.take_moves()
        out = memory.overwritten(k, node, one)
        writes = tuple(self.write(value, place in one.host_outputs) for place, value in enumerate(node.outputs))
        values = (*node.inputs, *node.outputs)
        dead = {v for v in values if v is not None and v.constant is None and v not in self._kept and memory.last[v] == k}
        slots = tuple(self._known[key] for value in dead for key in ((value, False), (value, True)) if key in self._known)
        return _Step(node, one.make(node), moves, reads, writes, out, slots)


class _Memory:
    """The groups of values that share memory through aliases and in-place kernels, with their last readers."""

    def __init__(self, partition: Partition, pairs: Sequence[tuple[Node, KernelRegistration]]) -> None:
        self._partition = partition
        self._root: dict[Value, Value] = {}
        self.last: dict[Value, int] = {}
        for k, (node, one) in enumerate(pairs):
            self.last.update((value, k) for value in (*node.inputs, *node.outputs) if value is not None)
            for output, source in one.aliases.items():
                if output < len(node.outputs) and source < len(node.inputs):
                    self._join(node.outputs[output], node.inputs[source])

    def root(self, value: Value) -> Value:
        while value in self._root:
            value = self._root[value]
        return value

    def _join(self, value: Value | None, to: Value | None) -> None:
        if value is not None and to is not None and self.root(value) is not self.root(to):
            self._root[self.root(value)] = self.root(to)

    def _members(self, value: Value) -> list[Value]:
        root = self.root(value)
        return [other for other in self.last if self.root(other) is root]

    def overwritten(self, k: int, node: Node, one: KernelRegistration) -> int | None:
        """Return the input whose memory the kernel of node `k` may use: one that nothing reads later, with a matching type."""
        for output, source in one.inplace.items():
            a = node.outputs[output] if output < len(node.outputs) else None
            b = node.inputs[source] if source < len(node.inputs) else None
            if a is None or b is None or a.type is None or a.type != b.type or a.shape is None:
                continue
            members = self._members(b)
            given = {*self._partition.inputs, *self._partition.constants, *self._partition.outputs}
            reads = [value for value in node.inputs if value is not None and self.root(value) is self.root(b)]
            if len(reads) == 1 and not given & set(members) and all(self.last[value] <= k for value in members):
                self._join(a, b)
                return source
        return None

    def outputs_in_shared_memory(self) -> frozenset[Value]:
        """Return the partition's outputs that share memory with an input, a constant or an earlier output."""
        taken = {self.root(value) for value in (*self._partition.inputs, *self._partition.constants)}
        found = set()
        for value in self._partition.outputs:
            if self.root(value) in taken:
                found.add(value)
            taken.add(self.root(value))
        return frozenset(found)
