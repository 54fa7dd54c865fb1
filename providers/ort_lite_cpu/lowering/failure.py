"""A kernel's failure in words: what it found at the position that it reports, read while its operands are still in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ort_lite.graph import Node
from ort_lite.native.extents import contract
from ort_lite.native.lang import INDEX_OUT_OF_RANGE
from ort_lite.native.spec import Spec

_TYPES: dict[str, Any] = {
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


class CheckedInstruction(Protocol):
    """The members of a `lowered.Instruction` that are checked."""

    @property
    def node(self) -> Node:
        """The node that the call is for."""

    @property
    def spec(self) -> Spec:
        """The kernel."""

    @property
    def operands(self) -> Sequence[object]:
        """The operands."""

    @property
    def message(self) -> str | Callable[[Failure], str]:
        """The message of a failure, or a function that returns it."""


class Failure:
    """A call that failed; `at` is the position that the kernel reports."""

    def __init__(
        self, instruction: CheckedInstruction, descriptor: Sequence[int], memory: ctypes.Array[ctypes.c_int64], status: int
    ) -> None:
        """Read the call with this `descriptor`, and the run's table of base addresses."""
        self._instruction, self._descriptor, self._memory = instruction, descriptor, memory
        self._code, self.at = status & 255, status >> 8

    def has_operand(self, operand: int) -> bool:
        """Return True if the operand is more than a null pointer."""
        return self._instruction.operands[operand] is not None

    def element(self, operand: int, at: int | None = None) -> Any:
        """Return element `at`, by default the one at the position that is reported."""
        base, offset = self._descriptor[2 * operand : 2 * operand + 2]
        kind = _TYPES[self._instruction.spec.types[operand]]
        position = self.at if at is None else at
        return kind.from_address(self._memory[base] + offset + position * ctypes.sizeof(kind)).value

    def scalar(self, name: str) -> int:
        """Return the value that an integer parameter of the kernel had."""
        function = self._instruction.spec.function
        assert function is not None, f"{self._instruction.spec.name} is generated code, whose scalars have no names"
        number = [known for known, _ in contract(function).scalars].index(name)
        return int(self._descriptor[2 * len(self._instruction.operands) + number])

    def name(self, index: int) -> str:
        """Return the name of the node's input."""
        value = self._instruction.node.inputs[index]
        return "" if value is None else value.name

    def outside(self, what: str, operand: int, low: int, high: int, index: int | None = None, at: int | None = None) -> str:
        """Describe an element that is not in [low, high); the operand is the node's input `index`, by default of its number."""
        position = self.at if at is None else at
        name = self.name(operand if index is None else index)
        value = self.element(operand, position)
        return f"{what} {value} at position {position} of {name!r} is out of range [{low}, {high})"

    def __str__(self) -> str:
        message = self._instruction.message
        if not isinstance(message, str):
            return message(self)
        if message:
            return message.format(index=self.at)
        return f"index at position {self.at} is out of range" if self._code == INDEX_OUT_OF_RANGE else f"status {self._code}"
