"""The card's compiler: a partition becomes instructions over numbered values, which can be saved; and what runs them."""

import json
from collections.abc import Hashable, Sequence
from io import BytesIO
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node, Value
from ort_lite.memory.allocators import ArenaAllocator
from ort_lite.provider import Partition, ProfileEvent
from ort_lite.transform import NHWC_DOMAIN
from ort_lite_accelerator.kernels import KERNELS
from ort_lite_accelerator.memory import Stream, Tensor, on_card, stored
from ort_lite_accelerator.operators import OWN


class Instruction(NamedTuple):
    """`operands`, `result` and `last`, the values that nobody reads any more, are numbers; an operand left out is -1."""

    name: str
    kernel: str
    operands: list[int]
    result: int
    settings: dict[str, Any]
    last: list[int]


class Program(NamedTuple):
    """What the card's compiler made of a partition; values of a run are numbered, constants are in the form that kernels want."""

    inputs: list[int]
    outputs: list[int]
    instructions: list[Instruction]
    constants: dict[int, Array]

    def to_bytes(self) -> bytes:
        head = json.dumps([self.inputs, self.outputs, self.instructions]).encode()
        file = BytesIO()
        np.savez(file, head=np.frombuffer(head, np.uint8), **{str(k): array for k, array in self.constants.items()})
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Program":
        with np.load(BytesIO(data), allow_pickle=False) as file:
            inputs, outputs, rows = json.loads(file["head"].tobytes())
            constants = {int(key): file[key] for key in file.files if key != "head"}
        return cls(inputs, outputs, [Instruction(*row) for row in rows], constants)


def compiled(partition: Partition) -> Program:
    """Raises KeyError for a node that is none of the card's."""
    numbers: dict[Hashable, int] = {}
    constants: dict[int, Array] = {}

    def number(node: Node, value: Value | None, position: int) -> int:
        if value is None:
            return -1
        packed = node.op_type in ("Conv", "FusedConv") and position == 1
        key = (value, node.attr("group", 1)) if packed else value
        known = numbers.setdefault(key, len(numbers))
        if value.constant is not None and known not in constants:
            constants[known] = _packed(value.constant, node.attr("group", 1)) if packed else value.constant.copy()
        return known

    inputs = [numbers.setdefault(value, len(numbers)) for value in partition.inputs]
    rows = []
    for node in partition.nodes:
        read = node.inputs[:1] if node.op_type == "Reshape" else node.inputs
        operands = [number(node, value, k) for k, value in enumerate(read)]
        result = numbers.setdefault(node.output, len(numbers))
        rows.append(Instruction(node.name, node.op_type.removeprefix("Fused"), operands, result, _settings(node), []))
    outputs = [numbers[value] for value in partition.outputs]
    kept = {-1, *outputs, *constants}
    for row in reversed(rows):
        row.last.extend({*row.operands, row.result} - kept)
        kept.update(row.last)
    return Program(inputs, outputs, rows, constants)


def _packed(w: Array, groups: int) -> Array:
    """(channels, depth, window ...) -> (groups, taps, channels of a group): what the kernel multiplies with."""
    return np.ascontiguousarray(w.reshape(groups, w.shape[0] // groups, -1).transpose(0, 2, 1))


def _settings(node: Node) -> dict[str, Any]:
    """Of the node's kernel, with ONNX's defaults; plain data, so that programs can be saved."""
    last = node.domain in (NHWC_DOMAIN, OWN)
    if node.op_type in ("Conv", "FusedConv", "MaxPool"):
        weights = node.inputs[1] if node.op_type != "MaxPool" else None
        window = list(node.attr("kernel_shape") or (weights.shape[2:] if weights is not None and weights.shape else ()))
        rank = len(window)
        lists = {name: list(node.attr(name) or [1] * rank) for name in ("strides", "dilations")}
        return {
            "last": last, "window": window, "pads": list(node.attr("pads") or [0] * 2 * rank), "relu": node.attr("relu", 0), **lists,
        }  # fmt: skip
    if node.op_type == "Reshape":
        shape = node.inputs[1]
        assert shape is not None and shape.constant is not None
        return {"shape": shape.constant.tolist(), "allowzero": node.attr("allowzero", 0)}
    if node.op_type == "Gemm":
        return {name: node.attr(name, default) for name, default in (("alpha", 1.0), ("beta", 1.0), ("transA", 0), ("transB", 0))}
    return {"last": last, "axis": node.attr("axis", 1)}


class Profile:
    """What the card did while somebody wanted to know; None: nobody does."""

    def __init__(self) -> None:
        self.events: list[ProfileEvent] | None = None


class Executable:
    """A program on a card: constants are there from the start, every result goes there. States are streams."""

    def __init__(self, program: Program, arena: ArenaAllocator, profile: Profile, absorbed: Sequence[Value] = ()) -> None:
        self.program, self.absorbed = program._replace(constants={}), absorbed
        self._arena, self._profile = arena, profile
        self._constants = {k: stored(array, arena) for k, array in program.constants.items()}

    def create_state(self) -> Stream:
        return Stream(self._arena)

    def release_state(self, state: Stream) -> None:
        state.release()

    def __call__(self, inputs: Sequence[Tensor], state: Stream) -> list[Tensor]:
        values = {**self._constants, **dict(zip(self.program.inputs, inputs, strict=True))}
        for one in self.program.instructions:
            begin, events = perf_counter_ns(), self._profile.events
            arrays = [None if k < 0 else on_card(values[k]) for k in one.operands]
            with np.errstate(all="ignore"):  # ONNX does not warn of overflows
                y = KERNELS[one.kernel](state, one.settings, *arrays)
            values[one.result] = stored(np.asarray(y, np.float32), self._arena)
            if events is not None:
                shape = "x".join(map(str, y.shape))
                events.append(ProfileEvent(one.name, begin, perf_counter_ns(), {"kernel": one.kernel, "shape": shape}))
            for k in one.last:
                del values[k]
        return [values[k] for k in self.program.outputs]

    def to_bytes(self) -> bytes:
        constants = {k: on_card(x) for k, x in self._constants.items()}
        return self.program._replace(constants=constants).to_bytes()

    def facts(self) -> dict[str, int | str]:
        held = sum(x.nbytes for x in self._constants.values())
        return {"python_steps": len(self.program.instructions), "card": str(self._arena.device), "constant_bytes": held}
